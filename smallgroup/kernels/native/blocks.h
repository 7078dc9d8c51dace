// What surrounds the cells of a supernet: the stem, the residual reductions between stages, and the means behind the last cell.
//
// Results that are kept for the way back have pixels of whole vectors, filled up with zeros, and so have all constants
// by channel: loops over them need no parts of vectors.
#pragma once

#include "dense.h"
#include "mixture.h"

namespace smallgroup {

// The columns of a convolution of k x k pixels: rows by pixel of the window, then by channel.
template <typename T>
Panels<T> forward_panels(const Tensor& matrix) {
  const int64_t outputs = matrix.size(0), inputs = matrix.size(1), k = matrix.size(2);
  Panels<T> panels(k * k * inputs, round_up(outputs, lanes<T>()) / lanes<T>());
  const auto m = matrix.accessor<T, 4>();
  for (int64_t o = 0; o < outputs; ++o) {
    const auto [to, row] = panels.column(o);
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t tap = 0; tap < k * k; ++tap) to[(tap * inputs + i) * row] = m[o][i][tap / k][tap % k];
  }
  return panels;
}

// Those that take the gradient of its result back.
template <typename T>
Panels<T> backward_panels(const Tensor& matrix) {
  const int64_t outputs = matrix.size(0), inputs = matrix.size(1), k = matrix.size(2);
  Panels<T> panels(k * k * outputs, round_up(inputs, lanes<T>()) / lanes<T>());
  const auto m = matrix.accessor<T, 4>();
  for (int64_t i = 0; i < inputs; ++i) {
    const auto [to, row] = panels.column(i);
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t tap = 0; tap < k * k; ++tap) to[(tap * outputs + o) * row] = m[o][i][tap / k][tap % k];
  }
  return panels;
}

// The nine pixels of a window, as they lie in a tile, in the order of a matrix or the other way round.
inline std::vector<int64_t> nine_steps(const Bordered& tile, bool reversed) {
  std::vector<int64_t> steps;
  for (int64_t tap = 0; tap < 9; ++tap) {
    const int64_t at = reversed ? 8 - tap : tap;
    steps.push_back(at / 3 * tile.row + at % 3 * tile.pixel);
  }
  return steps;
}

// Images whose pixels are whole vectors.
struct Padded {
  int64_t n, h, w, c, cp;
  int64_t pixels() const { return h * w; }
  int64_t image() const { return h * w * cp; }
  Tensor make(const Tensor& like) const { return at::empty({n, h, w, cp}, like.options()); }
  void check(const Tensor& t) const {
    TORCH_CHECK(t.sizes() == at::IntArrayRef({n, h, w, cp}) && t.is_contiguous(),
                "results must be as the way forward has left them, but they are ", t.sizes());
  }
};

// An image with whole vectors: itself, or a copy where its channels are none.
template <typename T>
const T* whole(const T* image, const Padded& size, Scratch<T>& copy) {
  if (size.c == size.cp) return image;
  for (int64_t p = 0; p < size.pixels(); ++p)
    std::copy(image + p * size.c, image + (p + 1) * size.c, copy.data() + p * size.cp);
  return copy.data();
}

template <typename T>
int64_t room_for_copy(const Padded& size) {
  return size.c == size.cp ? 0 : size.image();
}

// A batch norm by the statistics of the batch with scale and shift: (y - mean) factor + shift, by channel.
template <typename T>
struct Normed {
  int64_t c, cp;
  std::vector<T> mean, rstd, factor, shift;

  Normed(const Tensor& statistics, const Tensor& scale_, const Tensor& shift_, int64_t channels)
      : c(channels), cp(round_up(channels, lanes<T>())), mean(cp, T(0)), rstd(cp, T(0)), factor(cp, T(0)),
        shift(cp, T(0)) {
    TORCH_CHECK(statistics.sizes() == at::IntArrayRef({3, c}) && statistics.is_contiguous(),
                "statistics must be [3, channels], but they are ", statistics.sizes());
    const T *found = statistics.const_data_ptr<T>(), *scale = scale_.const_data_ptr<T>();
    std::copy(found, found + c, mean.data());
    std::copy(found + c, found + 2 * c, rstd.data());
    for (int64_t k = 0; k < c; ++k) factor[k] = scale[k] * rstd[k];
    std::copy(shift_.const_data_ptr<T>(), shift_.const_data_ptr<T>() + c, shift.data());
  }
  static void check(const Tensor& scale, const Tensor& shift, int64_t c) {
    for (const Tensor* each : {&scale, &shift})
      TORCH_CHECK(each->sizes() == at::IntArrayRef({c}) && each->is_contiguous(),
                  "scale and shift must be [channels], but one is ", each->sizes());
  }
  Vec<T> operator()(const Vec<T>& y, int64_t k) const {
    return at::vec::fmadd(y - Vec<T>::loadu(mean.data() + k), Vec<T>::loadu(factor.data() + k),
                          Vec<T>::loadu(shift.data() + k));
  }
};

// Sums over the batch of the gradient g of normalised values, and of g (y - mean): those of shift and scale, and what
// the gradient of y is made of. Threads have sums of their own, which are added in their order.
template <typename T>
class NormGradients {
 public:
  NormGradients(const Normed<T>& norm, int64_t count)
      : norm_(norm), count_(count), own_(at::get_num_threads()), shift_(norm.cp, T(0)), slope_(norm.cp, T(0)) {}

  // One image, of whole vectors.
  void add(const T* g, const T* y, int64_t pixels) {
    constexpr int64_t v = lanes<T>();
    const int64_t cp = norm_.cp;
    auto& own = own_[at::get_thread_num()];
    if (own.empty()) own.assign(2 * cp, 0.0);
    T one[v], two[v];
    for (int64_t first = 0; first < pixels; first += kPixels)
      for (int64_t k = 0; k < cp; k += v) {
        const int64_t last = std::min(pixels, first + kPixels);
        const Vec<T> m = Vec<T>::loadu(norm_.mean.data() + k);
        Vec<T> a[4], b[4];
        for (int j = 0; j < 4; ++j) a[j] = b[j] = Vec<T>(T(0));
        int64_t p = first;
        for (; p + 4 <= last; p += 4)
          for (int j = 0; j < 4; ++j) {
            const Vec<T> here = Vec<T>::loadu(g + (p + j) * cp + k);
            a[j] = a[j] + here;
            b[j] = at::vec::fmadd(here, Vec<T>::loadu(y + (p + j) * cp + k) - m, b[j]);
          }
        for (; p < last; ++p) {
          const Vec<T> here = Vec<T>::loadu(g + p * cp + k);
          a[0] = a[0] + here;
          b[0] = at::vec::fmadd(here, Vec<T>::loadu(y + p * cp + k) - m, b[0]);
        }
        ((a[0] + a[1]) + (a[2] + a[3])).store(one);
        ((b[0] + b[1]) + (b[2] + b[3])).store(two);
        for (int64_t l = 0; l < v; ++l) {
          own[k + l] += one[l];
          own[cp + k + l] += two[l];
        }
      }
  }

  // When all images are in: the gradients of scale and shift.
  void finish(Tensor& of_scale, Tensor& of_shift) {
    const int64_t c = norm_.c, cp = norm_.cp;
    std::vector<double> all(2 * cp, 0.0);
    for (const auto& own : own_)
      for (size_t k = 0; k < own.size(); ++k) all[k] += own[k];
    T *to_scale = of_scale.template data_ptr<T>(), *to_shift = of_shift.template data_ptr<T>();
    for (int64_t k = 0; k < c; ++k) {
      const double product = all[cp + k] * norm_.rstd[k];
      to_scale[k] = static_cast<T>(product);
      to_shift[k] = static_cast<T>(all[k]);
      shift_[k] = static_cast<T>(norm_.factor[k] * all[k] / count_);
      slope_[k] = static_cast<T>(norm_.factor[k] * product * norm_.rstd[k] / count_);
    }
  }

  // The gradient of y, of one image, row by row: rows of the result are so far apart.
  void apply(const T* g, const T* y, int64_t h, int64_t w, T* to, int64_t row) const {
    constexpr int64_t v = lanes<T>();
    const int64_t cp = norm_.cp;
    for (int64_t k = 0; k < cp; k += v) {
      const Vec<T> a = Vec<T>::loadu(norm_.factor.data() + k), b = Vec<T>::loadu(shift_.data() + k);
      const Vec<T> d = Vec<T>::loadu(slope_.data() + k), m = Vec<T>::loadu(norm_.mean.data() + k);
      for (int64_t i = 0; i < h; ++i)
        for (int64_t j = 0; j < w; ++j) {
          const int64_t from = (i * w + j) * cp + k;
          (Vec<T>::loadu(g + from) * a - b - (Vec<T>::loadu(y + from) - m) * d).store(to + i * row + j * cp + k);
        }
    }
  }

 private:
  const Normed<T>& norm_;
  int64_t count_;
  std::vector<std::vector<double>> own_;
  std::vector<T> shift_, slope_;
};

// Sums of gradients of matrices, of threads that have fixed shares.
template <typename T>
class MatrixSums {
 public:
  explicit MatrixSums(int64_t size) : size_(size), own_(at::get_num_threads()) {}
  T* own() {
    auto& mine = own_[at::get_thread_num()];
    if (mine.empty()) mine.assign(size_, T(0));
    return mine.data();
  }
  // As a matrix [outputs, inputs, k, k] laid out like the layer's, from rows by pixel, then by channel, that are so far apart.
  Tensor matrix(const Tensor& like, int64_t channels, int64_t row) const {
    std::vector<T> all(size_, T(0));
    for (const auto& mine : own_)
      for (size_t k = 0; k < mine.size(); ++k) all[k] += mine[k];
    Tensor result = at::empty_like(like);
    const int64_t outputs = like.size(0), inputs = like.size(1), k = like.size(2);
    auto to = result.template accessor<T, 4>();
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t tap = 0; tap < k * k; ++tap) to[o][i][tap / k][tap % k] = all[(tap * channels + i) * row + o];
    return result;
  }

 private:
  int64_t size_;
  std::vector<std::vector<T>> own_;
};

// An image in the middle of a tile, as it is.
template <typename T>
void place(const T* x, const Bordered& tile, T* to) {
  const int64_t size = tile.w * tile.pixel;
  for (int64_t i = 0; i < tile.h; ++i) std::copy(x + i * size, x + (i + 1) * size, to + tile.inside(i));
}

// All columns of a convolution of a tile, and their moments, 64 pixels or so at a time.
template <typename T>
void convolve_image(const T* tile, const std::vector<int64_t>& windows, const std::vector<int64_t>& steps,
                    int64_t depth, const Panels<T>& panels, const Padded& size, Moments<T>& moments, T* out,
                    double* summary) {
  for (int64_t p = 0; p < size.pixels(); p += 64) {
    const int64_t count = std::min<int64_t>(64, size.pixels() - p);
    convolve<T>(tile, windows.data() + p, count, steps, depth, panels, out + p * size.cp, size.cp);
    if (p == 0) moments.begin(out);
    moments.add(out + p * size.cp, count, size.cp);
  }
  moments.end(size.pixels(), summary, summary + size.c);
}

inline void check_matrix(const Tensor& m, int64_t outputs, int64_t inputs, int64_t k) {
  TORCH_CHECK(m.sizes() == at::IntArrayRef({outputs, inputs, k, k}), "a matrix must be [", outputs, ", ", inputs, ", ",
              k, ", ", k, "], but it is ", m.sizes());
}

inline Images dense_images(const Tensor& x) {
  const Images found(x);
  TORCH_CHECK(found.pixel == found.c, "images must be dense and in channels_last layout");
  return found;
}

}  // namespace smallgroup
