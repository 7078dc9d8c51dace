// Depthwise convolutions of images that carry a border of zeros: one row at a time, a vector of channels at a time.
#pragma once

#include "common.h"

namespace smallgroup {

template <typename T, int K, int B>
inline void depthwise_block(const T* in, int64_t row, int64_t pixel, int64_t step, const T* filter, int64_t channels,
                            T* out, bool accumulate) {
  // step: from one output's input to the next one's; row, pixel: from one tap to the next, down and to the right.
  Vec<T> acc[B];
  for (int j = 0; j < B; ++j) acc[j] = accumulate ? Vec<T>::loadu(out + j * channels) : Vec<T>(T(0));
  for (int ky = 0; ky < K; ++ky) {
    for (int kx = 0; kx < K; ++kx) {
      const Vec<T> f = Vec<T>::loadu(filter + (ky * K + kx) * channels);
      const T* from = in + ky * row + kx * pixel;
      for (int j = 0; j < B; ++j) acc[j] = at::vec::fmadd(Vec<T>::loadu(from + j * step), f, acc[j]);
    }
  }
  for (int j = 0; j < B; ++j) acc[j].store(out + j * channels);
}

// One row of outputs, `width` pixels of `channels` (whole vectors).
template <typename T, int K>
void depthwise_row_k(const T* in, int64_t row, int64_t pixel, int64_t step, const T* filter, int64_t channels,
                     int64_t width, T* out, bool accumulate) {
  constexpr int64_t v = lanes<T>();
  for (int64_t c = 0; c < channels; c += v) {
    int64_t w = 0;
    for (; w + 8 <= width; w += 8)
      depthwise_block<T, K, 8>(in + w * step + c, row, pixel, step, filter + c, channels, out + w * channels + c,
                               accumulate);
    for (; w + 2 <= width; w += 2)
      depthwise_block<T, K, 2>(in + w * step + c, row, pixel, step, filter + c, channels, out + w * channels + c,
                               accumulate);
    for (; w < width; ++w)
      depthwise_block<T, K, 1>(in + w * step + c, row, pixel, step, filter + c, channels, out + w * channels + c,
                               accumulate);
  }
}

template <typename T>
void depthwise_row(int64_t k, const T* in, int64_t row, int64_t pixel, int64_t step, const T* filter,
                   int64_t channels, int64_t width, T* out, bool accumulate) {
  switch (k) {
    case 3: return depthwise_row_k<T, 3>(in, row, pixel, step, filter, channels, width, out, accumulate);
    case 5: return depthwise_row_k<T, 5>(in, row, pixel, step, filter, channels, width, out, accumulate);
    default: return depthwise_row_k<T, 7>(in, row, pixel, step, filter, channels, width, out, accumulate);
  }
}

// Gradient of R rows of the filter (taps ky, ky + 1, ...) from one row of outputs.
template <typename T, int K, int R>
inline void filter_rows(const T* in, int64_t row, int64_t pixel, int64_t step, const T* grad, int64_t channels,
                        int64_t width, T* filter) {
  Vec<T> acc[R][K];
  for (int r = 0; r < R; ++r)
    for (int kx = 0; kx < K; ++kx) acc[r][kx] = Vec<T>::loadu(filter + (r * K + kx) * channels);
  for (int64_t w = 0; w < width; ++w) {
    const Vec<T> g = Vec<T>::loadu(grad + w * channels);
    for (int r = 0; r < R; ++r)
      for (int kx = 0; kx < K; ++kx)
        acc[r][kx] = at::vec::fmadd(Vec<T>::loadu(in + w * step + r * row + kx * pixel), g, acc[r][kx]);
  }
  for (int r = 0; r < R; ++r)
    for (int kx = 0; kx < K; ++kx) acc[r][kx].store(filter + (r * K + kx) * channels);
}

template <typename T, int K>
void filter_gradient_k(const T* in, int64_t row, int64_t pixel, int64_t step, const T* grad, int64_t channels,
                       int64_t width, T* filter) {
  constexpr int R = K == 3 ? 3 : K == 5 ? 2 : 1;  // as many rows as the registers hold
  constexpr int64_t v = lanes<T>();
  for (int64_t c = 0; c < channels; c += v) {
    int ky = 0;
    for (; ky + R <= K; ky += R)
      filter_rows<T, K, R>(in + ky * row + c, row, pixel, step, grad + c, channels, width, filter + ky * K * channels + c);
    for (; ky < K; ++ky)
      filter_rows<T, K, 1>(in + ky * row + c, row, pixel, step, grad + c, channels, width, filter + ky * K * channels + c);
  }
}

template <typename T>
void filter_gradient(int64_t k, const T* in, int64_t row, int64_t pixel, int64_t step, const T* grad,
                     int64_t channels, int64_t width, T* filter) {
  switch (k) {
    case 3: return filter_gradient_k<T, 3>(in, row, pixel, step, grad, channels, width, filter);
    case 5: return filter_gradient_k<T, 5>(in, row, pixel, step, grad, channels, width, filter);
    default: return filter_gradient_k<T, 7>(in, row, pixel, step, grad, channels, width, filter);
  }
}

// The transposed convolution of one row of gradients, added to where its inputs came from: for any step.
template <typename T>
void scatter_row(int64_t k, T* to, int64_t row, int64_t pixel, int64_t step, const T* filter, int64_t channels,
                 int64_t width, const T* grad) {
  constexpr int64_t v = lanes<T>();
  for (int64_t c = 0; c < channels; c += v)
    for (int64_t ky = 0; ky < k; ++ky)
      for (int64_t kx = 0; kx < k; ++kx) {
        const Vec<T> f = Vec<T>::loadu(filter + (ky * k + kx) * channels + c);
        T* place = to + ky * row + kx * pixel + c;
        for (int64_t w = 0; w < width; ++w)
          at::vec::fmadd(Vec<T>::loadu(grad + w * channels + c), f, Vec<T>::loadu(place + w * step)).store(place + w * step);
      }
}

}  // namespace smallgroup
