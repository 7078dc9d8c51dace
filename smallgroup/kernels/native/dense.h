// Dense 3x3 and 1x1 convolutions of images with few channels: all that leave an image are one product, whose columns
// are the channels of all results side by side, so that vectors are full also where a layer has few channels.
#pragma once

#include "common.h"

namespace smallgroup {

// An image with a border of one pixel of zeros; `pixel` values lie between one pixel and the next.
struct Bordered {
  int64_t h, w, pixel, row;

  Bordered(int64_t h_, int64_t w_, int64_t pixel_) : h(h_), w(w_), pixel(pixel_), row((w_ + 2) * pixel_) {}
  int64_t size() const { return (h + 2) * row; }
  int64_t inside(int64_t i) const { return (i + 1) * row + pixel; }  // the first pixel of a row

  // Where the windows of all pixels begin.
  std::vector<int64_t> windows() const {
    std::vector<int64_t> result(h * w);
    for (int64_t p = 0; p < h * w; ++p) result[p] = p / w * row + p % w * pixel;
    return result;
  }
};

// Matrices of a product by groups of up to three vectors of columns: [groups][rows][vectors of the group].
template <typename T>
struct Panels {
  int64_t rows, vectors;
  std::vector<T> values;

  Panels(int64_t rows_, int64_t vectors_)
      : rows(rows_), vectors(vectors_), values(rows_ * vectors_ * lanes<T>() + lanes<T>(), T(0)) {}

  // How many vectors the group at a vector has: four are two and two.
  static int64_t group(int64_t left) { return left == 4 || left == 2 ? 2 : left >= 3 ? 3 : left; }
  const T* of(int64_t vector) const { return values.data() + rows * vector * lanes<T>(); }

  // The first value of a column, and how far the next row is.
  std::pair<T*, int64_t> column(int64_t number) {
    constexpr int64_t v = lanes<T>();
    int64_t first = 0, wide = group(vectors);
    while (number >= (first + wide) * v) {
      first += wide;
      wide = group(vectors - first);
    }
    return {values.data() + rows * first * v + number - first * v, wide * v};
  }
};

// How the channels of a pixel are taken as vectors: whole ones, where these divide the channels; halves where those do,
// because 8 channels are half a vector of AVX-512, and masks at every pixel cost more than they save; parts of them.
template <typename T>
struct WholeVectors {
  using V = Vec<T>;
  static constexpr int64_t kLanes = Vec<T>::size();
  static V load(const T* from, int64_t) { return V::loadu(from); }
  static void store(const V& value, T* to, int64_t) { value.store(to); }
  static V fmadd(const V& a, const V& b, const V& c) { return at::vec::fmadd(a, b, c); }
  static V where_positive(const V& x, const V& value) { return V::blendv(V(T(0)), value, x > V(T(0))); }
};

template <typename T>
struct PartsOfVectors : WholeVectors<T> {
  using V = Vec<T>;
  static V load(const T* from, int64_t count) { return smallgroup::load(from, count); }
  static void store(const V& value, T* to, int64_t count) { smallgroup::store(value, to, count); }
};

#if defined(CPU_CAPABILITY_AVX512)
struct HalfVector {
  __m256 v;
  HalfVector() = default;
  HalfVector(__m256 v_) : v(v_) {}
  explicit HalfVector(float value) : v(_mm256_set1_ps(value)) {}
  HalfVector operator+(const HalfVector& other) const { return _mm256_add_ps(v, other.v); }
  HalfVector operator-(const HalfVector& other) const { return _mm256_sub_ps(v, other.v); }
  HalfVector operator*(const HalfVector& other) const { return _mm256_mul_ps(v, other.v); }
};

struct HalfVectors {
  using V = HalfVector;
  static constexpr int64_t kLanes = 8;
  static V load(const float* from, int64_t) { return _mm256_loadu_ps(from); }
  static void store(const V& value, float* to, int64_t) { _mm256_storeu_ps(to, value.v); }
  static V fmadd(const V& a, const V& b, const V& c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
  static V where_positive(const V& x, const V& value) {
    return _mm256_and_ps(value.v, _mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_GT_OQ));
  }
};
#endif

// Call with the vectors for so many channels.
template <typename T, typename F>
void with_vectors(int64_t channels, const F& call) {
  if (channels % lanes<T>() == 0) return call(WholeVectors<T>());
#if defined(CPU_CAPABILITY_AVX512)
  if constexpr (std::is_same_v<T, float>)
    if (channels % HalfVectors::kLanes == 0) return call(HalfVectors());
#endif
  call(PartsOfVectors<T>());
}

// Registers hold 24 sums of 64 bytes, or 12 of 32.
template <typename T>
constexpr bool kManyRegisters = sizeof(Vec<T>) >= 64;

// out[m, :] = sum over steps s and l of tile[where[m] + steps[s] + l] panel[s depth + l, :], for M pixels.
template <typename T, int M, int N, bool Added>
C10_ALWAYS_INLINE void convolve_block(const T* tile, const int64_t* where, const std::vector<int64_t>& steps,
                                      int64_t depth, const T* b, T* out, int64_t ldo) {
  constexpr int64_t v = lanes<T>();
  const T* a[M];
  for (int m = 0; m < M; ++m) a[m] = tile + where[m];
  Vec<T> acc[M][N];
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) acc[m][j] = Added ? Vec<T>::loadu(out + m * ldo + j * v) : Vec<T>(T(0));
  for (const int64_t step : steps)
    for (int64_t l = step; l < step + depth; ++l, b += N * v) {
      Vec<T> row[N];
      for (int j = 0; j < N; ++j) row[j] = Vec<T>::loadu(b + j * v);
      for (int m = 0; m < M; ++m) {
        const Vec<T> x(a[m][l]);
        for (int j = 0; j < N; ++j) acc[m][j] = at::vec::fmadd(x, row[j], acc[m][j]);
      }
    }
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) acc[m][j].store(out + m * ldo + j * v);
}

template <typename T, int N, bool Added>
void convolve_columns(const T* tile, const int64_t* where, int64_t pixels, const std::vector<int64_t>& steps,
                      int64_t depth, const T* b, T* out, int64_t ldo) {
  constexpr int M = kManyRegisters<T> || N == 1 ? 8 : 4;
  int64_t p = 0;
  for (; p + M <= pixels; p += M)
    convolve_block<T, M, N, Added>(tile, where + p, steps, depth, b, out + p * ldo, ldo);
  for (; p + 4 <= pixels; p += 4)
    convolve_block<T, 4, N, Added>(tile, where + p, steps, depth, b, out + p * ldo, ldo);
  for (; p < pixels; ++p) convolve_block<T, 1, N, Added>(tile, where + p, steps, depth, b, out + p * ldo, ldo);
}

// All columns of the panels, for pixels whose windows begin at `where`; `out` has room for whole vectors.
template <typename T, bool Added = false>
void convolve(const T* tile, const int64_t* where, int64_t pixels, const std::vector<int64_t>& steps, int64_t depth,
              const Panels<T>& panels, T* out, int64_t ldo) {
  for (int64_t j = 0; j < panels.vectors;) {
    const int64_t wide = Panels<T>::group(panels.vectors - j);
    const T* b = panels.of(j);
    T* to = out + j * lanes<T>();
    if (wide == 3) {
      convolve_columns<T, 3, Added>(tile, where, pixels, steps, depth, b, to, ldo);
    } else if (wide == 2) {
      convolve_columns<T, 2, Added>(tile, where, pixels, steps, depth, b, to, ldo);
    } else {
      convolve_columns<T, 1, Added>(tile, where, pixels, steps, depth, b, to, ldo);
    }
    j += wide;
  }
}

// out[m, :] += sum over pixels of a[pixel, m] b[pixel, :]: the sum over an image is added at once, so that no sum in
// the precision of the images has more terms than an image has pixels, or there are images.
template <typename T, int M, int N>
void correlate_block(const T* a, int64_t a_pixel, int64_t a_row, const T* b, int64_t b_pixel, int64_t b_row, int64_t h,
                     int64_t w, T* out, int64_t ldo) {
  constexpr int64_t v = lanes<T>();
  Vec<T> acc[M][N];
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) acc[m][j] = Vec<T>(T(0));
  for (int64_t i = 0; i < h; ++i) {
    const T *x = a + i * a_row, *g = b + i * b_row;
    for (int64_t p = 0; p < w; ++p, x += a_pixel, g += b_pixel) {
      Vec<T> row[N];
      for (int j = 0; j < N; ++j) row[j] = Vec<T>::loadu(g + j * v);
      for (int m = 0; m < M; ++m) {
        const Vec<T> value(x[m]);
        for (int j = 0; j < N; ++j) acc[m][j] = at::vec::fmadd(value, row[j], acc[m][j]);
      }
    }
  }
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) (Vec<T>::loadu(out + m * ldo + j * v) + acc[m][j]).store(out + m * ldo + j * v);
}

template <typename T, int N>
void correlate_columns(const T* a, int64_t a_pixel, int64_t a_row, int64_t rows, const T* b, int64_t b_pixel,
                       int64_t b_row, int64_t h, int64_t w, T* out, int64_t ldo) {
  constexpr int M = kManyRegisters<T> ? (N == 1 ? 12 : 8) : N == 1 ? 8 : N == 2 ? 6 : 4;
  int64_t r = 0;
  for (; r + M <= rows; r += M)
    correlate_block<T, M, N>(a + r, a_pixel, a_row, b, b_pixel, b_row, h, w, out + r * ldo, ldo);
  for (; r + 4 <= rows; r += 4)
    correlate_block<T, 4, N>(a + r, a_pixel, a_row, b, b_pixel, b_row, h, w, out + r * ldo, ldo);
  for (; r < rows; ++r)
    correlate_block<T, 1, N>(a + r, a_pixel, a_row, b, b_pixel, b_row, h, w, out + r * ldo, ldo);
}

// The gradient of a matrix on one image: `rows` values from a on against whole vectors from b on, over h x w pixels.
template <typename T>
void correlate(const T* a, int64_t a_pixel, int64_t a_row, int64_t rows, const T* b, int64_t b_pixel, int64_t b_row,
               int64_t vectors, int64_t h, int64_t w, T* out, int64_t ldo) {
  for (int64_t j = 0; j < vectors;) {
    const int64_t wide = Panels<T>::group(vectors - j), c = j * lanes<T>();
    if (wide == 3) {
      correlate_columns<T, 3>(a, a_pixel, a_row, rows, b + c, b_pixel, b_row, h, w, out + c, ldo);
    } else if (wide == 2) {
      correlate_columns<T, 2>(a, a_pixel, a_row, rows, b + c, b_pixel, b_row, h, w, out + c, ldo);
    } else {
      correlate_columns<T, 1>(a, a_pixel, a_row, rows, b + c, b_pixel, b_row, h, w, out + c, ldo);
    }
    j += wide;
  }
}

// Means over 3x3 pixels, of which those outside of the image do not count, and their gradient: rows of `w c` values at
// a time, whatever the channels.
template <typename T>
class Averages {
 public:
  Averages(int64_t h, int64_t w, int64_t c)
      : h_(h), w_(w), c_(c), sums_((w + 2) * c + lanes<T>()), shares_(3 * w * c + lanes<T>()),
        scaled_(h * w * c + lanes<T>()) {
    for (int64_t rows = 1; rows <= 3; ++rows)
      for (int64_t j = 0; j < w; ++j)
        for (int64_t k = 0; k < c; ++k)
          share(rows)[j * c + k] = T(1) / static_cast<T>(rows * (std::min(w, j + 2) - std::max<int64_t>(0, j - 1)));
  }

  // One image, dense.
  void forward(const T* x, T* y) {
    for (int64_t i = 0; i < h_; ++i) {
      const T* shares = share(std::min(h_, i + 2) - std::max<int64_t>(0, i - 1));
      window(x, i, y + i * w_ * c_, [&](const Vec<T>& sum, int64_t k, int64_t count) {
        return sum * load(shares + k, count);
      });
    }
  }

  // Added to dx.
  void backward(const T* dy, T* dx) {
    constexpr int64_t v = lanes<T>();
    const int64_t size = w_ * c_;
    for (int64_t i = 0; i < h_; ++i) {
      const T* shares = share(std::min(h_, i + 2) - std::max<int64_t>(0, i - 1));
      for (int64_t k = 0; k < size; k += v)
        store(load(dy + i * size + k, size - k) * load(shares + k, size - k), scaled_.data() + i * size + k, size - k);
    }
    for (int64_t i = 0; i < h_; ++i) {
      T* to = dx + i * size;
      window(scaled_.data(), i, to,
             [&](const Vec<T>& sum, int64_t k, int64_t count) { return load(to + k, count) + sum; });
    }
  }

 private:
  T* share(int64_t rows) { return shares_.data() + (rows - 1) * (w_ * c_); }

  template <typename F>
  void window(const T* x, int64_t i, T* to, const F& finish) {
    constexpr int64_t v = lanes<T>();
    const int64_t size = w_ * c_;
    T* sums = sums_.data();  // of columns, between two pixels of zeros
    for (int64_t k = 0; k < size; k += v) {
      const int64_t count = size - k;
      Vec<T> sum = load(x + i * size + k, count);
      if (i > 0) sum = sum + load(x + (i - 1) * size + k, count);
      if (i + 1 < h_) sum = sum + load(x + (i + 1) * size + k, count);
      store(sum, sums + c_ + k, count);
    }
    for (int64_t k = 0; k < size; k += v) {
      const int64_t count = size - k;
      store(finish(load(sums + k, count) + load(sums + c_ + k, count) + load(sums + 2 * c_ + k, count), k, count),
            to + k, count);
    }
  }

  int64_t h_, w_, c_;
  Scratch<T> sums_, shares_, scaled_;
};

}  // namespace smallgroup
