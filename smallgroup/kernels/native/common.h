// What all kernels share: vectors, images in channels_last layout, and sums whose order is fixed.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/cpu/vec/vec.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace smallgroup {

using at::Tensor;
template <typename T>
using Vec = at::vec::Vectorized<T>;

template <typename T>
constexpr int64_t lanes() {
  return Vec<T>::size();
}

inline int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// `count` may be less than a vector: what is not there reads as zero and is not written. On AVX2 torch's vectors go
// through memory for this, and a network of 36 channels does it at every pixel.
#if defined(__SANITIZE_ADDRESS__)
// The sanitizer sees no access that has a mask: one number at a time.
template <typename T>
inline Vec<T> load_part(const T* from, int64_t count) {
  T values[Vec<T>::size()] = {};
  for (int64_t i = 0; i < count; ++i) values[i] = from[i];
  return Vec<T>::loadu(values);
}
template <typename T>
inline void store_part(const Vec<T>& value, T* to, int64_t count) {
  T values[Vec<T>::size()];
  value.store(values);
  for (int64_t i = 0; i < count; ++i) to[i] = values[i];
}
#elif defined(CPU_CAPABILITY_AVX2)
inline __m256i first(int64_t count) {
  alignas(32) static const int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask + 8 - count));
}
inline Vec<float> load_part(const float* from, int64_t count) { return _mm256_maskload_ps(from, first(count)); }
inline Vec<double> load_part(const double* from, int64_t count) { return _mm256_maskload_pd(from, first(2 * count)); }
inline void store_part(const Vec<float>& value, float* to, int64_t count) {
  if (count == 4) return _mm_storeu_ps(to, _mm256_castps256_ps128(value));  // several times faster on some processors
  _mm256_maskstore_ps(to, first(count), value);
}
inline void store_part(const Vec<double>& value, double* to, int64_t count) {
  _mm256_maskstore_pd(to, first(2 * count), value);
}
#else
template <typename T>
inline Vec<T> load_part(const T* from, int64_t count) {
  return Vec<T>::loadu(from, count);
}
template <typename T>
inline void store_part(const Vec<T>& value, T* to, int64_t count) {
  value.store(to, count);
}
#endif

template <typename T>
inline Vec<T> load(const T* from, int64_t count) {
  return count >= lanes<T>() ? Vec<T>::loadu(from) : load_part(from, count);
}

template <typename T>
inline void store(const Vec<T>& value, T* to, int64_t count) {
  if (count >= lanes<T>()) {
    value.store(to);
  } else {
    store_part(value, to, count);
  }
}

// Images [n, c, h, w] whose channels lie side by side; a slice of the channels of a wider image is one too.
struct Images {
  int64_t n, c, h, w, pixel;  // pixel: how far the next pixel is

  explicit Images(const Tensor& t) : n(0), c(0), h(0), w(0), pixel(0) {
    TORCH_CHECK(t.dim() == 4, "images must be [n, c, h, w], but they are ", t.sizes());
    n = t.size(0);
    c = t.size(1);
    h = t.size(2);
    w = t.size(3);
    TORCH_CHECK(c > 0 && h > 0 && w > 0, "images must have pixels, but they are ", t.sizes());
    // A stride of a dimension of size one says nothing.
    pixel = w > 1 ? t.stride(3) : h > 1 ? t.stride(2) : n > 1 ? t.stride(0) : c;
    TORCH_CHECK(pixel >= c && (c == 1 || t.stride(1) == 1) && (h == 1 || t.stride(2) == w * pixel) &&
                    (n == 1 || t.stride(0) == h * w * pixel),
                "images must be in channels_last layout");
  }
  int64_t pixels() const { return h * w; }

  // The same memory as more and smaller images, whole rows of these: what looks at single pixels works on a few of them
  // while they are in the nearest memory.
  Images in_strips(int64_t values) const {
    Images strips = *this;
    strips.h = 1;
    for (int64_t rows = 2; rows <= h && rows * w * c <= values; ++rows)
      if (h % rows == 0) strips.h = rows;
    strips.n = n * (h / strips.h);
    return strips;
  }
};

// Larger ones have no use, and sizes that are multiplied by them stay far from overflowing.
constexpr int64_t kLargestStep = 64;

inline void check_stride(int64_t stride) {
  TORCH_CHECK(stride >= 1 && stride <= kLargestStep, "a stride must be from 1 to ", kLargestStep, ", but it is ", stride);
}

inline Tensor new_images(const Tensor& like, int64_t n, int64_t c, int64_t h, int64_t w) {
  return at::empty({n, c, h, w}, like.options(), at::MemoryFormat::ChannelsLast);
}

// Memory of one thread, aligned, filled with zeros at the start.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t size) : memory_(size + 64 / sizeof(T), T(0)) {
    auto address = reinterpret_cast<uintptr_t>(memory_.data());
    start_ = reinterpret_cast<T*>((address + 63) / 64 * 64);
    size_ = size;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() { return start_; }
  void clear() { std::fill(start_, start_ + size_, T(0)); }

 private:
  std::vector<T> memory_;
  T* start_;
  int64_t size_;
};

// Mean and spread of the channels of one image, about a shift that is one of its values: no digits are lost where the
// mean is far from zero. A few pixels at a time are added in the precision of the images, these sums in double.
template <typename T>
class Moments {
 public:
  explicit Moments(int64_t channels)
      : c_(channels), shift_(round_up(channels, lanes<T>())), one_(channels), two_(channels) {}

  void begin(const T* first) {
    std::copy(first, first + c_, shift_.data());
    std::fill(one_.begin(), one_.end(), 0.0);
    std::fill(two_.begin(), two_.end(), 0.0);
  }

  void add(const T* y, int64_t pixels, int64_t stride) {
    for (int64_t p = 0; p < pixels; p += kBlock) add_block(y + p * stride, std::min(kBlock, pixels - p), stride);
  }

  // The mean, and the sum of squared deviations from it.
  void end(int64_t pixels, double* mean, double* squares) {
    for (int64_t c = 0; c < c_; ++c) {
      mean[c] = shift_.data()[c] + one_[c] / pixels;
      squares[c] = std::max(0.0, two_[c] - one_[c] * one_[c] / pixels);
      if (std::isnan(two_[c])) squares[c] = two_[c];
    }
  }

 private:
  static constexpr int64_t kBlock = 64;

  void add_block(const T* y, int64_t pixels, int64_t stride) {
    constexpr int64_t v = lanes<T>();
    for (int64_t c = 0; c < c_; c += v) {
      const int64_t count = c_ - c;
      const Vec<T> s = Vec<T>::loadu(shift_.data() + c);
      Vec<T> a[4], b[4];
      for (int j = 0; j < 4; ++j) {
        a[j] = Vec<T>(T(0));
        b[j] = Vec<T>(T(0));
      }
      int64_t p = 0;
      for (; p + 4 <= pixels; p += 4) {
        for (int j = 0; j < 4; ++j) {
          const Vec<T> d = load(y + (p + j) * stride + c, count) - s;
          a[j] = a[j] + d;
          b[j] = at::vec::fmadd(d, d, b[j]);
        }
      }
      for (; p < pixels; ++p) {
        const Vec<T> d = load(y + p * stride + c, count) - s;
        a[0] = a[0] + d;
        b[0] = at::vec::fmadd(d, d, b[0]);
      }
      T one[lanes<T>()], two[lanes<T>()];
      ((a[0] + a[1]) + (a[2] + a[3])).store(one);
      ((b[0] + b[1]) + (b[2] + b[3])).store(two);
      for (int64_t l = 0; l < std::min(v, count); ++l) {
        one_[c + l] += one[l];
        two_[c + l] += two[l];
      }
    }
  }

  int64_t c_;
  Scratch<T> shift_;
  std::vector<double> one_, two_;
};

// From the moments of the images, [images, 2, c], to [3, c]: mean, 1 / sqrt(variance + epsilon) and variance over all.
template <typename T>
void normalisers(const double* images, int64_t n, int64_t c, int64_t pixels, double epsilon, T* out) {
  std::vector<double> mean(c, 0.0), squares(c, 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < c; ++k) mean[k] += images[i * 2 * c + k];
  for (int64_t k = 0; k < c; ++k) mean[k] /= n;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < c; ++k) {
      const double d = images[i * 2 * c + k] - mean[k];
      squares[k] += images[i * 2 * c + c + k] + pixels * d * d;
    }
  for (int64_t k = 0; k < c; ++k) {
    const double variance = squares[k] / (static_cast<double>(n) * pixels);
    out[k] = static_cast<T>(mean[k]);
    out[c + k] = static_cast<T>(1 / std::sqrt(variance + epsilon));
    out[2 * c + k] = static_cast<T>(variance);
  }
}

// How values are normalised before they are used: (x - mean) rstd scale + shift, by channel; rows of whole vectors, in
// which the padding stays zero. Without statistics nothing is done.
template <typename T>
struct Norm {
  bool present, affine;
  int64_t cp;
  std::vector<T> rows;  // mean, rstd, scale, shift

  Norm(const Tensor& statistics, const Tensor& affine_, int64_t c)
      : present(statistics.numel() > 0), affine(affine_.numel() > 0), cp(round_up(c, lanes<T>())), rows(4 * cp, T(0)) {
    TORCH_CHECK(!present || (statistics.sizes() == at::IntArrayRef({3, c}) && statistics.is_contiguous()),
                "statistics must be [3, channels]");
    TORCH_CHECK(!affine || (present && affine_.sizes() == at::IntArrayRef({2, c}) && affine_.is_contiguous()),
                "scale and shift must be [2, channels], of normalised values");
    const T* found = present ? statistics.const_data_ptr<T>() : nullptr;
    const T* given = affine ? affine_.const_data_ptr<T>() : nullptr;
    for (int64_t k = 0; k < c; ++k) {
      rows[k] = present ? found[k] : T(0);
      rows[cp + k] = present ? found[c + k] : T(1);
      rows[2 * cp + k] = affine ? given[k] : T(1);
      rows[3 * cp + k] = affine ? given[c + k] : T(0);
    }
  }
  const T* mean() const { return rows.data(); }
  const T* rstd() const { return rows.data() + cp; }
  const T* scale() const { return rows.data() + 2 * cp; }
  const T* shift() const { return rows.data() + 3 * cp; }
};

template <typename T>
std::vector<Norm<T>> make_norms(at::TensorList statistics, at::TensorList affines, size_t count, int64_t c) {
  TORCH_CHECK(statistics.size() == count && affines.size() == count, "every input must have its statistics, or none");
  std::vector<Norm<T>> result;
  for (size_t i = 0; i < statistics.size(); ++i) result.emplace_back(statistics[i], affines[i], c);
  return result;
}

// The gradient of a term y of a sum from the gradient g of the sum:
//   scale rstd (w g - mean(w g) - y^ mean(w g y^)) = a w g - b - d (y - mean), by channel;
// w is the weight of the term; every image may have its own.
template <typename T>
struct Slope {
  int64_t c, cp;
  bool normed;
  std::vector<T> rows;  // a, b, d, mean

  Slope(const Tensor& coefficients, int64_t channels, bool normed_)
      : c(channels), cp(round_up(c, lanes<T>())), normed(normed_), rows(4 * cp, T(0)) {
    TORCH_CHECK(coefficients.sizes() == at::IntArrayRef({4, c}) && coefficients.is_contiguous(),
                "coefficients must be [4, channels] = [4, ", c, "] and contiguous, but they are ", coefficients.sizes());
    const T* from = coefficients.const_data_ptr<T>();
    for (int64_t r = 0; r < 4; ++r) std::copy(from + r * c, from + (r + 1) * c, rows.data() + r * cp);
  }

  // Pixels of g and y may lie farther apart than their channels.
  void apply(const T* g, int64_t pixel, const T* y, int64_t y_pixel, int64_t pixels, T weight, T* to) const {
    constexpr int64_t v = lanes<T>();
    for (int64_t k = 0; k < c; k += v) {
      const Vec<T> a = Vec<T>::loadu(rows.data() + k) * Vec<T>(weight), b = Vec<T>::loadu(rows.data() + cp + k);
      const Vec<T> d = Vec<T>::loadu(rows.data() + 2 * cp + k), m = Vec<T>::loadu(rows.data() + 3 * cp + k);
      const int64_t count = c - k;
      if (normed) {
        for (int64_t p = 0; p < pixels; ++p)
          store(load(g + p * pixel + k, count) * a - b - (load(y + p * y_pixel + k, count) - m) * d, to + p * c + k, count);
      } else {
        for (int64_t p = 0; p < pixels; ++p) store(load(g + p * pixel + k, count) * a, to + p * c + k, count);
      }
    }
  }
};

}  // namespace smallgroup
