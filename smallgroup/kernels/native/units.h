// A unit is what convolutions of cells are made of: [normalise], [ReLU], [depthwise], convolution, and the statistics
// of the result for the batch norm behind it, which is left to whoever uses the result.
#pragma once

#include "depthwise.h"
#include "products.h"

namespace smallgroup {

using at::TensorList;
using at::IntArrayRef;

// One unit: its weights in the layout of the kernels, padded with zeros to whole vectors.
template <typename T>
struct Unit {
  bool depthwise;
  int64_t k, dilation, pad, in, out, in_p, out_p;
  std::vector<T> filter, flipped;  // [k * k, in_p]: the depthwise filter, and turned around
  std::vector<T> matrix;           // [in, out_p]: the convolution of one pixel
  std::vector<T> back;             // [out, in_p]: the same for gradients

  Unit(const Tensor& f, const Tensor& m, int64_t dilation_, bool backward) : dilation(dilation_) {
    TORCH_CHECK(m.dim() == 4 && m.numel() > 0, "a matrix must be [out, in, 1, 1] and not empty, but it is ", m.sizes());
    TORCH_CHECK(f.dim() == 4 || f.numel() == 0, "a depthwise filter must be [in, 1, k, k], but it is ", f.sizes());
    depthwise = f.numel() > 0;
    in = m.size(1);
    out = m.size(0);
    TORCH_CHECK(m.size(2) == 1 && m.size(3) == 1, "convolutions must be of one pixel");
    TORCH_CHECK(!depthwise || (f.size(0) == in && f.size(1) == 1 && f.size(2) == f.size(3)),
                "a depthwise filter must fit the convolution behind it");
    k = depthwise ? f.size(2) : 1;
    TORCH_CHECK(!depthwise || k == 3 || k == 5 || k == 7, "depthwise kernels are 3, 5 or 7 wide");
    pad = dilation * (k / 2);
    in_p = round_up(in, lanes<T>());
    out_p = round_up(out, lanes<T>());
    if (depthwise) {
      const auto a = f.accessor<T, 4>();
      filter.assign(k * k * in_p, T(0));
      flipped.assign(k * k * in_p, T(0));
      for (int64_t t = 0; t < k * k; ++t)
        for (int64_t c = 0; c < in; ++c) {
          filter[t * in_p + c] = a[c][0][t / k][t % k];
          flipped[(k * k - 1 - t) * in_p + c] = a[c][0][t / k][t % k];
        }
    }
    const auto a = m.accessor<T, 4>();
    (backward ? back : matrix).assign(backward ? out * in_p : in * out_p, T(0));
    for (int64_t o = 0; o < out; ++o)
      for (int64_t c = 0; c < in; ++c) (backward ? back[o * in_p + c] : matrix[c * out_p + o]) = a[o][c][0][0];
  }
};

// Sizes that all units of a call share.
template <typename T>
struct Frame {
  int64_t n, c, h, w, cp, stride, pad, ho, wo, row;  // row: of the image with its border

  Frame(const Images& x, int64_t stride_, const std::vector<Unit<T>>& units)
      : n(x.n), c(x.c), h(x.h), w(x.w), cp(round_up(x.c, lanes<T>())), stride(stride_), pad(0) {
    for (const auto& unit : units) {
      TORCH_CHECK(unit.in == c, "units must take the channels of their input");
      pad = std::max(pad, unit.pad);
    }
    ho = (h - 1) / stride + 1;
    wo = (w - 1) / stride + 1;
    row = (w + 2 * pad) * cp;
  }
  bool seamless() const { return pad == 0 && stride == 1; }
  int64_t bordered() const { return (h + 2 * pad) * row; }
  // The upper left tap of a unit for output row i, in an image with border.
  int64_t at(const Unit<T>& unit, int64_t i, int64_t step) const {
    return (i * step + pad - unit.pad) * row + (pad - unit.pad) * cp;
  }
};

// The image as the units see it, inside the border.
template <typename T>
void fill_input(const Frame<T>& frame, const T* x, int64_t pixel, const Norm<T>& norm, bool relu, T* to) {
  constexpr int64_t v = lanes<T>();
  const Vec<T> zero(T(0));
  Scratch<T> factor(frame.cp);
  for (int64_t c = 0; c < frame.cp; ++c) factor.data()[c] = norm.rstd()[c] * norm.scale()[c];
  for (int64_t i = 0; i < frame.h; ++i) {
    T* row = to + (i + frame.pad) * frame.row + frame.pad * frame.cp;
    const T* from = x + i * frame.w * pixel;
    for (int64_t j = 0; j < frame.w; ++j, row += frame.cp, from += pixel)
      for (int64_t c = 0; c < frame.c; c += v) {
        Vec<T> value = load(from + c, frame.c - c);
        if (norm.present)
          value = at::vec::fmadd(value - Vec<T>::loadu(norm.mean() + c), Vec<T>::loadu(factor.data() + c),
                                 Vec<T>::loadu(norm.shift() + c));
        if (relu) value = at::vec::maximum(value, zero);
        value.store(row + c);
      }
  }
}

// The images that units work on, one at a time: those of the batch, or parts of them, if no unit looks beyond a pixel.
template <typename T>
Images pieces(const Tensor& x, int64_t stride, const std::vector<Unit<T>>& units) {
  constexpr int64_t kValues = 1 << 14;
  const Images whole(x);
  for (const auto& unit : units)
    if (unit.pad > 0) return whole;
  return stride == 1 ? whole.in_strips(kValues) : whole;
}

template <typename T>
std::vector<Unit<T>> make_units(TensorList filters, TensorList matrices, IntArrayRef dilations, bool backward) {
  std::vector<Unit<T>> units;
  for (size_t u = 0; u < matrices.size(); ++u) units.emplace_back(filters[u], matrices[u], dilations[u], backward);
  return units;
}

// What the kernels rely on without looking again.
inline void check_calls(TensorList xs, IntArrayRef sources, TensorList filters, TensorList matrices,
                        IntArrayRef dilations, int64_t stride) {
  check_stride(stride);
  const size_t count = matrices.size();
  TORCH_CHECK(count > 0, "there must be units");
  TORCH_CHECK(sources.size() == count && filters.size() == count && dilations.size() == count,
              "every unit must have a source, a filter or none, a matrix and a dilation");
  for (const int64_t source : sources)
    TORCH_CHECK(source >= 0 && source < static_cast<int64_t>(xs.size()), "a source must be one of the inputs");
  for (const int64_t dilation : dilations)
    TORCH_CHECK(dilation >= 1 && dilation <= kLargestStep, "a dilation must be from 1 to ", kLargestStep, ", but it is ",
                dilation);
  for (const auto& x : xs)
    TORCH_CHECK(x.sizes() == xs[0].sizes() && x.scalar_type() == xs[0].scalar_type(), "inputs must be of one size");
}

// Rows that are convolved at a time: enough pixels for the blocks of a product.
inline int64_t rows_at_a_time(int64_t ho, int64_t wo) {
  return std::min(ho, std::max<int64_t>(1, 96 / wo));
}

// `rows` rows of outputs from row i on: the depthwise result, or nothing where there is none.
template <typename T>
void depthwise_rows(const Frame<T>& frame, const Unit<T>& unit, const T* input, int64_t i, int64_t rows, T* to) {
  for (int64_t r = 0; r < rows; ++r)
    depthwise_row<T>(unit.k, input + frame.at(unit, i + r, frame.stride), unit.dilation * frame.row,
                     unit.dilation * frame.cp, frame.stride * frame.cp, unit.filter.data(), frame.cp, frame.wo,
                     to + r * frame.wo * frame.cp, false);
}

template <typename T>
void unit_forward(const Frame<T>& frame, const Unit<T>& unit, const T* input, T* rows, T* y, Moments<T>& moments,
                  double* summary) {
  const int64_t pixels = frame.ho * frame.wo, step = rows_at_a_time(frame.ho, frame.wo);
  bool first = true;
  for (int64_t i = 0; i < frame.ho; i += step) {
    const int64_t count = std::min(step, frame.ho - i);
    T* out = y + i * frame.wo * unit.out;
    if (unit.depthwise) {
      depthwise_rows(frame, unit, input, i, count, rows);
      product<T>(rows, frame.cp, count * frame.wo, unit.matrix.data(), unit.out_p, unit.in, out, unit.out, unit.out);
    } else {
      // Without border and stride the rows of an image are one.
      const int64_t joined = frame.seamless() ? count : 1;
      for (int64_t r = 0; r < count; r += joined)
        product<T>(input + frame.at(unit, i + r, frame.stride), frame.stride * frame.cp, joined * frame.wo,
                   unit.matrix.data(), unit.out_p, unit.in, out + r * frame.wo * unit.out, unit.out, unit.out);
    }
    if (first) moments.begin(out);
    first = false;
    moments.add(out, count * frame.wo, unit.out);
  }
  moments.end(pixels, summary, summary + unit.out);
}

template <typename T>
std::tuple<std::vector<Tensor>, std::vector<Tensor>> units_forward_t(
    TensorList xs, TensorList statistics, TensorList affines, bool relu, IntArrayRef sources, TensorList filters,
    TensorList matrices, IntArrayRef dilations, int64_t stride, double epsilon) {
  const auto units = make_units<T>(filters, matrices, dilations, false);
  const Images shape = pieces(xs[0], stride, units);
  const Frame<T> frame(shape, stride, units);
  const auto norms = make_norms<T>(statistics, affines, xs.size(), frame.c);
  const int64_t inputs = xs.size(), n = frame.n;
  std::vector<const T*> x;
  std::vector<int64_t> pixel;
  for (const auto& each : xs) {
    x.push_back(each.template const_data_ptr<T>());
    pixel.push_back(Images(each).pixel);
  }
  std::vector<Tensor> ys, found;
  std::vector<T*> y;
  std::vector<std::vector<double>> summaries;
  for (const auto& unit : units) {
    ys.push_back(new_images(xs[0], xs[0].size(0), unit.out, (xs[0].size(2) - 1) / stride + 1, frame.wo));
    found.push_back(at::empty({3, unit.out}, xs[0].options()));
    y.push_back(ys.back().template data_ptr<T>());
    summaries.emplace_back(n * 2 * unit.out);
  }
  at::parallel_for(0, inputs * n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> input(frame.bordered()), rows(rows_at_a_time(frame.ho, frame.wo) * frame.wo * frame.cp);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t s = task / n, i = task % n;
      fill_input<T>(frame, x[s] + i * shape.pixels() * pixel[s], pixel[s], norms[s], relu, input.data());
      for (size_t u = 0; u < units.size(); ++u) {
        if (sources[u] != s) continue;
        Moments<T> moments(units[u].out);
        unit_forward(frame, units[u], input.data(), rows.data(), y[u] + i * frame.ho * frame.wo * units[u].out, moments,
                     summaries[u].data() + i * 2 * units[u].out);
      }
    }
  });
  for (size_t u = 0; u < units.size(); ++u)
    normalisers<T>(summaries[u].data(), n, units[u].out, frame.ho * frame.wo, epsilon, found[u].template data_ptr<T>());
  return {ys, found};
}

// The gradient of a unit's result on one image: as it is, or made from that of a sum it is a term of, a few rows at a
// time.
template <typename T>
struct Incoming {
  const T* g;
  int64_t pixel, channels;  // of g, and of the result
  const Slope<T>* slope;    // null: as it is
  const T* y;
  T weight;
  T* made;

  const T* at(int64_t first, int64_t pixels) const {
    if (!slope) return g + first * channels;
    slope->apply(g + first * pixel, pixel, y + first * channels, channels, pixels, weight, made);
    return made;
  }
};

// Gradients of one unit on one image: its weights' are added to `filter` and `matrix` (null: not wanted), its input's
// to `to`, which has a border; or written there, if it is the first and has one for every pixel.
template <typename T>
struct UnitGradient {
  const Frame<T>& frame;
  const Unit<T>& unit;
  T* filter;
  T* matrix;
  bool added;

  static bool reaches_all(const Frame<T>& frame) { return frame.stride == 1; }

  void add(const T* input, const Incoming<T>& dy, T* rows, T* inner, T* to) const {
    if (unit.depthwise) {
      separable(input, dy, rows, inner, to);
    } else {
      pointwise(input, dy, to);
    }
  }

 private:
  // `inner` is the gradient of the depthwise result, with a border where the stride is one.
  void separable(const T* input, const Incoming<T>& dy, T* rows, T* inner, T* to) const {
    const int64_t cp = frame.cp, step = rows_at_a_time(frame.ho, frame.wo);
    const int64_t row = unit.dilation * frame.row, pixel = unit.dilation * cp, stride = frame.stride * cp;
    const bool gathers = frame.stride == 1;
    int64_t done = 0;  // rows of the input whose gradient is complete
    for (int64_t i = 0; i < frame.ho; i += step) {
      const int64_t count = std::min(step, frame.ho - i);
      const T* g = dy.at(i * frame.wo, count * frame.wo);
      if (matrix) {
        depthwise_rows(frame, unit, input, i, count, rows);
        outer<T>(g, unit.out, unit.out, rows, cp, cp, count * frame.wo, matrix, cp);
      }
      for (int64_t r = 0; r < count; ++r) {
        T* d = gathers ? inner + (i + r + frame.pad) * frame.row + frame.pad * cp : rows;
        product<T>(g + r * frame.wo * unit.out, unit.out, frame.wo, unit.back.data(), cp, unit.out, d, cp, cp);
        const int64_t place = frame.at(unit, i + r, frame.stride);
        if (filter) filter_gradient<T>(unit.k, input + place, row, pixel, stride, d, cp, frame.wo, filter);
        if (!gathers) scatter_row<T>(unit.k, to + place, row, pixel, stride, unit.filter.data(), cp, frame.wo, d);
      }
      if (!gathers) continue;
      // While the rows of `inner` that these need are near.
      const int64_t ready = i + count == frame.ho ? frame.h : i + count - unit.pad;
      for (; done < ready; ++done)
        depthwise_row<T>(unit.k, inner + frame.at(unit, done, 1), row, pixel, cp, unit.flipped.data(), cp, frame.w,
                         to + (done + frame.pad) * frame.row + frame.pad * cp, added);
    }
  }

  void pointwise(const T* input, const Incoming<T>& dy, T* to) const {
    const int64_t cp = frame.cp, joined = frame.seamless() ? rows_at_a_time(frame.ho, frame.wo) : 1;
    for (int64_t i = 0; i < frame.ho; i += joined) {
      const int64_t place = frame.at(unit, i, frame.stride), pixels = std::min(joined, frame.ho - i) * frame.wo;
      const T* g = dy.at(i * frame.wo, pixels);
      if (matrix) outer<T>(g, unit.out, unit.out, input + place, frame.stride * cp, cp, pixels, matrix, cp);
      product<T>(g, unit.out, pixels, unit.back.data(), cp, unit.out, to + place, frame.stride * cp, cp, added);
    }
  }
};

// The gradient that reaches x of one image: through ReLU, and if x is normalised, through that, its statistics taken for
// constants. Added to `sums`, two rows: over the pixels, of what reaches the normalised x, and of that times the normalised x.
template <typename T>
void finish_input(const Frame<T>& frame, const T* input, const T* bordered, bool relu, const T* x, int64_t pixel,
                  const Norm<T>& norm, T* sums, T* dx) {
  constexpr int64_t v = lanes<T>();
  constexpr int64_t B = 4;
  const Vec<T> zero(T(0));
  for (int64_t i = 0; i < frame.h; ++i)  // a row stays in the nearest memory for all channels
    for (int64_t c = 0; c < frame.c; c += v) {
      const int64_t count = frame.c - c;
      const int64_t place = (i + frame.pad) * frame.row + frame.pad * frame.cp + c, row = i * frame.w;
      const auto reached = [&](int64_t j) {
        const Vec<T> g = Vec<T>::loadu(bordered + place + j * frame.cp);
        return relu ? Vec<T>::blendv(zero, g, Vec<T>::loadu(input + place + j * frame.cp) > zero) : g;
      };
      if (!norm.present) {
        for (int64_t j = 0; j < frame.w; ++j) store(reached(j), dx + (row + j) * frame.c + c, count);
        continue;
      }
      const Vec<T> m = Vec<T>::loadu(norm.mean() + c), r = Vec<T>::loadu(norm.rstd() + c);
      const Vec<T> s = Vec<T>::loadu(norm.scale() + c) * r;
      Vec<T> one[B], two[B];
      for (int64_t b = 0; b < B; ++b) one[b] = two[b] = zero;
      const auto through = [&](int64_t j, Vec<T>& a, Vec<T>& b) {
        const Vec<T> g = reached(j);
        a = a + g;
        b = at::vec::fmadd(g, (load(x + (row + j) * pixel + c, count) - m) * r, b);
        store(s * g, dx + (row + j) * frame.c + c, count);
      };
      int64_t j = 0;
      for (; j + B <= frame.w; j += B)
        for (int64_t b = 0; b < B; ++b) through(j + b, one[b], two[b]);
      for (; j < frame.w; ++j) through(j, one[0], two[0]);
      (Vec<T>::loadu(sums + c) + ((one[0] + one[1]) + (one[2] + one[3]))).store(sums + c);
      T* products = sums + frame.cp + c;
      (Vec<T>::loadu(products) + ((two[0] + two[1]) + (two[2] + two[3]))).store(products);
    }
}

// The weights' gradients of one unit, out of the layout of the kernels.
template <typename T>
std::pair<Tensor, Tensor> weights_of(const Unit<T>& unit, const T* from, const at::TensorOptions& options) {
  Tensor filter = at::zeros({0}, options);
  if (unit.depthwise) {
    filter = at::empty({unit.in, 1, unit.k, unit.k}, options);
    auto a = filter.template accessor<T, 4>();
    for (int64_t t = 0; t < unit.k * unit.k; ++t)
      for (int64_t c = 0; c < unit.in; ++c) a[c][0][t / unit.k][t % unit.k] = from[t * unit.in_p + c];
    from += unit.k * unit.k * unit.in_p;
  }
  Tensor matrix = at::empty({unit.out, unit.in, 1, 1}, options);
  for (int64_t o = 0; o < unit.out; ++o)
    std::copy(from + o * unit.in_p, from + o * unit.in_p + unit.in, matrix.template data_ptr<T>() + o * unit.in);
  return {filter, matrix};
}

using Lists5 = std::tuple<std::vector<Tensor>, std::vector<Tensor>, std::vector<Tensor>, std::vector<Tensor>,
                          std::vector<Tensor>>;

// Gradients of the inputs, of their statistics, scales and shifts, of the filters and of the matrices; weights only if
// wanted. Where there are coefficients, a gradient is that of a sum of which the unit's result is a term, with a weight for all
// images, or for each.
template <typename T>
Lists5 units_backward_t(TensorList gradients, TensorList results, TensorList coefficients, TensorList weights,
                        TensorList xs, TensorList statistics, TensorList affines, bool relu, IntArrayRef sources,
                        TensorList filters, TensorList matrices, IntArrayRef dilations, int64_t stride,
                        bool of_weights) {
  const auto units = make_units<T>(filters, matrices, dilations, true);
  const Images shape = pieces(xs[0], stride, units);
  const Frame<T> frame(shape, stride, units);
  const auto norms = make_norms<T>(statistics, affines, xs.size(), frame.c);
  const int64_t inputs = xs.size(), n = frame.n, cp = frame.cp, count = units.size();
  std::vector<const T*> x, dy;
  std::vector<int64_t> pixel, dy_pixel;
  std::vector<Tensor> dxs;
  std::vector<T*> dx;
  for (const auto& each : xs) {
    x.push_back(each.template const_data_ptr<T>());
    pixel.push_back(Images(each).pixel);
    dxs.push_back(new_images(each, each.size(0), frame.c, each.size(2), each.size(3)));
    dx.push_back(dxs.back().template data_ptr<T>());
  }
  int64_t widest = cp;
  std::vector<Slope<T>> slopes;
  std::vector<const T*> y, weight;
  TORCH_CHECK(static_cast<int64_t>(gradients.size()) == count && results.size() == coefficients.size() &&
                  weights.size() == coefficients.size() &&
                  (coefficients.empty() || static_cast<int64_t>(coefficients.size()) == count),
              "every unit must have a gradient");
  for (size_t u = 0; u < coefficients.size(); ++u) {
    TORCH_CHECK(results[u].sizes() == gradients[u].sizes() && Images(results[u]).pixel == units[u].out,
                "results must be dense and of the size of their gradients");
    TORCH_CHECK((weights[u].numel() == 1 || weights[u].numel() == xs[0].size(0)) && weights[u].is_contiguous(),
                "a term must have one weight, or one for every image");
    slopes.emplace_back(coefficients[u], units[u].out, true);
    y.push_back(results[u].template const_data_ptr<T>());
    weight.push_back(weights[u].template const_data_ptr<T>());
  }
  std::vector<int64_t> start(count + 1, 0);  // of each unit's weights in the sums of a thread
  for (int64_t u = 0; u < count; ++u) {
    const auto& unit = units[u];
    const Images g(gradients[u]);
    TORCH_CHECK(g.n == xs[0].size(0) && g.c == unit.out && g.h == (xs[0].size(2) - 1) / stride + 1 &&
                    g.w == frame.wo && (g.pixel == g.c || !slopes.empty()),
                "gradients must be of the size of the results, and dense");
    dy.push_back(gradients[u].template const_data_ptr<T>());
    dy_pixel.push_back(g.pixel);
    start[u + 1] = start[u] + (unit.depthwise ? unit.k * unit.k * cp : 0) + unit.out * cp;
    widest = std::max(widest, unit.out);
  }
  std::vector<std::vector<T>> sums(at::get_num_threads());  // of the weights' gradients: threads have fixed shares
  std::vector<T> of_norms(inputs * n * 2 * cp, T(0));       // sums of g and of g x^, by input and image
  at::parallel_for(0, inputs * n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> input(frame.bordered()), bordered(frame.bordered());
    Scratch<T> inner(frame.bordered());
    const int64_t at_once = rows_at_a_time(frame.ho, frame.wo) * frame.wo;
    Scratch<T> rows(at_once * cp), made(at_once * widest);
    auto& own = sums[at::get_thread_num()];
    if (of_weights && own.empty()) own.assign(start[count], T(0));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t s = task / n, i = task % n;
      const T* image = x[s] + i * shape.pixels() * pixel[s];
      fill_input<T>(frame, image, pixel[s], norms[s], relu, input.data());
      bool added = !UnitGradient<T>::reaches_all(frame) || std::find(sources.begin(), sources.end(), s) == sources.end();
      if (added) bordered.clear();
      for (int64_t u = 0; u < count; ++u) {
        if (sources[u] != s) continue;
        const auto& unit = units[u];
        T* to = of_weights ? own.data() + start[u] : nullptr;
        const UnitGradient<T> gradient{frame, unit, to, to && unit.depthwise ? to + unit.k * unit.k * cp : to, added};
        added = true;
        const int64_t place = i * frame.ho * frame.wo;
        Incoming<T> dy_here{dy[u] + place * dy_pixel[u], dy_pixel[u], unit.out, nullptr, nullptr, T(1), made.data()};
        if (!slopes.empty()) {
          const int64_t number = weights[u].numel() == 1 ? 0 : i * weights[u].numel() / n;  // of the image
          dy_here.slope = &slopes[u];
          dy_here.y = y[u] + place * unit.out;
          dy_here.weight = weight[u][number];
        }
        gradient.add(input.data(), dy_here, rows.data(), inner.data(), bordered.data());
      }
      finish_input<T>(frame, input.data(), bordered.data(), relu, image, pixel[s], norms[s],
                      of_norms.data() + task * 2 * cp, dx[s] + i * shape.pixels() * frame.c);
    }
  });
  std::vector<Tensor> dstatistics, daffines;
  for (int64_t s = 0; s < inputs; ++s) {
    const auto& norm = norms[s];
    Tensor ds = at::zeros({norm.present ? 3 : 0, frame.c}, xs[0].options());
    Tensor da = at::empty({norm.affine ? 2 : 0, frame.c}, xs[0].options());
    for (int64_t k = 0; k < (norm.present ? frame.c : 0); ++k) {
      double sum = 0, product = 0;
      for (int64_t i = 0; i < n; ++i) {
        sum += of_norms[(s * n + i) * 2 * cp + k];
        product += of_norms[((s * n + i) * 2 + 1) * cp + k];
      }
      const double scale = norm.scale()[k], rstd = norm.rstd()[k];
      ds.template data_ptr<T>()[k] = static_cast<T>(-scale * rstd * sum);
      ds.template data_ptr<T>()[frame.c + k] = static_cast<T>(scale * product / rstd);
      if (norm.affine) {
        da.template data_ptr<T>()[k] = static_cast<T>(product);
        da.template data_ptr<T>()[frame.c + k] = static_cast<T>(sum);
      }
    }
    dstatistics.push_back(ds);
    daffines.push_back(da);
  }
  std::vector<Tensor> dfilters, dmatrices;
  if (of_weights) {
    std::vector<T> total(start[count], T(0));
    for (const auto& own : sums)
      for (size_t i = 0; i < own.size(); ++i) total[i] += own[i];
    for (int64_t u = 0; u < count; ++u) {
      auto [df, dm] = weights_of(units[u], total.data() + start[u], xs[0].options());
      dfilters.push_back(df);
      dmatrices.push_back(dm);
    }
  }
  return {dxs, dstatistics, daffines, dfilters, dmatrices};
}

}  // namespace smallgroup
