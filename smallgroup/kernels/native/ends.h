// Where a network begins and ends: a 3x3 convolution with batch norm, and batch norm, ReLU and the mean of the pixels.
#pragma once

#include "blocks.h"

namespace smallgroup {

// norm(conv(x)); beside it the raw result and its statistics.
template <typename T>
std::tuple<Tensor, Tensor, Tensor> stem_forward_t(const Tensor& x, const Tensor& matrix, const Tensor& scale,
                                                  const Tensor& shift, double epsilon) {
  const Images in = dense_images(x);
  const int64_t o = matrix.size(0);
  const Padded size{in.n, in.h, in.w, o, round_up(o, lanes<T>())};
  Tensor y = size.make(x), statistics = at::empty({3, o}, x.options()), out = new_images(x, in.n, o, in.h, in.w);
  const Bordered tile(in.h, in.w, in.c);
  const auto windows = tile.windows();
  const std::vector<int64_t> steps{0, tile.row, 2 * tile.row};
  const Panels<T> panels = forward_panels<T>(matrix);
  const T* from = x.const_data_ptr<T>();
  T *raw = y.data_ptr<T>(), *to = out.data_ptr<T>();
  std::vector<double> summary(in.n * 2 * o);
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> input(tile.size());
    Moments<T> moments(o);
    for (int64_t i = begin; i < end; ++i) {
      place(from + i * in.pixels() * in.c, tile, input.data());
      convolve_image(input.data(), windows, steps, 3 * in.c, panels, size, moments, raw + i * size.image(),
                     summary.data() + i * 2 * o);
    }
  });
  normalisers<T>(summary.data(), in.n, o, in.pixels(), epsilon, statistics.data_ptr<T>());
  const Normed<T> norm(statistics, scale, shift, o);
  at::parallel_for(0, in.n * in.pixels(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t k = 0; k < o; k += lanes<T>())
        store(norm(Vec<T>::loadu(raw + p * size.cp + k), k), to + p * o + k, o - k);
  });
  return {out, y, statistics};
}

// Gradients of the images if wanted (else empty), of the matrix, of scale and shift.
template <typename T>
std::tuple<Tensor, Tensor, Tensor, Tensor> stem_backward_t(const Tensor& gradient, const Tensor& x, const Tensor& y,
                                                           const Tensor& statistics, const Tensor& matrix,
                                                           const Tensor& scale, const Tensor& shift, bool wanted) {
  const Images in = dense_images(x);
  const int64_t o = matrix.size(0), c = in.c, cp = round_up(c, lanes<T>());
  const Padded size{in.n, in.h, in.w, o, round_up(o, lanes<T>())};
  size.check(y);
  const Bordered tile(in.h, in.w, c), back(in.h, in.w, size.cp);
  const Normed<T> norm(statistics, scale, shift, o);
  NormGradients<T> of_norm(norm, in.n * in.pixels());
  const T *g = gradient.const_data_ptr<T>(), *raw = y.const_data_ptr<T>(), *from = x.const_data_ptr<T>();
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> copy(room_for_copy<T>(size));
    for (int64_t i = begin; i < end; ++i)
      of_norm.add(whole(g + i * in.pixels() * o, size, copy), raw + i * size.image(), in.pixels());
  });
  Tensor dscale = at::empty_like(scale), dshift = at::empty_like(shift);
  of_norm.finish(dscale, dshift);
  MatrixSums<T> sums(9 * c * size.cp);
  Tensor dx = wanted ? new_images(x, in.n, c, in.h, in.w) : at::empty({0}, x.options());
  T* to = wanted ? dx.data_ptr<T>() : nullptr;
  const Panels<T> panels = wanted ? backward_panels<T>(matrix) : Panels<T>(0, 0);
  const auto windows = back.windows(), steps = nine_steps(back, true);
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> copy(room_for_copy<T>(size)), input(tile.size()), dy(back.size() + lanes<T>());
    Scratch<T> found(wanted ? in.pixels() * cp : 0);
    for (int64_t i = begin; i < end; ++i) {
      place(from + i * in.pixels() * c, tile, input.data());
      of_norm.apply(whole(g + i * in.pixels() * o, size, copy), raw + i * size.image(), in.h, in.w,
                    dy.data() + back.inside(0), back.row);
      for (int64_t tap = 0; tap < 3; ++tap)
        correlate<T>(input.data() + tap * tile.row, c, tile.row, 3 * c, dy.data() + back.inside(0), size.cp, back.row,
                     size.cp / lanes<T>(), in.h, in.w, sums.own() + tap * 3 * c * size.cp, size.cp);
      if (!wanted) continue;
      convolve<T>(dy.data(), windows.data(), in.pixels(), steps, o, panels, found.data(), cp);
      for (int64_t p = 0; p < in.pixels(); ++p)
        std::copy(found.data() + p * cp, found.data() + p * cp + c, to + (i * in.pixels() + p) * c);
    }
  });
  return {dx, sums.matrix(matrix, c, size.cp), dscale, dshift};
}

// The mean over the pixels of relu(norm(x)), [n, c], and the statistics of x.
template <typename T>
std::tuple<Tensor, Tensor> head_forward_t(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
  const Images in = dense_images(x);
  const Padded size{in.n, in.h, in.w, in.c, round_up(in.c, lanes<T>())};
  Tensor statistics = at::empty({3, in.c}, x.options()), out = at::empty({in.n, in.c}, x.options());
  const T* from = x.const_data_ptr<T>();
  T* to = out.data_ptr<T>();
  std::vector<double> summary(in.n * 2 * in.c);
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Moments<T> moments(in.c);
    for (int64_t i = begin; i < end; ++i) {
      moments.begin(from + i * in.pixels() * in.c);
      moments.add(from + i * in.pixels() * in.c, in.pixels(), in.c);
      moments.end(in.pixels(), summary.data() + i * 2 * in.c, summary.data() + i * 2 * in.c + in.c);
    }
  });
  normalisers<T>(summary.data(), in.n, in.c, in.pixels(), epsilon, statistics.data_ptr<T>());
  const Normed<T> norm(statistics, scale, shift, in.c);
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t k = 0; k < in.c; k += lanes<T>()) {
        const T* here = from + i * in.pixels() * in.c + k;
        Vec<T> sum(T(0));
        for (int64_t p = 0; p < in.pixels(); ++p)
          sum = sum + at::vec::maximum(norm(load(here + p * in.c, in.c - k), k), Vec<T>(T(0)));
        store(sum / Vec<T>(static_cast<T>(in.pixels())), to + i * in.c + k, in.c - k);
      }
  });
  return {out, statistics};
}

// Gradients of x, scale and shift.
template <typename T>
std::tuple<Tensor, Tensor, Tensor> head_backward_t(const Tensor& gradient, const Tensor& x, const Tensor& statistics,
                                                   const Tensor& scale, const Tensor& shift) {
  const Images in = dense_images(x);
  const Padded size{in.n, in.h, in.w, in.c, round_up(in.c, lanes<T>())};
  TORCH_CHECK(gradient.sizes() == at::IntArrayRef({in.n, in.c}) && gradient.is_contiguous(),
              "the gradient must be [images, channels], but it is ", gradient.sizes());
  const Normed<T> norm(statistics, scale, shift, in.c);
  NormGradients<T> of_norm(norm, in.n * in.pixels());
  Tensor dx = new_images(x, in.n, in.c, in.h, in.w), dscale = at::empty_like(scale), dshift = at::empty_like(shift);
  const T *from = x.const_data_ptr<T>(), *of_means = gradient.const_data_ptr<T>();
  T* to = dx.data_ptr<T>();
  const Vec<T> share(T(1) / static_cast<T>(in.pixels())), zero(T(0));
  // The gradient of the normalised values of an image.
  const auto spread = [&](int64_t i, const T* y, T* g) {
    for (int64_t k = 0; k < in.c; k += lanes<T>()) {
      const Vec<T> own = load(of_means + i * in.c + k, in.c - k) * share;
      for (int64_t p = 0; p < in.pixels(); ++p)
        Vec<T>::blendv(zero, own, norm(Vec<T>::loadu(y + p * size.cp + k), k) > zero).store(g + p * size.cp + k);
    }
  };
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> copy(room_for_copy<T>(size)), g(size.image());
    for (int64_t i = begin; i < end; ++i) {
      const T* y = whole(from + i * in.pixels() * in.c, size, copy);
      spread(i, y, g.data());
      of_norm.add(g.data(), y, in.pixels());
    }
  });
  of_norm.finish(dscale, dshift);
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> copy(room_for_copy<T>(size)), g(size.image());
    for (int64_t i = begin; i < end; ++i) {
      const T* y = whole(from + i * in.pixels() * in.c, size, copy);
      spread(i, y, g.data());
      of_norm.apply(g.data(), y, in.h, in.w, g.data(), in.w * size.cp);
      for (int64_t p = 0; p < in.pixels(); ++p)
        std::copy(g.data() + p * size.cp, g.data() + p * size.cp + in.c, to + (i * in.pixels() + p) * in.c);
    }
  });
  return {dx, dscale, dshift};
}

}  // namespace smallgroup
