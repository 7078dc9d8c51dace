// Products of a few pixels with small matrices: all accumulators of a block stay in registers.
#pragma once

#include "common.h"

namespace smallgroup {

// acc[m][v] += sum_l a[m * lda + l] * b[l * ldb + v], for M pixels and N vectors of outputs.
template <typename T, int M, int N>
C10_ALWAYS_INLINE void product_block(const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth, Vec<T> (&acc)[M][N]) {
  constexpr int64_t v = lanes<T>();
  for (int64_t l = 0; l < depth; ++l) {
    Vec<T> row[N];
    for (int j = 0; j < N; ++j) row[j] = Vec<T>::loadu(b + l * ldb + j * v);
    for (int m = 0; m < M; ++m) {
      const Vec<T> x(a[m * lda + l]);
      for (int j = 0; j < N; ++j) acc[m][j] = at::vec::fmadd(x, row[j], acc[m][j]);
    }
  }
}

// One tile. Whole: all N vectors of the outputs are there; checks for less would cost the accumulators their registers.
template <typename T, int M, int N, bool Whole, bool Added>
inline void product_tile(const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth, T* out, int64_t ldo,
                         int64_t valid) {
  constexpr int64_t v = lanes<T>();
  Vec<T> acc[M][N];
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) {
      const T* from = out + m * ldo + j * v;
      acc[m][j] = !Added ? Vec<T>(T(0)) : Whole ? Vec<T>::loadu(from) : load(from, valid - j * v);
    }
  product_block<T, M, N>(a, lda, b, ldb, depth, acc);
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) {
      if constexpr (Whole) {
        acc[m][j].store(out + m * ldo + j * v);
      } else {
        store(acc[m][j], out + m * ldo + j * v, valid - j * v);
      }
    }
}

template <typename T, int N, bool Whole, bool Added>
void product_columns(const T* a, int64_t lda, int64_t pixels, const T* b, int64_t ldb, int64_t depth, T* out,
                     int64_t ldo, int64_t valid) {
  constexpr int M = N == 2 ? 4 : 8;  // sizes of images are multiples of these
  int64_t p = 0;
  for (; p + M <= pixels; p += M)
    product_tile<T, M, N, Whole, Added>(a + p * lda, lda, b, ldb, depth, out + p * ldo, ldo, valid);
  for (; p < pixels; ++p)
    product_tile<T, 1, N, Whole, Added>(a + p * lda, lda, b, ldb, depth, out + p * ldo, ldo, valid);
}

template <typename T, bool Added>
void product_all(const T* a, int64_t lda, int64_t pixels, const T* b, int64_t ldb, int64_t depth, T* out, int64_t ldo,
                 int64_t columns) {
  constexpr int64_t v = lanes<T>();
  int64_t c = 0;
  for (; c + 2 * v <= columns; c += 2 * v)
    product_columns<T, 2, true, Added>(a, lda, pixels, b + c, ldb, depth, out + c, ldo, 2 * v);
  for (; c + v <= columns; c += v)
    product_columns<T, 1, true, Added>(a, lda, pixels, b + c, ldb, depth, out + c, ldo, v);
  if (c < columns)
    product_columns<T, 1, false, Added>(a, lda, pixels, b + c, ldb, depth, out + c, ldo, columns - c);
}

// out[p, :] = a[p, :depth] @ b, `columns` wide; b has rows of `ldb`, padded with zeros to whole vectors.
template <typename T>
void product(const T* a, int64_t lda, int64_t pixels, const T* b, int64_t ldb, int64_t depth, T* out, int64_t ldo,
             int64_t columns, bool added = false) {
  if (added) {
    product_all<T, true>(a, lda, pixels, b, ldb, depth, out, ldo, columns);
  } else {
    product_all<T, false>(a, lda, pixels, b, ldb, depth, out, ldo, columns);
  }
}

template <typename T, int M, int N>
inline void outer_tile(const T* a, int64_t lda, const T* b, int64_t ldb, int64_t pixels, T* out, int64_t ldo) {
  constexpr int64_t v = lanes<T>();
  Vec<T> acc[M][N];
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) acc[m][j] = Vec<T>::loadu(out + m * ldo + j * v);
  for (int64_t p = 0; p < pixels; ++p) {
    Vec<T> row[N];
    for (int j = 0; j < N; ++j) row[j] = Vec<T>::loadu(b + p * ldb + j * v);
    for (int m = 0; m < M; ++m) {
      const Vec<T> x(a[p * lda + m]);
      for (int j = 0; j < N; ++j) acc[m][j] = at::vec::fmadd(x, row[j], acc[m][j]);
    }
  }
  for (int m = 0; m < M; ++m)
    for (int j = 0; j < N; ++j) acc[m][j].store(out + m * ldo + j * v);
}

template <typename T, int N>
inline void outer_columns(const T* a, int64_t lda, int64_t rows, const T* b, int64_t ldb, int64_t pixels, T* out,
                          int64_t ldo) {
  constexpr int M = N == 2 ? 6 : 8;
  int64_t r = 0;
  for (; r + M <= rows; r += M) outer_tile<T, M, N>(a + r, lda, b, ldb, pixels, out + r * ldo, ldo);
  for (; r + 2 <= rows; r += 2) outer_tile<T, 2, N>(a + r, lda, b, ldb, pixels, out + r * ldo, ldo);
  for (; r < rows; ++r) outer_tile<T, 1, N>(a + r, lda, b, ldb, pixels, out + r * ldo, ldo);
}

// out[r, :] += sum_p a[p, r] * b[p, :]: the gradient of a matrix. `columns` are whole vectors.
template <typename T>
void outer(const T* a, int64_t lda, int64_t rows, const T* b, int64_t ldb, int64_t columns, int64_t pixels, T* out,
           int64_t ldo) {
  constexpr int64_t v = lanes<T>();
  int64_t c = 0;
  for (; c + v < columns; c += 2 * v) outer_columns<T, 2>(a, lda, rows, b + c, ldb, pixels, out + c, ldo);
  if (c < columns) outer_columns<T, 1>(a, lda, rows, b + c, ldb, pixels, out + c, ldo);
}

}  // namespace smallgroup
