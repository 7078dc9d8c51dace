// Pooling over 3x3 pixels with a border of one, and the statistics for the batch norm behind it.
#pragma once

#include <limits>

#include "common.h"

namespace smallgroup {

template <typename T>
struct Pool {
  const Images x;
  int64_t stride, ho, wo;

  Pool(const Tensor& t, int64_t stride_) : x(t), stride(stride_), ho((x.h - 1) / stride_ + 1), wo((x.w - 1) / stride_ + 1) {}
};

// The pixels of a window that lie inside the image: [from, to) in one dimension.
inline std::pair<int64_t, int64_t> window(int64_t output, int64_t stride, int64_t size) {
  return {std::max<int64_t>(0, output * stride - 1), std::min(size, output * stride + 2)};
}

template <typename T>
void max_pool_image(const Pool<T>& pool, const T* x, T* y, uint8_t* chosen) {
  const auto& in = pool.x;
  constexpr int64_t v = lanes<T>();
  for (int64_t i = 0; i < pool.ho; ++i) {
    const auto [top, bottom] = window(i, pool.stride, in.h);
    for (int64_t j = 0; j < pool.wo; ++j) {
      const auto [left, right] = window(j, pool.stride, in.w);
      const int64_t place = (i * pool.wo + j) * in.c;
      for (int64_t c = 0; c < in.c; c += v) {
        const int64_t count = in.c - c;
        Vec<T> best(-std::numeric_limits<T>::infinity());
        Vec<T> which(static_cast<T>((top - i * pool.stride + 1) * 3 + left - j * pool.stride + 1));
        for (int64_t a = top; a < bottom; ++a)
          for (int64_t b = left; b < right; ++b) {
            const Vec<T> value = load(x + (a * in.w + b) * in.pixel + c, count);
            const Vec<T> tap(static_cast<T>((a - i * pool.stride + 1) * 3 + b - j * pool.stride + 1));
            // The first of equal ones stays; what is no number wins, as in torch.
            const Vec<T> larger = (value > best) | (value != value);
            best = Vec<T>::blendv(best, value, larger);
            which = Vec<T>::blendv(which, tap, larger);
          }
        store(best, y + place + c, count);
        T taps[lanes<T>()];
        which.store(taps);
        for (int64_t l = 0; l < std::min(v, count); ++l) chosen[place + c + l] = static_cast<uint8_t>(taps[l]);
      }
    }
  }
}

template <typename T>
void average_pool_image(const Pool<T>& pool, const T* x, T* y) {
  const auto& in = pool.x;
  constexpr int64_t v = lanes<T>();
  for (int64_t i = 0; i < pool.ho; ++i) {
    const auto [top, bottom] = window(i, pool.stride, in.h);
    for (int64_t j = 0; j < pool.wo; ++j) {
      const auto [left, right] = window(j, pool.stride, in.w);
      T* out = y + (i * pool.wo + j) * in.c;
      const Vec<T> count(static_cast<T>((bottom - top) * (right - left)));
      for (int64_t c = 0; c < in.c; c += v) {
        Vec<T> sum(T(0));
        for (int64_t a = top; a < bottom; ++a)
          for (int64_t b = left; b < right; ++b) sum = sum + load(x + (a * in.w + b) * in.pixel + c, in.c - c);
        store(sum / count, out + c, in.c - c);
      }
    }
  }
}

// (y, [3, c] statistics, chosen taps: empty for averages)
template <typename T>
std::tuple<Tensor, Tensor, Tensor> pool_forward_t(const Tensor& x, int64_t stride, bool average, double epsilon) {
  const Pool<T> pool(x, stride);
  const auto& in = pool.x;
  Tensor y = new_images(x, in.n, in.c, pool.ho, pool.wo);
  Tensor chosen = average ? at::empty({0}, x.options().dtype(at::kByte))
                          : at::empty({in.n, pool.ho, pool.wo, in.c}, x.options().dtype(at::kByte));
  Tensor statistics = at::empty({3, in.c}, x.options());
  const T* from = x.const_data_ptr<T>();
  T* to = y.template data_ptr<T>();
  uint8_t* which = chosen.data_ptr<uint8_t>();
  std::vector<double> summary(in.n * 2 * in.c);
  const int64_t pixels = pool.ho * pool.wo;
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    Moments<T> moments(in.c);
    for (int64_t i = begin; i < end; ++i) {
      T* out = to + i * pixels * in.c;
      if (average) {
        average_pool_image(pool, from + i * in.pixels() * in.pixel, out);
      } else {
        max_pool_image(pool, from + i * in.pixels() * in.pixel, out, which + i * pixels * in.c);
      }
      moments.begin(out);
      moments.add(out, pixels, in.c);
      moments.end(pixels, summary.data() + i * 2 * in.c, summary.data() + i * 2 * in.c + in.c);
    }
  });
  normalisers<T>(summary.data(), in.n, in.c, pixels, epsilon, statistics.template data_ptr<T>());
  return {y, statistics, chosen};
}

template <typename T>
Tensor pool_backward_t(const Tensor& dy, const Tensor& x, int64_t stride, const Tensor& chosen) {
  const Pool<T> pool(x, stride);
  const auto& in = pool.x;
  const bool average = chosen.numel() == 0;
  TORCH_CHECK(dy.sizes() == at::IntArrayRef({in.n, in.c, pool.ho, pool.wo}) && Images(dy).pixel == in.c,
              "the gradient must be dense and of the size of the result");
  TORCH_CHECK(average || (chosen.sizes() == at::IntArrayRef({in.n, pool.ho, pool.wo, in.c}) && chosen.is_contiguous() &&
                          chosen.device().is_cpu()),
              "chosen must be empty or [n, h, w, c] of the result, but it is ", chosen.sizes());
  int64_t offsets[9];  // of the taps, from the corner of their window
  for (int64_t tap = 0; tap < 9; ++tap) offsets[tap] = ((tap / 3) * in.w + tap % 3) * in.c;
  Tensor dx = new_images(x, in.n, in.c, in.h, in.w);
  T* to = dx.template data_ptr<T>();
  const T* from = dy.const_data_ptr<T>();
  const uint8_t* which = chosen.const_data_ptr<uint8_t>();
  constexpr int64_t v = lanes<T>();
  at::parallel_for(0, in.n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      T* image = to + n * in.pixels() * in.c;
      std::fill(image, image + in.pixels() * in.c, T(0));
      for (int64_t i = 0; i < pool.ho; ++i) {
        const auto [top, bottom] = window(i, stride, in.h);
        for (int64_t j = 0; j < pool.wo; ++j) {
          const auto [left, right] = window(j, stride, in.w);
          const int64_t place = ((n * pool.ho + i) * pool.wo + j) * in.c;
          const T* g = from + place;
          if (average) {
            const Vec<T> share(T(1) / static_cast<T>((bottom - top) * (right - left)));
            for (int64_t a = top; a < bottom; ++a)
              for (int64_t b = left; b < right; ++b) {
                T* out = image + (a * in.w + b) * in.c;
                for (int64_t c = 0; c < in.c; c += v)
                  store(at::vec::fmadd(load(g + c, in.c - c), share, load(out + c, in.c - c)), out + c, in.c - c);
              }
          } else {
            T* corner = image + ((i * stride - 1) * in.w + j * stride - 1) * in.c;
            unsigned inside = 0;  // a bit for every tap that lies in the image
            for (int64_t a = top; a < bottom; ++a)
              for (int64_t b = left; b < right; ++b) inside |= 1u << ((a - i * stride + 1) * 3 + b - j * stride + 1);
            for (int64_t c = 0; c < in.c; ++c) {
              const int64_t tap = which[place + c];
              TORCH_CHECK(tap < 9 && (inside >> tap & 1), "chosen must be taps inside the image, but one is ", tap);
              corner[offsets[tap] + c] += g[c];
            }
          }
        }
      }
    }
  });
  return dx;
}

}  // namespace smallgroup
