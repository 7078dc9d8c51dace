// Weighted sums of terms, each normalised by statistics of its own or taken as it is:
//   out = sum_i w_i ((y_i - mean_i) rstd_i scale_i + shift_i)   or   sum_i w_i y_i.
// The weights are those of all images, or every image has weights of its own.
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
  std::vector<int64_t> pixel;  // how far the next one is
  std::vector<Norm<T>> norms;

  Terms(TensorList ys, TensorList statistics, TensorList affines)
      : c(ys[0].size(1)), cp(round_up(c, lanes<T>())), pixels(ys[0].numel() / c), count(ys.size()),
        norms(make_norms<T>(statistics, affines, ys.size(), c)) {
    for (const auto& each : ys) {
      TORCH_CHECK(each.sizes() == ys[0].sizes(), "terms must be of one size");
      pixel.push_back(Images(each).pixel);
      y.push_back(each.template const_data_ptr<T>());
    }
  }
};

// The weights, [groups, terms], and the blocks of pixels, each of which lies in one group.
template <typename T>
struct Shares {
  Tensor weights;
  const T* table;  // looked up once: torch checks the type every time
  int64_t groups, count, pixels, per_group;

  Shares(const Tensor& w, const Terms<T>& terms, int64_t images)
      : weights(w.contiguous()), table(weights.const_data_ptr<T>()), groups(w.dim() == 2 ? images : 1), count(terms.count), pixels(terms.pixels / groups),
        per_group((pixels + kPixels - 1) / kPixels) {
    TORCH_CHECK(w.dim() == 1 || w.dim() == 2, "weights must be [terms] or [images, terms]");
    TORCH_CHECK(w.size(-1) == count && w.numel() == groups * count, "a mixture must have a weight for every term");
  }
  const T* of(int64_t group) const { return table + group * count; }
  int64_t blocks() const { return groups * per_group; }
  int64_t group(int64_t block) const { return block / per_group; }
  int64_t first(int64_t block) const { return group(block) * pixels + block % per_group * kPixels; }
  int64_t last(int64_t block) const { return std::min((group(block) + 1) * pixels, first(block) + kPixels); }
};

// `out` may be a slice of the channels of wider images.
template <typename T>
void mix_into_t(const Tensor& out, TensorList ys, TensorList statistics, TensorList affines, const Tensor& weights) {
  const Terms<T> terms(ys, statistics, affines);
  TORCH_CHECK(out.sizes() == ys[0].sizes() && out.scalar_type() == ys[0].scalar_type(),
              "the sum must be of the size of the terms");
  const int64_t to_pixel = Images(out).pixel;
  const Shares<T> shares(weights, terms, ys[0].size(0));
  const int64_t cp = terms.cp;
  std::vector<T> factors(shares.groups * terms.count * cp), constants(shares.groups * cp, T(0));
  for (int64_t k = 0; k < shares.groups; ++k)
    for (int64_t i = 0; i < terms.count; ++i)
      for (int64_t c = 0; c < cp; ++c) {
        const T share = shares.of(k)[i];
        factors[(k * terms.count + i) * cp + c] = share * terms.norms[i].rstd()[c] * terms.norms[i].scale()[c];
        constants[k * cp + c] += share * terms.norms[i].shift()[c];
      }
  T* to = out.template data_ptr<T>();
  constexpr int64_t v = lanes<T>();
  at::parallel_for(0, shares.blocks(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = shares.first(block), last = shares.last(block), group = shares.group(block);
      const T* factor = factors.data() + group * terms.count * cp;
      for (int64_t c = 0; c < terms.c; c += v) {
        const int64_t count = terms.c - c;
        const Vec<T> start = Vec<T>::loadu(constants.data() + group * cp + c);
        int64_t p = first;
        for (; p + 8 <= last; p += 8) {
          Vec<T> acc[8];
          for (int j = 0; j < 8; ++j) acc[j] = start;
          for (int64_t i = 0; i < terms.count; ++i) {
            const Vec<T> m = Vec<T>::loadu(terms.norms[i].mean() + c);
            const Vec<T> f = Vec<T>::loadu(factor + i * cp + c);
            const int64_t pixel = terms.pixel[i];
            const T* from = terms.y[i] + p * pixel + c;
            for (int j = 0; j < 8; ++j) acc[j] = at::vec::fmadd(load(from + j * pixel, count) - m, f, acc[j]);
          }
          for (int j = 0; j < 8; ++j) store(acc[j], to + (p + j) * to_pixel + c, count);
        }
        for (; p < last; ++p) {
          Vec<T> acc = start;
          for (int64_t i = 0; i < terms.count; ++i)
            acc = at::vec::fmadd(
                load(terms.y[i] + p * terms.pixel[i] + c, count) - Vec<T>::loadu(terms.norms[i].mean() + c),
                Vec<T>::loadu(factor + i * cp + c), acc);
          store(acc, to + p * to_pixel + c, count);
        }
      }
    }
  });
}

template <typename T>
Tensor mix_forward_t(TensorList ys, TensorList statistics, TensorList affines, const Tensor& weights) {
  Tensor out = new_images(ys[0], ys[0].size(0), ys[0].size(1), ys[0].size(2), ys[0].size(3));
  mix_into_t<T>(out, ys, statistics, affines, weights);
  return out;
}

// Over all pixels of a group, by channel: the sum of g, and for every term that of g times the normalised term;
// [groups, terms + 1, cp].
template <typename T>
std::vector<double> gradient_sums(const Terms<T>& terms, const Shares<T>& shares, const T* g, int64_t pixel) {
  const int64_t cp = terms.cp, size = (terms.count + 1) * cp;
  constexpr int64_t v = lanes<T>();
  // Blocks are few pixels, so that what is added in single precision stays short; threads have fixed shares.
  std::vector<std::vector<double>> sums(at::get_num_threads());
  at::parallel_for(0, shares.blocks(), 4, [&](int64_t begin, int64_t end) {
    auto& own = sums[at::get_thread_num()];
    if (own.empty()) own.assign(shares.groups * size, 0.0);
    Scratch<T> part(size);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = shares.first(block), last = shares.last(block);
      for (int64_t c = 0; c < terms.c; c += v) {
        const int64_t count = terms.c - c;
        for (int64_t i = 0; i < terms.count; ++i) {
          const Vec<T> m = Vec<T>::loadu(terms.norms[i].mean() + c);
          Vec<T> acc[4];
          for (int j = 0; j < 4; ++j) acc[j] = Vec<T>(T(0));
          int64_t p = first;
          const T* from = terms.y[i] + c;
          const int64_t apart = terms.pixel[i];
          for (; p + 4 <= last; p += 4)
            for (int j = 0; j < 4; ++j)
              acc[j] = at::vec::fmadd(load(from + (p + j) * apart, count) - m,
                                      load(g + (p + j) * pixel + c, count), acc[j]);
          for (; p < last; ++p)
            acc[0] = at::vec::fmadd(load(from + p * apart, count) - m, load(g + p * pixel + c, count), acc[0]);
          (((acc[0] + acc[1]) + (acc[2] + acc[3])) * Vec<T>::loadu(terms.norms[i].rstd() + c))
              .store(part.data() + (i + 1) * cp + c);
        }
        Vec<T> sum(T(0));
        for (int64_t p = first; p < last; ++p) sum = sum + load(g + p * pixel + c, count);
        sum.store(part.data() + c);
      }
      double* to = own.data() + shares.group(block) * size;
      for (int64_t k = 0; k < size; ++k) to[k] += part.data()[k];
    }
  });
  std::vector<double> total(shares.groups * size, 0.0);
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
  TORCH_CHECK(gradient.sizes() == ys[0].sizes(), "the gradient must be of the size of the terms");
  const int64_t pixel = Images(gradient).pixel;
  TORCH_CHECK(static_cast<int64_t>(wanted.size()) == terms.count, "every term must be wanted or not");
  const Shares<T> shares(weights, terms, ys[0].size(0));
  const T* g = gradient.const_data_ptr<T>();
  const int64_t cp = terms.cp, groups = shares.groups;
  const std::vector<double> sums = gradient_sums(terms, shares, g, pixel);
  Tensor dw = at::empty(weights.sizes(), weights.options());
  std::vector<Tensor> dys, daffines, coefficients;
  std::vector<Slope<T>> slopes;
  std::vector<T*> to;
  for (int64_t i = 0; i < terms.count; ++i) {
    const auto& norm = terms.norms[i];
    Tensor da = at::empty({norm.affine ? 2 : 0, terms.c}, ys[0].options());
    Tensor rows = at::zeros({4, terms.c}, ys[0].options());
    T *a = rows.template data_ptr<T>(), *b = a + terms.c, *d = b + terms.c, *m = d + terms.c;
    std::vector<double> of_weights(groups, 0.0);
    for (int64_t c = 0; c < terms.c; ++c) {
      double sum = 0, product = 0;  // of what reaches the normalised term
      for (int64_t k = 0; k < groups; ++k) {
        const double* own = sums.data() + k * (terms.count + 1) * cp + c;
        sum += shares.of(k)[i] * own[0];
        product += shares.of(k)[i] * own[(i + 1) * cp];
        of_weights[k] += own[(i + 1) * cp] * norm.scale()[c] + own[0] * norm.shift()[c];
      }
      const double rstd = norm.rstd()[c], scale = rstd * norm.scale()[c];
      a[c] = static_cast<T>(scale);
      if (norm.present) {
        b[c] = static_cast<T>(scale * sum / terms.pixels);
        d[c] = static_cast<T>(scale * rstd * product / terms.pixels);
        m[c] = norm.mean()[c];
      }
      if (norm.affine) {
        da.template data_ptr<T>()[c] = static_cast<T>(product);
        da.template data_ptr<T>()[terms.c + c] = static_cast<T>(sum);
      }
    }
    for (int64_t k = 0; k < groups; ++k)
      dw.template data_ptr<T>()[k * terms.count + i] = static_cast<T>(of_weights[k]);
    daffines.push_back(da);
    slopes.emplace_back(rows, terms.c, norm.present);
    coefficients.push_back(rows);
    dys.push_back(wanted[i] ? new_images(ys[i], ys[i].size(0), terms.c, ys[i].size(2), ys[i].size(3))
                            : at::empty({0}, ys[i].options()));
    to.push_back(dys.back().template data_ptr<T>());
  }
  at::parallel_for(0, shares.blocks(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = shares.first(block), pixels = shares.last(block) - first;
      for (int64_t i = 0; i < terms.count; ++i)
        if (wanted[i])
          slopes[i].apply(g + first * pixel, pixel, terms.y[i] + first * terms.pixel[i], terms.pixel[i], pixels,
                          shares.of(shares.group(block))[i], to[i] + first * terms.c);
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
