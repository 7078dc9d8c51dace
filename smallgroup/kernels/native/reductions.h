// A residual block of half the size: relu, 3x3 convolution of stride two, norm, relu, 3x3 convolution, norm; beside it
// the means of 2x2 pixels through a 1x1 convolution.
#pragma once

#include "blocks.h"

namespace smallgroup {

// Sizes, and the parameters: first matrix, scale and shift, second ones, and the matrix of the shortcut.
template <typename T>
struct Reduction {
  Images in;
  Padded out;
  const Tensor &first, &scale1, &shift1, &second, &scale2, &shift2, &shortcut;

  Reduction(const Tensor& x, TensorList parameters)
      : in(dense_images(x)), out{}, first(one(parameters, 0)), scale1(one(parameters, 1)), shift1(one(parameters, 2)),
        second(one(parameters, 3)), scale2(one(parameters, 4)), shift2(one(parameters, 5)),
        shortcut(one(parameters, 6)) {
    TORCH_CHECK(first.dim() == 4, "a matrix must be [outputs, inputs, k, k], but it is ", first.sizes());
    const int64_t o = first.size(0);
    out = {in.n, (in.h + 1) / 2, (in.w + 1) / 2, o, round_up(o, lanes<T>())};
    TORCH_CHECK(o > 0, "a matrix must have outputs");
    check_matrix(first, o, in.c, 3);
    check_matrix(second, o, o, 3);
    check_matrix(shortcut, o, in.c, 1);
    Normed<T>::check(scale1, shift1, o);
    Normed<T>::check(scale2, shift2, o);
  }
  static const Tensor& one(TensorList parameters, size_t number) {
    TORCH_CHECK(parameters.size() == 7, "a reduction has 7 parameters, but got ", parameters.size());
    return parameters[number];
  }
  int64_t image() const { return in.pixels() * in.c; }
  int64_t groups() const { return out.cp / lanes<T>(); }
  Bordered inside() const { return {in.h, in.w, in.c}; }
  Bordered between() const { return {out.h, out.w, out.cp}; }

  // Where the windows of a convolution of stride two begin.
  std::vector<int64_t> strided(const Bordered& tile) const {
    std::vector<int64_t> result(out.pixels());
    for (int64_t p = 0; p < out.pixels(); ++p) result[p] = 2 * (p / out.w * tile.row + p % out.w * tile.pixel);
    return result;
  }
  // And those of one pixel each, of images of so many values by pixel.
  std::vector<int64_t> single(int64_t pixel) const {
    std::vector<int64_t> result(out.pixels());
    for (int64_t p = 0; p < out.pixels(); ++p) result[p] = p * pixel;
    return result;
  }
  // By how much a pixel counts in the mean of its 2x2: at the edges of odd sizes fewer are there.
  T share(int64_t i, int64_t j) const {
    return T(1) / static_cast<T>((std::min(in.h, 2 * i + 2) - 2 * i) * (std::min(in.w, 2 * j + 2) - 2 * j));
  }

  void means(const T* x, T* to) const {
    with_vectors<T>(in.c, [&](auto vectors) {
      using L = decltype(vectors);
      using V = typename L::V;
      for (int64_t i = 0; i < out.h; ++i)
        for (int64_t j = 0; j < out.w; ++j)
          for (int64_t k = 0; k < in.c; k += L::kLanes) {
            V sum(T(0));
            for (int64_t a = 2 * i; a < std::min(in.h, 2 * i + 2); ++a)
              for (int64_t b = 2 * j; b < std::min(in.w, 2 * j + 2); ++b)
                sum = sum + L::load(x + (a * in.w + b) * in.c + k, in.c - k);
            L::store(sum * V(share(i, j)), to + (i * out.w + j) * in.c + k, in.c - k);
          }
    });
  }

  // What the second convolution reads.
  void rectify_between(const Normed<T>& norm, const T* y, const Bordered& tile, T* to) const {
    for (int64_t i = 0; i < out.h; ++i)
      for (int64_t k = 0; k < out.cp; k += lanes<T>())
        for (int64_t j = 0; j < out.w; ++j)
          at::vec::maximum(norm(Vec<T>::loadu(y + (i * out.w + j) * out.cp + k), k), Vec<T>(T(0)))
              .store(to + tile.inside(i) + j * out.cp + k);
  }
};

using ReductionValues = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// The sum; the raw results of both convolutions and their statistics.
template <typename T>
ReductionValues reduction_forward_t(const Tensor& x, TensorList parameters, double epsilon) {
  const Reduction<T> block(x, parameters);
  const auto& in = block.in;
  const auto& out = block.out;
  const int64_t o = out.c, op = out.cp, n = in.n;
  Tensor y1 = out.make(x), y2 = out.make(x), sum = new_images(x, n, o, out.h, out.w);
  Tensor statistics1 = at::empty({3, o}, x.options()), statistics2 = at::empty({3, o}, x.options());
  const T* from = x.const_data_ptr<T>();
  T *raw1 = y1.data_ptr<T>(), *raw2 = y2.data_ptr<T>(), *to = sum.data_ptr<T>();
  std::vector<double> summary(n * 2 * o);
  {
    const Bordered tile = block.inside();
    const auto windows = block.strided(tile);
    const std::vector<int64_t> steps{0, tile.row, 2 * tile.row};
    const Panels<T> panels = forward_panels<T>(block.first);
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      Scratch<T> input(tile.size());
      Moments<T> moments(o);
      for (int64_t i = begin; i < end; ++i) {
        rectify(from + i * block.image(), tile, in.c, input.data());
        convolve_image(input.data(), windows, steps, 3 * in.c, panels, out, moments, raw1 + i * out.image(),
                       summary.data() + i * 2 * o);
      }
    });
  }
  normalisers<T>(summary.data(), n, o, out.pixels(), epsilon, statistics1.data_ptr<T>());
  const Normed<T> norm1(statistics1, block.scale1, block.shift1, o);
  {
    const Bordered tile = block.between();
    const auto windows = tile.windows(), steps = nine_steps(tile, false);
    const Panels<T> panels = forward_panels<T>(block.second);
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      Scratch<T> input(tile.size());
      Moments<T> moments(o);
      for (int64_t i = begin; i < end; ++i) {
        block.rectify_between(norm1, raw1 + i * out.image(), tile, input.data());
        convolve_image(input.data(), windows, steps, o, panels, out, moments, raw2 + i * out.image(),
                       summary.data() + i * 2 * o);
      }
    });
  }
  normalisers<T>(summary.data(), n, o, out.pixels(), epsilon, statistics2.data_ptr<T>());
  const Normed<T> norm2(statistics2, block.scale2, block.shift2, o);
  const Panels<T> panels = forward_panels<T>(block.shortcut);
  const auto windows = block.single(in.c);
  const std::vector<int64_t> here{0};
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> pooled(out.pixels() * in.c), past(out.image());
    for (int64_t i = begin; i < end; ++i) {
      block.means(from + i * block.image(), pooled.data());
      convolve<T>(pooled.data(), windows.data(), out.pixels(), here, in.c, panels, past.data(), op);
      const T* y = raw2 + i * out.image();
      for (int64_t p = 0; p < out.pixels(); ++p)
        for (int64_t k = 0; k < o; k += lanes<T>())
          store(Vec<T>::loadu(past.data() + p * op + k) + norm2(Vec<T>::loadu(y + p * op + k), k),
                to + (i * out.pixels() + p) * o + k, o - k);
    }
  });
  return {sum, y1, statistics1, y2, statistics2};
}

// The gradient of the input of a convolution of stride two, for every second row of it: two pixels side by side are the
// columns of one product, because either takes its part of the same two pixels of the result, or of four.
template <typename T>
struct EverySecondRow {
  bool odd;
  int64_t pair;  // how far the next two pixels are
  Panels<T> panels;
  std::vector<int64_t> steps;

  EverySecondRow(const Tensor& matrix, const Bordered& tile, bool odd_)
      : odd(odd_), pair(round_up(2 * matrix.size(1), lanes<T>())),
        panels((odd_ ? 4 : 2) * matrix.size(0), pair / lanes<T>()) {
    const int64_t outputs = matrix.size(0), inputs = matrix.size(1);
    const auto m = matrix.accessor<T, 4>();
    for (int64_t down = 0; down < (odd ? 2 : 1); ++down)
      for (int64_t right = 0; right < 2; ++right) {
        const int64_t rows = static_cast<int64_t>(steps.size()) * outputs;
        steps.push_back(down * tile.row + right * tile.pixel);
        const int64_t ky = !odd ? 1 : down ? 0 : 2;
        for (int64_t i = 0; i < inputs; ++i) {
          if (!right) {
            const auto [to, row] = panels.column(i);
            for (int64_t k = 0; k < outputs; ++k) to[(rows + k) * row] = m[k][i][ky][1];
          }
          const auto [to, row] = panels.column(inputs + i);
          for (int64_t k = 0; k < outputs; ++k) to[(rows + k) * row] = m[k][i][ky][right ? 0 : 2];
        }
      }
  }
};

// Gradients of x (empty if it is not wanted) and, in their order, of the parameters; matrices are empty if not wanted.
template <typename T>
std::tuple<Tensor, std::vector<Tensor>> reduction_backward_t(const Tensor& gradient, const Tensor& x,
                                                             TensorList parameters, TensorList kept, bool wanted,
                                                             bool of_weights) {
  const Reduction<T> block(x, parameters);
  const auto& in = block.in;
  const auto& out = block.out;
  const int64_t o = out.c, op = out.cp, n = in.n, c = in.c, cp = round_up(c, lanes<T>());
  TORCH_CHECK(kept.size() == 4, "two results and their statistics must be given");
  TORCH_CHECK(gradient.sizes() == at::IntArrayRef({n, o, out.h, out.w}) && dense_images(gradient).c == o,
              "the gradient must be of the size of the sum, but it is ", gradient.sizes());
  out.check(kept[0]);
  out.check(kept[2]);
  const Normed<T> norm1(kept[1], block.scale1, block.shift1, o), norm2(kept[3], block.scale2, block.shift2, o);
  const T *g = gradient.const_data_ptr<T>(), *from = x.const_data_ptr<T>();
  const T *raw1 = kept[0].const_data_ptr<T>(), *raw2 = kept[2].const_data_ptr<T>();
  const Bordered tile = block.inside(), between = block.between();
  NormGradients<T> of_norm1(norm1, n * out.pixels()), of_norm2(norm2, n * out.pixels());
  Tensor dscale1 = at::empty_like(block.scale1), dshift1 = at::empty_like(block.shift1);
  Tensor dscale2 = at::empty_like(block.scale2), dshift2 = at::empty_like(block.shift2);
  MatrixSums<T> sums1(9 * c * op), sums2(9 * op * op), sums3(c * op);
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> copy(room_for_copy<T>(out)), pooled(of_weights ? out.pixels() * c : 0);
    for (int64_t i = begin; i < end; ++i) {
      const T* own = whole(g + i * out.pixels() * o, out, copy);
      of_norm2.add(own, raw2 + i * out.image(), out.pixels());
      if (!of_weights) continue;
      block.means(from + i * block.image(), pooled.data());
      correlate<T>(pooled.data(), c, out.w * c, c, own, op, out.w * op, block.groups(), out.h, out.w, sums3.own(), op);
    }
  });
  of_norm2.finish(dscale2, dshift2);

  Tensor between_gradient = out.make(x);  // of the normalised result of the first convolution
  T* g1 = between_gradient.data_ptr<T>();
  {
    const Panels<T> panels = backward_panels<T>(block.second);
    const auto windows = between.windows(), steps = nine_steps(between, true);
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      Scratch<T> copy(room_for_copy<T>(out)), dy(between.size()), input(of_weights ? between.size() : 0);
      for (int64_t i = begin; i < end; ++i) {
        of_norm2.apply(whole(g + i * out.pixels() * o, out, copy), raw2 + i * out.image(), out.h, out.w,
                       dy.data() + between.inside(0), between.row);
        const T* y = raw1 + i * out.image();
        if (of_weights) {
          block.rectify_between(norm1, y, between, input.data());
          for (int64_t tap = 0; tap < 3; ++tap)
            correlate<T>(input.data() + tap * between.row, op, between.row, 3 * op, dy.data() + between.inside(0), op,
                         between.row, block.groups(), out.h, out.w, sums2.own() + tap * 3 * op * op, op);
        }
        T* to = g1 + i * out.image();
        convolve<T>(dy.data(), windows.data(), out.pixels(), steps, o, panels, to, op);
        const Vec<T> zero(T(0));
        for (int64_t p = 0; p < out.pixels(); ++p)
          for (int64_t k = 0; k < op; k += lanes<T>()) {
            const int64_t at = p * op + k;
            Vec<T>::blendv(zero, Vec<T>::loadu(to + at), norm1(Vec<T>::loadu(y + at), k) > zero).store(to + at);
          }
        of_norm1.add(to, y, out.pixels());
      }
    });
  }
  of_norm1.finish(dscale1, dshift1);

  Tensor dx = wanted ? new_images(x, n, c, in.h, in.w) : at::empty({0}, x.options());
  T* to_x = wanted ? dx.data_ptr<T>() : nullptr;
  if (wanted || of_weights) {
    const EverySecondRow<T> even(block.first, between, false), odd(block.first, between, true);
    const Panels<T> past = backward_panels<T>(block.shortcut);
    const auto whole_windows = block.single(op);
    std::vector<int64_t> windows(out.pixels());
    for (int64_t p = 0; p < out.pixels(); ++p) windows[p] = between.inside(p / out.w) + p % out.w * op;
    const std::vector<int64_t> here{0};
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      Scratch<T> dy(between.size()), input(of_weights ? tile.size() : 0), copy(wanted ? room_for_copy<T>(out) : 0);
      Scratch<T> rows(wanted ? 2 * out.pixels() * even.pair : 0), pooled(wanted ? out.pixels() * cp : 0);
      for (int64_t i = begin; i < end; ++i) {
        of_norm1.apply(g1 + i * out.image(), raw1 + i * out.image(), out.h, out.w, dy.data() + between.inside(0),
                       between.row);
        const T* own = from + i * block.image();
        if (of_weights) {
          rectify(own, tile, c, input.data());
          for (int64_t tap = 0; tap < 3; ++tap)
            correlate<T>(input.data() + tap * tile.row, 2 * c, 2 * tile.row, 3 * c, dy.data() + between.inside(0), op,
                         between.row, block.groups(), out.h, out.w, sums1.own() + tap * 3 * c * op, op);
        }
        if (!wanted) continue;
        const int64_t half = out.pixels() * even.pair;
        for (const auto* each : {&even, &odd})
          convolve<T>(dy.data(), windows.data(), each->odd ? in.h / 2 * out.w : out.pixels(), each->steps, o,
                      each->panels, rows.data() + (each->odd ? half : 0), even.pair);
        convolve<T>(whole(g + i * out.pixels() * o, out, copy), whole_windows.data(), out.pixels(), here, o, past,
                    pooled.data(), cp);
        with_vectors<T>(c, [&](auto vectors) {
          using L = decltype(vectors);
          using V = typename L::V;
          T* to = to_x + i * block.image();
          for (int64_t a = 0; a < in.h; ++a)
            for (int64_t b = 0; b < in.w; ++b) {
              const int64_t p = a / 2 * out.w + b / 2, at = (a * in.w + b) * c;
              const T* back = rows.data() + a % 2 * half + p * even.pair + b % 2 * c;
              const V share(block.share(a / 2, b / 2));
              for (int64_t k = 0; k < c; k += L::kLanes) {
                const auto through = L::where_positive(L::load(own + at + k, c - k), L::load(back + k, c - k));
                L::store(L::fmadd(L::load(pooled.data() + p * cp + k, c - k), share, through), to + at + k, c - k);
              }
            }
        });
      }
    });
  }
  const Tensor none = at::empty({0}, x.options());
  if (!of_weights) return {dx, {none, dscale1, dshift1, none, dscale2, dshift2, none}};
  return {dx,
          {sums1.matrix(block.first, c, op), dscale1, dshift1, sums2.matrix(block.second, op, op), dscale2, dshift2,
           sums3.matrix(block.shortcut, c, op)}};
}

}  // namespace smallgroup
