// Weighted sums of terms, each normalised by statistics of its own or taken as it is:
//   out = sum_i w_i ((y_i - mean_i) rstd_i scale_i + shift_i)   or   sum_i w_i y_i.
#pragma once

#include "common.h"

namespace smallgroup {

using at::TensorList;

// Pixels that are worked on while they are in the nearest memory.
constexpr int64_t kPixels = 64;

template <typename T>
struct Terms {
  int64_t c, cp, pixels, count;
  std::vector<const T*> y;
  std::vector<Norm<T>> norms;

  Terms(TensorList ys, TensorList statistics, TensorList affines)
      : c(ys[0].size(1)), cp(round_up(c, lanes<T>())), pixels(ys[0].numel() / c), count(ys.size()),
        norms(make_norms<T>(statistics, affines, ys.size(), c)) {
    for (const auto& each : ys) {
      TORCH_CHECK(each.sizes() == ys[0].sizes() && Images(each).pixel == c, "terms must be dense and of one size");
      y.push_back(each.template const_data_ptr<T>());
    }
  }
  int64_t blocks() const { return (pixels + kPixels - 1) / kPixels; }
};

template <typename T>
Tensor mix_forward_t(TensorList ys, TensorList statistics, TensorList affines, const Tensor& weights) {
  const Terms<T> terms(ys, statistics, affines);
  const Tensor w = weights.contiguous();
  TORCH_CHECK(w.numel() == terms.count, "a mixture must have a weight for every term");
  const T* share = w.const_data_ptr<T>();
  const int64_t cp = terms.cp;
  std::vector<T> factor(terms.count * cp), constant(cp, T(0));
  for (int64_t i = 0; i < terms.count; ++i)
    for (int64_t c = 0; c < cp; ++c) {
      factor[i * cp + c] = share[i] * terms.norms[i].rstd()[c] * terms.norms[i].scale()[c];
      constant[c] += share[i] * terms.norms[i].shift()[c];
    }
  Tensor out = new_images(ys[0], ys[0].size(0), terms.c, ys[0].size(2), ys[0].size(3));
  T* to = out.template data_ptr<T>();
  constexpr int64_t v = lanes<T>();
  at::parallel_for(0, terms.blocks(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kPixels, last = std::min(terms.pixels, first + kPixels);
      for (int64_t c = 0; c < terms.c; c += v) {
        const int64_t count = terms.c - c;
        const Vec<T> start = Vec<T>::loadu(constant.data() + c);
        int64_t p = first;
        for (; p + 8 <= last; p += 8) {
          Vec<T> acc[8];
          for (int j = 0; j < 8; ++j) acc[j] = start;
          for (int64_t i = 0; i < terms.count; ++i) {
            const Vec<T> m = Vec<T>::loadu(terms.norms[i].mean() + c);
            const Vec<T> f = Vec<T>::loadu(factor.data() + i * cp + c);
            const T* from = terms.y[i] + p * terms.c + c;
            for (int j = 0; j < 8; ++j) acc[j] = at::vec::fmadd(load(from + j * terms.c, count) - m, f, acc[j]);
          }
          for (int j = 0; j < 8; ++j) store(acc[j], to + (p + j) * terms.c + c, count);
        }
        for (; p < last; ++p) {
          Vec<T> acc = start;
          for (int64_t i = 0; i < terms.count; ++i)
            acc = at::vec::fmadd(load(terms.y[i] + p * terms.c + c, count) - Vec<T>::loadu(terms.norms[i].mean() + c),
                                 Vec<T>::loadu(factor.data() + i * cp + c), acc);
          store(acc, to + p * terms.c + c, count);
        }
      }
    }
  });
  return out;
}

// Over all pixels, by channel: the sum of g, and for every term that of g times the normalised term; [terms + 1, cp].
template <typename T>
std::vector<double> gradient_sums(const Terms<T>& terms, const T* g) {
  const int64_t cp = terms.cp, size = (terms.count + 1) * cp;
  constexpr int64_t v = lanes<T>();
  // Blocks are few pixels, so that what is added in single precision stays short; threads have fixed shares.
  std::vector<std::vector<double>> sums(at::get_num_threads());
  at::parallel_for(0, terms.blocks(), 4, [&](int64_t begin, int64_t end) {
    auto& own = sums[at::get_thread_num()];
    if (own.empty()) own.assign(size, 0.0);
    Scratch<T> part(size);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kPixels, last = std::min(terms.pixels, first + kPixels);
      for (int64_t c = 0; c < terms.c; c += v) {
        const int64_t count = terms.c - c;
        for (int64_t i = 0; i < terms.count; ++i) {
          const Vec<T> m = Vec<T>::loadu(terms.norms[i].mean() + c);
          Vec<T> acc[4];
          for (int j = 0; j < 4; ++j) acc[j] = Vec<T>(T(0));
          int64_t p = first;
          const T* from = terms.y[i];
          for (; p + 4 <= last; p += 4)
            for (int j = 0; j < 4; ++j)
              acc[j] = at::vec::fmadd(load(from + (p + j) * terms.c + c, count) - m,
                                      load(g + (p + j) * terms.c + c, count), acc[j]);
          for (; p < last; ++p)
            acc[0] = at::vec::fmadd(load(from + p * terms.c + c, count) - m, load(g + p * terms.c + c, count), acc[0]);
          (((acc[0] + acc[1]) + (acc[2] + acc[3])) * Vec<T>::loadu(terms.norms[i].rstd() + c))
              .store(part.data() + (i + 1) * cp + c);
        }
        Vec<T> sum(T(0));
        for (int64_t p = first; p < last; ++p) sum = sum + load(g + p * terms.c + c, count);
        sum.store(part.data() + c);
      }
      for (int64_t k = 0; k < size; ++k) own[k] += part.data()[k];
    }
  });
  std::vector<double> total(size, 0.0);
  for (const auto& own : sums)
    for (size_t k = 0; k < own.size(); ++k) total[k] += own[k];
  return total;
}

using MixGradients = std::tuple<std::vector<Tensor>, std::vector<Tensor>, Tensor, std::vector<Tensor>>;

// Gradients of the terms that are wanted (empty tensors for the others), of their scales and shifts, of the weights;
// and for every term the [4, c] coefficients of its gradient, for kernels that compute it themselves (see `Slope`).
template <typename T>
MixGradients mix_backward_t(const Tensor& gradient, TensorList ys, TensorList statistics, TensorList affines,
                            const Tensor& weights, at::IntArrayRef wanted) {
  const Terms<T> terms(ys, statistics, affines);
  TORCH_CHECK(gradient.sizes() == ys[0].sizes() && Images(gradient).pixel == terms.c, "the gradient must be dense");
  TORCH_CHECK(weights.numel() == terms.count && static_cast<int64_t>(wanted.size()) == terms.count,
              "a mixture must have a weight for every term");
  const Tensor w = weights.contiguous();
  const T *share = w.const_data_ptr<T>(), *g = gradient.const_data_ptr<T>();
  const int64_t cp = terms.cp;
  const std::vector<double> sums = gradient_sums(terms, g);
  Tensor dw = at::empty({terms.count}, weights.options());
  std::vector<Tensor> dys, daffines, coefficients;
  std::vector<Slope<T>> slopes;
  std::vector<T*> to;
  for (int64_t i = 0; i < terms.count; ++i) {
    const auto& norm = terms.norms[i];
    Tensor da = at::empty({norm.affine ? 2 : 0, terms.c}, ys[0].options());
    Tensor rows = at::zeros({4, terms.c}, ys[0].options());
    T *a = rows.template data_ptr<T>(), *b = a + terms.c, *d = b + terms.c, *m = d + terms.c;
    double sum = 0;
    for (int64_t c = 0; c < terms.c; ++c) {
      const double product = sums[(i + 1) * cp + c], rstd = norm.rstd()[c], one = share[i];
      const double scale = one * rstd * norm.scale()[c];
      sum += product * norm.scale()[c] + sums[c] * norm.shift()[c];
      a[c] = static_cast<T>(scale);
      if (norm.present) {
        b[c] = static_cast<T>(scale * sums[c] / terms.pixels);
        d[c] = static_cast<T>(scale * rstd * product / terms.pixels);
        m[c] = norm.mean()[c];
      }
      if (norm.affine) {
        da.template data_ptr<T>()[c] = static_cast<T>(one * product);
        da.template data_ptr<T>()[terms.c + c] = static_cast<T>(one * sums[c]);
      }
    }
    dw.template data_ptr<T>()[i] = static_cast<T>(sum);
    daffines.push_back(da);
    slopes.emplace_back(rows, norm.present);
    coefficients.push_back(rows);
    dys.push_back(wanted[i] ? new_images(ys[i], ys[i].size(0), terms.c, ys[i].size(2), ys[i].size(3))
                            : at::empty({0}, ys[i].options()));
    to.push_back(dys.back().template data_ptr<T>());
  }
  at::parallel_for(0, terms.blocks(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kPixels, last = std::min(terms.pixels, first + kPixels);
      for (int64_t i = 0; i < terms.count; ++i)
        if (wanted[i])
          slopes[i].apply(g + first * terms.c, terms.y[i] + first * terms.c, last - first, to[i] + first * terms.c);
    }
  });
  return {dys, daffines, dw, coefficients};
}

// [3, c]: mean, rstd and variance of images.
template <typename T>
Tensor statistics_t(const Tensor& y, double epsilon) {
  const Images in(y);
  Tensor result = at::empty({3, in.c}, y.options());
  std::vector<double> summary(in.n * 2 * in.c);
  const T* from = y.const_data_ptr<T>();
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Moments<T> moments(in.c);
    for (int64_t i = begin; i < end; ++i) {
      const T* image = from + i * in.pixels() * in.pixel;
      moments.begin(image);
      moments.add(image, in.pixels(), in.pixel);
      moments.end(in.pixels(), summary.data() + i * 2 * in.c, summary.data() + i * 2 * in.c + in.c);
    }
  });
  normalisers<T>(summary.data(), in.n, in.c, in.pixels(), epsilon, result.template data_ptr<T>());
  return result;
}

}  // namespace smallgroup
