// The kernels as torch operators: smallgroup::units_forward and so on. Their derivatives are put together in Python.
#include <ATen/Dispatch.h>
#include <torch/library.h>

#include "cells.h"
#include "ends.h"
#include "mixture.h"
#include "pools.h"
#include "reductions.h"
#include "units.h"

namespace smallgroup {

// What all kernels rely on before they look at anything else.
void check_images(TensorList all) {
  TORCH_CHECK(!all.empty(), "there must be images");
  for (const auto& each : all)
    TORCH_CHECK(each.dim() == 4 && each.numel() > 0, "images must be [n, c, h, w] and not empty, but they are ", each.sizes());
}

// Tensors are read as memory of this processor, of one type.
void check_kinds(const Tensor& like, std::initializer_list<TensorList> lists) {
  for (const auto& list : lists)
    for (const auto& each : list)
      TORCH_CHECK(each.device().is_cpu() && each.layout() == at::kStrided && each.scalar_type() == like.scalar_type(),
                  "all tensors must be dense, on the CPU and of type ", like.scalar_type(), ", but one is of type ",
                  each.scalar_type(), " on ", each.device());
}

void check_epsilon(double epsilon) {
  TORCH_CHECK(epsilon >= 0 && std::isfinite(epsilon), "epsilon must be finite and not negative, but it is ", epsilon);
}

void check_head(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  check_images(x);
  check_kinds(x, {x, scale, shift});
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "check_head", [&] { Normed<scalar_t>::check(scale, shift, x.size(1)); });
}

void check_stem(const Tensor& x, const Tensor& matrix, const Tensor& scale, const Tensor& shift) {
  check_images(x);
  check_kinds(x, {x, matrix, scale, shift});
  TORCH_CHECK(matrix.dim() == 4 && matrix.size(0) > 0, "a matrix must be [outputs, inputs, k, k], but it is ",
              matrix.sizes());
  check_matrix(matrix, matrix.size(0), x.size(1), 3);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "check_stem",
                             [&] { Normed<scalar_t>::check(scale, shift, matrix.size(0)); });
}

using Lists2 = std::tuple<std::vector<Tensor>, std::vector<Tensor>>;

Lists2 units_forward(TensorList xs, TensorList statistics, TensorList affines, bool relu, IntArrayRef sources,
                     TensorList filters, TensorList matrices, IntArrayRef dilations, int64_t stride, double epsilon) {
  check_images(xs);
  check_kinds(xs[0], {xs, statistics, affines, filters, matrices});
  check_calls(xs, sources, filters, matrices, dilations, stride);
  check_epsilon(epsilon);
  return AT_DISPATCH_FLOATING_TYPES(xs[0].scalar_type(), "units_forward", [&] {
    return units_forward_t<scalar_t>(xs, statistics, affines, relu, sources, filters, matrices, dilations, stride,
                                     epsilon);
  });
}

Lists5 units_backward(TensorList gradients, TensorList results, TensorList coefficients, TensorList weights,
                      TensorList xs, TensorList statistics, TensorList affines, bool relu, IntArrayRef sources,
                      TensorList filters, TensorList matrices, IntArrayRef dilations, int64_t stride, bool of_weights) {
  check_images(xs);
  check_kinds(xs[0], {gradients, results, coefficients, weights, xs, statistics, affines, filters, matrices});
  check_calls(xs, sources, filters, matrices, dilations, stride);
  return AT_DISPATCH_FLOATING_TYPES(xs[0].scalar_type(), "units_backward", [&] {
    return units_backward_t<scalar_t>(gradients, results, coefficients, weights, xs, statistics, affines, relu, sources,
                                      filters, matrices, dilations, stride, of_weights);
  });
}

std::tuple<Tensor, Tensor, Tensor> pool_forward(const Tensor& x, int64_t stride, bool average, double epsilon) {
  check_images(x);
  check_stride(stride);
  check_epsilon(epsilon);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "pool_forward",
                                    [&] { return pool_forward_t<scalar_t>(x, stride, average, epsilon); });
}

Tensor pool_backward(const Tensor& dy, const Tensor& x, int64_t stride, const Tensor& chosen) {
  check_images(x);
  check_kinds(x, {dy});
  check_stride(stride);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "pool_backward",
                                    [&] { return pool_backward_t<scalar_t>(dy, x, stride, chosen); });
}

Tensor mix_forward(TensorList ys, TensorList statistics, TensorList affines, const Tensor& weights) {
  check_images(ys);
  check_kinds(ys[0], {ys, statistics, affines, weights});
  return AT_DISPATCH_FLOATING_TYPES(ys[0].scalar_type(), "mix_forward",
                                    [&] { return mix_forward_t<scalar_t>(ys, statistics, affines, weights); });
}

void mix_into(const Tensor& out, TensorList ys, TensorList statistics, TensorList affines, const Tensor& weights) {
  check_images(ys);
  check_kinds(ys[0], {out, ys, statistics, affines, weights});
  AT_DISPATCH_FLOATING_TYPES(ys[0].scalar_type(), "mix_into",
                             [&] { mix_into_t<scalar_t>(out, ys, statistics, affines, weights); });
}

MixGradients mix_backward(const Tensor& gradient, TensorList ys, TensorList statistics, TensorList affines,
                          const Tensor& weights, IntArrayRef wanted) {
  check_images(ys);
  check_kinds(ys[0], {gradient, ys, statistics, affines, weights});
  return AT_DISPATCH_FLOATING_TYPES(ys[0].scalar_type(), "mix_backward", [&] {
    return mix_backward_t<scalar_t>(gradient, ys, statistics, affines, weights, wanted);
  });
}

Tensor statistics(const Tensor& y, double epsilon) {
  check_images(y);
  check_epsilon(epsilon);
  return AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "statistics", [&] { return statistics_t<scalar_t>(y, epsilon); });
}

CellValues cell_forward(TensorList xs, TensorList matrices, const Tensor& weights, IntArrayRef terms, int64_t nodes,
                        double epsilon) {
  check_images(xs);
  check_kinds(xs[0], {xs, matrices, weights});
  check_epsilon(epsilon);
  return AT_DISPATCH_FLOATING_TYPES(xs[0].scalar_type(), "cell_forward", [&] {
    return cell_forward_t<scalar_t>(xs, matrices, weights, terms, nodes, epsilon);
  });
}

CellGradients cell_backward(TensorList gradients, TensorList xs, TensorList nodes, TensorList results,
                            TensorList averages, TensorList statistics, TensorList matrices, const Tensor& weights,
                            IntArrayRef terms, IntArrayRef wanted, bool of_weights) {
  check_images(xs);
  check_kinds(xs[0], {gradients, xs, nodes, results, averages, statistics, matrices, weights});
  return AT_DISPATCH_FLOATING_TYPES(xs[0].scalar_type(), "cell_backward", [&] {
    return cell_backward_t<scalar_t>(gradients, xs, nodes, results, averages, statistics, matrices, weights, terms,
                                     wanted, of_weights);
  });
}

using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Three stem_forward(const Tensor& x, const Tensor& matrix, const Tensor& scale, const Tensor& shift, double epsilon) {
  check_stem(x, matrix, scale, shift);
  check_epsilon(epsilon);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "stem_forward",
                                    [&] { return stem_forward_t<scalar_t>(x, matrix, scale, shift, epsilon); });
}

Four stem_backward(const Tensor& gradient, const Tensor& x, const Tensor& y, const Tensor& statistics,
                   const Tensor& matrix, const Tensor& scale, const Tensor& shift, bool wanted) {
  check_stem(x, matrix, scale, shift);
  check_kinds(x, {gradient, y, statistics});
  TORCH_CHECK(gradient.dim() == 4 && gradient.size(0) == x.size(0) && gradient.size(1) == matrix.size(0) &&
                  gradient.size(2) == x.size(2) && gradient.size(3) == x.size(3) && dense_images(gradient).c > 0,
              "the gradient must be of the size of the result, but it is ", gradient.sizes());
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "stem_backward", [&] {
    return stem_backward_t<scalar_t>(gradient, x, y, statistics, matrix, scale, shift, wanted);
  });
}

std::tuple<Tensor, Tensor> head_forward(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
  check_head(x, scale, shift);
  check_epsilon(epsilon);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "head_forward",
                                    [&] { return head_forward_t<scalar_t>(x, scale, shift, epsilon); });
}

Three head_backward(const Tensor& gradient, const Tensor& x, const Tensor& statistics, const Tensor& scale,
                    const Tensor& shift) {
  check_head(x, scale, shift);
  check_kinds(x, {gradient, statistics});
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "head_backward", [&] {
    return head_backward_t<scalar_t>(gradient, x, statistics, scale, shift);
  });
}

ReductionValues reduction_forward(const Tensor& x, TensorList parameters, double epsilon) {
  check_images(x);
  check_kinds(x, {x, parameters});
  check_epsilon(epsilon);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "reduction_forward",
                                    [&] { return reduction_forward_t<scalar_t>(x, parameters, epsilon); });
}

std::tuple<Tensor, std::vector<Tensor>> reduction_backward(const Tensor& gradient, const Tensor& x,
                                                           TensorList parameters, TensorList kept, bool wanted,
                                                           bool of_weights) {
  check_images(x);
  check_kinds(x, {gradient, x, parameters, kept});
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "reduction_backward", [&] {
    return reduction_backward_t<scalar_t>(gradient, x, parameters, kept, wanted, of_weights);
  });
}

}  // namespace smallgroup

TORCH_LIBRARY(smallgroup, m) {
  m.def(
      "units_forward(Tensor[] xs, Tensor[] statistics, Tensor[] affines, bool relu, int[] sources, Tensor[] filters, "
      "Tensor[] matrices, int[] dilations, int stride, float epsilon) -> (Tensor[], Tensor[])");
  m.def(
      "units_backward(Tensor[] gradients, Tensor[] results, Tensor[] coefficients, Tensor[] weights, Tensor[] xs, "
      "Tensor[] statistics, Tensor[] affines, bool relu, int[] sources, Tensor[] filters, Tensor[] matrices, int[] dilations, int stride, "
      "bool of_weights) -> "
      "(Tensor[], Tensor[], Tensor[], Tensor[], Tensor[])");
  m.def("pool_forward(Tensor x, int stride, bool average, float epsilon) -> (Tensor, Tensor, Tensor)");
  m.def("pool_backward(Tensor dy, Tensor x, int stride, Tensor chosen) -> Tensor");
  m.def("mix_forward(Tensor[] ys, Tensor[] statistics, Tensor[] affines, Tensor weights) -> Tensor");
  m.def("mix_into(Tensor(a!) out, Tensor[] ys, Tensor[] statistics, Tensor[] affines, Tensor weights) -> ()");
  m.def(
      "mix_backward(Tensor gradient, Tensor[] ys, Tensor[] statistics, Tensor[] affines, Tensor weights, int[] wanted) "
      "-> (Tensor[], Tensor[], Tensor, Tensor[])");
  m.def("statistics(Tensor y, float epsilon) -> Tensor");
  m.def(
      "cell_forward(Tensor[] xs, Tensor[] matrices, Tensor weights, int[] terms, int nodes, float epsilon) "
      "-> (Tensor[], Tensor[], Tensor[], Tensor[])");
  m.def(
      "cell_backward(Tensor[] gradients, Tensor[] xs, Tensor[] nodes, Tensor[] results, Tensor[] averages, "
      "Tensor[] statistics, Tensor[] matrices, Tensor weights, int[] terms, int[] wanted, bool of_weights) "
      "-> (Tensor[], Tensor[], Tensor)");
  m.def("stem_forward(Tensor x, Tensor matrix, Tensor scale, Tensor shift, float epsilon) -> (Tensor, Tensor, Tensor)");
  m.def(
      "stem_backward(Tensor gradient, Tensor x, Tensor y, Tensor statistics, Tensor matrix, Tensor scale, "
      "Tensor shift, bool wanted) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("head_forward(Tensor x, Tensor scale, Tensor shift, float epsilon) -> (Tensor, Tensor)");
  m.def(
      "head_backward(Tensor gradient, Tensor x, Tensor statistics, Tensor scale, Tensor shift) "
      "-> (Tensor, Tensor, Tensor)");
  m.def("reduction_forward(Tensor x, Tensor[] parameters, float epsilon) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "reduction_backward(Tensor gradient, Tensor x, Tensor[] parameters, Tensor[] kept, bool wanted, "
      "bool of_weights) -> (Tensor, Tensor[])");
}

TORCH_LIBRARY_IMPL(smallgroup, CPU, m) {
  m.impl("units_forward", &smallgroup::units_forward);
  m.impl("units_backward", &smallgroup::units_backward);
  m.impl("pool_forward", &smallgroup::pool_forward);
  m.impl("pool_backward", &smallgroup::pool_backward);
  m.impl("mix_forward", &smallgroup::mix_forward);
  m.impl("mix_into", &smallgroup::mix_into);
  m.impl("mix_backward", &smallgroup::mix_backward);
  m.impl("statistics", &smallgroup::statistics);
  m.impl("cell_forward", &smallgroup::cell_forward);
  m.impl("cell_backward", &smallgroup::cell_backward);
  m.impl("stem_forward", &smallgroup::stem_forward);
  m.impl("stem_backward", &smallgroup::stem_backward);
  m.impl("head_forward", &smallgroup::head_forward);
  m.impl("head_backward", &smallgroup::head_backward);
  m.impl("reduction_forward", &smallgroup::reduction_forward);
  m.impl("reduction_backward", &smallgroup::reduction_backward);
}
