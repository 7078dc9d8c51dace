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
  int64_t k, dilation, pad, in, out, in_p, out_p, taps;
  std::vector<T> filter, flipped;    // [k * k, in_p]: the depthwise filter, and turned around
  std::vector<T> matrix;             // [taps, in, out_p]: the convolution
  std::vector<T> back, back_turned;  // [taps, out, in_p]: the same for gradients, and with the taps in reverse

  Unit(const Tensor& f, const Tensor& m, int64_t dilation_, bool backward) : dilation(dilation_) {
    depthwise = f.numel() > 0;
    in = m.size(1);
    out = m.size(0);
    const int64_t dense = m.size(2);
    TORCH_CHECK(m.size(3) == dense && dense % 2 == 1, "convolutions must be square and odd");
    TORCH_CHECK(!depthwise || (f.size(0) == in && f.size(1) == 1 && f.size(2) == f.size(3) && dense == 1),
                "a depthwise filter must fit the convolution behind it");
    k = depthwise ? f.size(2) : dense;
    TORCH_CHECK(!depthwise || k == 3 || k == 5 || k == 7, "depthwise kernels are 3, 5 or 7 wide");
    pad = dilation * (k / 2);
    in_p = round_up(in, lanes<T>());
    out_p = round_up(out, lanes<T>());
    taps = dense * dense;
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
    if (!backward) matrix.assign(taps * in * out_p, T(0));
    if (backward) {
      back.assign(taps * out * in_p, T(0));
      back_turned.assign(taps * out * in_p, T(0));
    }
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t c = 0; c < in; ++c) {
          const T value = a[o][c][t / dense][t % dense];
          if (!backward) {
            matrix[(t * in + c) * out_p + o] = value;
          } else {
            back[(t * out + o) * in_p + c] = value;
            back_turned[((taps - 1 - t) * out + o) * in_p + c] = value;
          }
        }
  }

  // Where the taps of the convolution lie, seen from the upper left one.
  std::vector<int64_t> offsets(int64_t row, int64_t pixel) const {
    std::vector<int64_t> result(taps, 0);
    if (!depthwise)
      for (int64_t t = 0; t < taps; ++t) result[t] = (t / k) * dilation * row + (t % k) * dilation * pixel;
    return result;
  }
};

// Sizes that all units of a call share.
template <typename T>
struct Frame {
  int64_t n, c, h, w, cp, stride, pad, ho, wo, row;  // row: of the image with its border

  Frame(const Images& x, int64_t stride_, const std::vector<Unit<T>>& units)
      : n(x.n), c(x.c), h(x.h), w(x.w), cp(round_up(x.c, lanes<T>())), stride(stride_), pad(0) {
    TORCH_CHECK(stride >= 1, "a stride must be positive");
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

template <typename T>
std::vector<Unit<T>> make_units(TensorList filters, TensorList matrices, IntArrayRef dilations, bool backward) {
  std::vector<Unit<T>> units;
  for (size_t u = 0; u < matrices.size(); ++u) units.emplace_back(filters[u], matrices[u], dilations[u], backward);
  return units;
}

// What the kernels rely on without looking again.
inline void check_calls(TensorList xs, IntArrayRef sources, TensorList filters, TensorList matrices,
                        IntArrayRef dilations) {
  const size_t count = matrices.size();
  TORCH_CHECK(sources.size() == count && filters.size() == count && dilations.size() == count,
              "every unit must have a source, a filter or none, a matrix and a dilation");
  for (const int64_t source : sources)
    TORCH_CHECK(source >= 0 && source < static_cast<int64_t>(xs.size()), "a source must be one of the inputs");
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
void unit_forward(const Frame<T>& frame, const Unit<T>& unit, const std::vector<int64_t>& offsets, const T* input,
                  T* rows, T* y, Moments<T>& moments, double* summary) {
  const int64_t pixels = frame.ho * frame.wo, step = rows_at_a_time(frame.ho, frame.wo);
  const int64_t nothing = 0;
  bool first = true;
  for (int64_t i = 0; i < frame.ho; i += step) {
    const int64_t count = std::min(step, frame.ho - i);
    T* out = y + i * frame.wo * unit.out;
    if (unit.depthwise) {
      depthwise_rows(frame, unit, input, i, count, rows);
      product<T>(rows, frame.cp, count * frame.wo, {&nothing, 1}, unit.matrix.data(), unit.out_p, unit.in, out,
                 unit.out, unit.out);
    } else {
      // Without border and stride the rows of an image are one.
      const int64_t joined = frame.seamless() ? count : 1;
      for (int64_t r = 0; r < count; r += joined)
        product<T>(input + frame.at(unit, i + r, frame.stride), frame.stride * frame.cp, joined * frame.wo,
                   {offsets.data(), unit.taps}, unit.matrix.data(), unit.out_p, unit.in, out + r * frame.wo * unit.out,
                   unit.out, unit.out);
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
  const Images shape(xs[0]);
  const Frame<T> frame(shape, stride, units);
  check_calls(xs, sources, filters, matrices, dilations);
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
  std::vector<std::vector<int64_t>> offsets;
  for (const auto& unit : units) {
    ys.push_back(new_images(xs[0], n, unit.out, frame.ho, frame.wo));
    found.push_back(at::empty({3, unit.out}, xs[0].options()));
    y.push_back(ys.back().template data_ptr<T>());
    summaries.emplace_back(n * 2 * unit.out);
    offsets.push_back(unit.offsets(frame.row, frame.cp));
  }
  at::parallel_for(0, inputs * n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> input(frame.bordered()), rows(rows_at_a_time(frame.ho, frame.wo) * frame.wo * frame.cp);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t s = task / n, i = task % n;
      fill_input<T>(frame, x[s] + i * shape.pixels() * pixel[s], pixel[s], norms[s], relu, input.data());
      for (size_t u = 0; u < units.size(); ++u) {
        if (sources[u] != s) continue;
        Moments<T> moments(units[u].out);
        unit_forward(frame, units[u], offsets[u], input.data(), rows.data(),
                     y[u] + i * frame.ho * frame.wo * units[u].out, moments,
                     summaries[u].data() + i * 2 * units[u].out);
      }
    }
  });
  for (size_t u = 0; u < units.size(); ++u)
    normalisers<T>(summaries[u].data(), n, units[u].out, frame.ho * frame.wo, epsilon, found[u].template data_ptr<T>());
  return {ys, found};
}

// Gradients of one unit on one image: its weights' are added to `filter` and `matrix` (null: not wanted), its input's
// to `to`, which has a border.
template <typename T>
struct UnitGradient {
  const Frame<T>& frame;
  const Unit<T>& unit;
  const std::vector<int64_t>& offsets;
  T* filter;
  T* matrix;

  void add(const T* input, const T* dy, T* rows, T* inner, int64_t inner_row, T* to) const {
    if (unit.depthwise) {
      separable(input, dy, rows, inner, inner_row, to);
    } else {
      dense(input, dy, inner, inner_row, to);
    }
  }

 private:
  // `inner` is the gradient of the depthwise result, with a border where the stride is one.
  void separable(const T* input, const T* dy, T* rows, T* inner, int64_t inner_row, T* to) const {
    const int64_t cp = frame.cp, step = rows_at_a_time(frame.ho, frame.wo), nothing = 0;
    const int64_t row = unit.dilation * frame.row, pixel = unit.dilation * cp, stride = frame.stride * cp;
    const bool gathers = frame.stride == 1;
    for (int64_t i = 0; i < frame.ho; i += step) {
      const int64_t count = std::min(step, frame.ho - i);
      const T* g = dy + i * frame.wo * unit.out;
      if (matrix) {
        depthwise_rows(frame, unit, input, i, count, rows);
        outer<T>(g, unit.out, unit.out, rows, cp, cp, count * frame.wo, matrix, cp);
      }
      for (int64_t r = 0; r < count; ++r) {
        T* d = gathers ? inner + (i + r + frame.pad) * frame.row + frame.pad * cp : rows;
        product<T>(g + r * frame.wo * unit.out, unit.out, frame.wo, {&nothing, 1}, unit.back.data(), cp, unit.out, d, cp,
                   cp);
        const int64_t place = frame.at(unit, i + r, frame.stride);
        if (filter) filter_gradient<T>(unit.k, input + place, row, pixel, stride, d, cp, frame.wo, filter);
        if (!gathers) scatter_row<T>(unit.k, to + place, row, pixel, stride, unit.filter.data(), cp, frame.wo, d);
      }
    }
    if (gathers)
      for (int64_t i = 0; i < frame.h; ++i)
        depthwise_row<T>(unit.k, inner + frame.at(unit, i, 1), row, pixel, cp, unit.flipped.data(), cp, frame.w,
                         to + (i + frame.pad) * frame.row + frame.pad * cp, true);
    (void)inner_row;
  }

  // `inner` is a copy of dy with a border, where the kernel is wider than a pixel and the stride is one.
  void dense(const T* input, const T* dy, T* inner, int64_t inner_row, T* to) const {
    const int64_t cp = frame.cp, nothing = 0;
    const bool gathers = frame.stride == 1 && unit.taps > 1;
    const int64_t joined = frame.seamless() ? rows_at_a_time(frame.ho, frame.wo) : 1;
    for (int64_t i = 0; i < frame.ho; i += joined) {
      const T* g = dy + i * frame.wo * unit.out;
      const int64_t place = frame.at(unit, i, frame.stride), pixels = std::min(joined, frame.ho - i) * frame.wo;
      if (matrix)
        for (int64_t t = 0; t < unit.taps; ++t)
          outer<T>(g, unit.out, unit.out, input + place + offsets[t], frame.stride * cp, cp, pixels,
                   matrix + t * unit.out * cp, cp);
      if (gathers) {
        T* copy = inner + (i + frame.pad) * inner_row + frame.pad * unit.out;
        std::copy(g, g + frame.wo * unit.out, copy);
      } else {
        for (int64_t t = 0; t < unit.taps; ++t)
          product<T>(g, unit.out, pixels, {&nothing, 1}, unit.back.data() + t * unit.out * cp, cp, unit.out,
                     to + place + offsets[t], frame.stride * cp, cp, true);
      }
    }
    if (!gathers) return;
    std::vector<int64_t> around(unit.taps);
    for (int64_t t = 0; t < unit.taps; ++t)
      around[t] = (t / unit.k) * unit.dilation * inner_row + (t % unit.k) * unit.dilation * unit.out;
    for (int64_t i = 0; i < frame.h; ++i)
      product<T>(inner + (i + frame.pad - unit.pad) * inner_row + (frame.pad - unit.pad) * unit.out, unit.out, frame.w,
                 {around.data(), unit.taps}, unit.back_turned.data(), cp, unit.out,
                 to + (i + frame.pad) * frame.row + frame.pad * cp, cp, cp, true);
  }
};

// The gradient that reaches x of one image: through ReLU; the batch norm before it waits for the sums over the batch.
template <typename T>
void finish_input(const Frame<T>& frame, const T* input, const T* bordered, bool relu, T* dx) {
  constexpr int64_t v = lanes<T>();
  const Vec<T> zero(T(0));
  for (int64_t i = 0; i < frame.h; ++i) {
    const int64_t place = (i + frame.pad) * frame.row + frame.pad * frame.cp;
    for (int64_t j = 0; j < frame.w; ++j)
      for (int64_t c = 0; c < frame.c; c += v) {
        Vec<T> g = Vec<T>::loadu(bordered + place + j * frame.cp + c);
        if (relu) g = Vec<T>::blendv(zero, g, Vec<T>::loadu(input + place + j * frame.cp + c) > zero);
        store(g, dx + (i * frame.w + j) * frame.c + c, frame.c - c);
      }
  }
}

// dx = scale rstd (g - mean g - x^ mean(g x^)), in place of g = dx.
template <typename T>
void norm_backward_image(const T* x, int64_t pixel, const Norm<T>& norm, const T* mean_g, const T* mean_gx,
                         int64_t pixels, int64_t channels, T* dx) {
  constexpr int64_t v = lanes<T>();
  for (int64_t c = 0; c < channels; c += v) {
    const Vec<T> m = Vec<T>::loadu(norm.mean() + c), r = Vec<T>::loadu(norm.rstd() + c);
    const Vec<T> a = Vec<T>::loadu(mean_g + c), b = Vec<T>::loadu(mean_gx + c), s = Vec<T>::loadu(norm.scale() + c) * r;
    for (int64_t p = 0; p < pixels; ++p) {
      const Vec<T> hat = (load(x + p * pixel + c, channels - c) - m) * r;
      const Vec<T> g = load(dx + p * channels + c, channels - c);
      store(s * (g - a - hat * b), dx + p * channels + c, channels - c);
    }
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
  const int64_t dense = unit.depthwise ? 1 : unit.k;
  Tensor matrix = at::empty({unit.out, unit.in, dense, dense}, options);
  auto a = matrix.template accessor<T, 4>();
  for (int64_t t = 0; t < unit.taps; ++t)
    for (int64_t o = 0; o < unit.out; ++o)
      for (int64_t c = 0; c < unit.in; ++c) a[o][c][t / dense][t % dense] = from[(t * unit.out + o) * unit.in_p + c];
  return {filter, matrix};
}

using Lists4 = std::tuple<std::vector<Tensor>, std::vector<Tensor>, std::vector<Tensor>, std::vector<Tensor>>;

// Gradients of the inputs, of their scales and shifts, of the filters and of the matrices; weights only if wanted.
// Where there are coefficients, a gradient is that of a sum of which the unit's result is a term.
template <typename T>
Lists4 units_backward_t(TensorList gradients, TensorList results, TensorList coefficients, TensorList xs, TensorList statistics, TensorList affines, bool relu,
                        IntArrayRef sources, TensorList filters, TensorList matrices, IntArrayRef dilations,
                        int64_t stride, bool of_weights) {
  const auto units = make_units<T>(filters, matrices, dilations, true);
  const Images shape(xs[0]);
  const Frame<T> frame(shape, stride, units);
  check_calls(xs, sources, filters, matrices, dilations);
  const auto norms = make_norms<T>(statistics, affines, xs.size(), frame.c);
  const int64_t inputs = xs.size(), n = frame.n, cp = frame.cp, count = units.size();
  std::vector<const T*> x, dy;
  std::vector<int64_t> pixel;
  std::vector<Tensor> dxs;
  std::vector<T*> dx;
  for (const auto& each : xs) {
    x.push_back(each.template const_data_ptr<T>());
    pixel.push_back(Images(each).pixel);
    dxs.push_back(new_images(each, n, frame.c, frame.h, frame.w));
    dx.push_back(dxs.back().template data_ptr<T>());
  }
  int64_t widest = cp;
  std::vector<Slope<T>> slopes;
  std::vector<const T*> y;
  TORCH_CHECK(static_cast<int64_t>(gradients.size()) == count && results.size() == coefficients.size() &&
                  (coefficients.empty() || static_cast<int64_t>(coefficients.size()) == count),
              "every unit must have a gradient");
  for (size_t u = 0; u < coefficients.size(); ++u) {
    TORCH_CHECK(results[u].sizes() == gradients[u].sizes() && Images(results[u]).pixel == units[u].out,
                "results must be dense and of the size of their gradients");
    slopes.emplace_back(coefficients[u], true);
    y.push_back(results[u].template const_data_ptr<T>());
  }
  std::vector<std::vector<int64_t>> offsets;
  std::vector<int64_t> start(count + 1, 0);  // of each unit's weights in the sums of a thread
  for (int64_t u = 0; u < count; ++u) {
    const auto& unit = units[u];
    const Images g(gradients[u]);
    TORCH_CHECK(g.n == n && g.c == unit.out && g.h == frame.ho && g.w == frame.wo && g.pixel == g.c,
                "gradients must be dense and of the size of the results");
    dy.push_back(gradients[u].template const_data_ptr<T>());
    offsets.push_back(unit.offsets(frame.row, cp));
    start[u + 1] = start[u] + (unit.depthwise ? unit.k * unit.k * cp : 0) + unit.taps * unit.out * cp;
    widest = std::max(widest, unit.out);
  }
  std::vector<std::vector<T>> sums(at::get_num_threads());  // of the weights' gradients: threads have fixed shares
  std::vector<T> of_norms(inputs * n * 2 * cp, T(0));       // sums of g and of g x^, by input and image
  at::parallel_for(0, inputs * n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> input(frame.bordered()), bordered(frame.bordered());
    Scratch<T> inner((frame.h + 2 * frame.pad) * (frame.w + 2 * frame.pad) * widest);
    Scratch<T> rows(rows_at_a_time(frame.ho, frame.wo) * frame.wo * cp);
    Scratch<T> slope(slopes.empty() ? 0 : frame.ho * frame.wo * widest);
    auto& own = sums[at::get_thread_num()];
    if (of_weights && own.empty()) own.assign(start[count], T(0));
    int64_t border_of = -1;  // the width whose border `inner` has
    for (int64_t task = begin; task < end; ++task) {
      const int64_t s = task / n, i = task % n;
      const T* image = x[s] + i * shape.pixels() * pixel[s];
      fill_input<T>(frame, image, pixel[s], norms[s], relu, input.data());
      bordered.clear();
      for (int64_t u = 0; u < count; ++u) {
        if (sources[u] != s) continue;
        const auto& unit = units[u];
        const int64_t width = unit.depthwise ? cp : unit.out;
        if (border_of != width) inner.clear();
        border_of = width;
        T* weights = of_weights ? own.data() + start[u] : nullptr;
        UnitGradient<T> gradient{frame, unit, offsets[u], weights,
                                 weights && unit.depthwise ? weights + unit.k * unit.k * cp : weights};
        const int64_t place = i * frame.ho * frame.wo * unit.out;
        const T* g = dy[u] + place;
        if (!slopes.empty()) {
          slopes[u].apply(g, y[u] + place, frame.ho * frame.wo, slope.data());
          g = slope.data();
        }
        gradient.add(input.data(), g, rows.data(), inner.data(), (frame.w + 2 * frame.pad) * width, bordered.data());
      }
      T* out = dx[s] + i * shape.pixels() * frame.c;
      finish_input<T>(frame, input.data(), bordered.data(), relu, out);
      if (norms[s].present)
        channel_sums<T>(out, frame.c, image, pixel[s], norms[s].mean(), norms[s].rstd(), shape.pixels(), frame.c,
                        of_norms.data() + task * 2 * cp, of_norms.data() + (task * 2 + 1) * cp);
    }
  });
  const double all = static_cast<double>(n) * shape.pixels();
  std::vector<T> means(inputs * 2 * cp, T(0));
  std::vector<Tensor> daffines;
  for (int64_t s = 0; s < inputs; ++s) {
    Tensor da = at::empty({norms[s].affine ? 2 : 0, frame.c}, xs[0].options());
    for (int64_t k = 0; k < 2 * cp; ++k) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += of_norms[(s * n + i) * 2 * cp + k];
      means[s * 2 * cp + k] = static_cast<T>(sum / all);
      // The first half is of the shift, the second of the scale.
      if (norms[s].affine && k % cp < frame.c)
        da.template data_ptr<T>()[(k < cp ? frame.c : 0) + k % cp] = static_cast<T>(sum);
    }
    daffines.push_back(da);
  }
  at::parallel_for(0, inputs * n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t s = task / n, i = task % n;
      if (norms[s].present)
        norm_backward_image<T>(x[s] + i * shape.pixels() * pixel[s], pixel[s], norms[s], means.data() + s * 2 * cp,
                               means.data() + (s * 2 + 1) * cp, shape.pixels(), frame.c,
                               dx[s] + i * shape.pixels() * frame.c);
    }
  });
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
  return {dxs, daffines, dfilters, dmatrices};
}

}  // namespace smallgroup
