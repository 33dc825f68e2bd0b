// Reads and writes by index, in terms of index, index_put, gather and index_select.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

namespace exporters::decompositions {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// Selects along one axis, everything along those before it.
Indices along(int64_t dim, const at::Tensor& index) {
  Indices indices;
  for (int64_t axis = 0; axis < dim; ++axis) {
    indices.push_back(std::nullopt);
  }
  indices.push_back(index);
  return indices;
}

// index_put along an axis. A tensor without axes counts as one of length 1.
at::Tensor put_along(const DecompositionCall& in, const at::Tensor& values, bool accumulate) {
  const at::Tensor x = in.tensor("self");
  const at::Tensor index = in.tensor("index").dim() == 0 ? in.tensor("index").unsqueeze(0) : in.tensor("index");
  if (x.dim() == 0) {
    return x.unsqueeze(0)
        .index_put(along(0, index), values.dim() == 0 ? values.unsqueeze(0) : values, accumulate)
        .squeeze(0);
  }
  return x.index_put(along(in.dim("dim", x.dim()), index), values, accumulate);
}

Results index_add(const DecompositionCall& in) {
  const at::Scalar alpha = in.scalar("alpha");
  const at::Tensor source = in.tensor("source");
  return {put_along(in, is_one(alpha) ? source : source * alpha, true)};
}

Results index_copy(const DecompositionCall& in) { return {put_along(in, in.tensor("source"), false)}; }

Results index_fill_scalar(const DecompositionCall& in) {
  return {put_along(in, scalar_like(in.tensor("self"), in.scalar("value")), false)};
}

Results index_fill_tensor(const DecompositionCall& in) {
  return {put_along(in, cast(in.tensor("value"), in.tensor("self").scalar_type()), false)};
}

Results take(const DecompositionCall& in) {
  const at::Tensor index = in.tensor("index");
  const at::Tensor flat = in.tensor("self").reshape({-1});
  return {flat.index(along(0, index))};
}

Results put(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const at::Tensor flat = x.reshape({-1});
  const at::Tensor index = in.tensor("index");
  const at::Tensor source = in.tensor("source").reshape_symint(index.sym_sizes());
  return {flat.index_put(along(0, index), source, in.boolean("accumulate")).view_symint(x.sym_sizes())};
}

Indices indices_of(const DecompositionCall& in) {
  Indices indices;
  for (const std::optional<at::Tensor>& index : in.optional_tensors("indices")) {
    indices.push_back(index);
  }
  return indices;
}

Results unsafe_index(const DecompositionCall& in) { return {in.tensor("self").index(indices_of(in))}; }

Results unsafe_index_put(const DecompositionCall& in) {
  return {in.tensor("self").index_put(indices_of(in), in.tensor("values"), in.boolean("accumulate"))};
}

Results one_hot(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t classes = in.integer("num_classes");
  if (classes < 0) {
    in.refuse("the number of classes depends on data", "Give num_classes.");
  }
  return {cast(x.unsqueeze(-1) == arange_like(x, classes), at::kLong)};
}

Results scatter_reduce_op(const DecompositionCall& in) {
  const std::string reduce = in.string("reduce");
  const std::string name = reduce == "add" ? "sum" : reduce == "multiply" ? "prod" : reduce;
  return {in.tensor("self").scatter_reduce(in.dim("dim", in.tensor("self").dim()), in.tensor("index"), in.tensor("src"),
                                           name)};
}

}  // namespace

Table indexing() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.index_add.default", index_add},
      {"aten.index_copy.default", index_copy},
      {"aten.index_fill.int_Scalar", index_fill_scalar},
      {"aten.index_fill.int_Tensor", index_fill_tensor},
      {"aten.take.default", take},
      {"aten.put.default", put},
      {"aten._unsafe_index.Tensor", unsafe_index},
      {"aten._unsafe_index_put.default", unsafe_index_put},
      {"aten.one_hot.default", one_hot},
      {"aten.scatter.reduce", scatter_reduce_op},
      // Their composite kernels ask for values.
      {"aten.repeat_interleave.self_int", nullptr},
      {"aten.repeat_interleave.self_Tensor", nullptr},
      {"aten.argwhere.default", nullptr},
      {"aten.masked_select.default", nullptr},
  });
  return kTable;
}

}  // namespace exporters::decompositions
