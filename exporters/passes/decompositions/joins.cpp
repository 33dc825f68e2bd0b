// Tensors put together.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

namespace exporters::decompositions {
namespace {

Results stack(const DecompositionCall& in) {
  std::vector<at::Tensor> layers;
  const std::vector<at::Tensor> tensors = in.tensors("tensors");
  const int64_t dim = in.dim("dim", tensors.at(0).dim() + 1);
  for (const at::Tensor& tensor : tensors) {
    layers.push_back(tensor.unsqueeze(dim));
  }
  return {at::cat(layers, dim)};
}

// Each block between the zeros before and behind it, one below the other.
Results block_diag(const DecompositionCall& in) {
  std::vector<at::Tensor> blocks;
  c10::SymInt width = 0;
  c10::ScalarType dtype = in.tensors("tensors").at(0).scalar_type();
  for (const at::Tensor& tensor : in.tensors("tensors")) {
    blocks.push_back(tensor.dim() == 2 ? tensor : tensor.dim() == 1 ? tensor.unsqueeze(0) : tensor.reshape({1, 1}));
    width = width + blocks.back().sym_size(1);
    dtype = c10::promoteTypes(dtype, tensor.scalar_type());
  }
  std::vector<at::Tensor> rows;
  c10::SymInt before = 0;
  for (const at::Tensor& block : blocks) {
    const c10::SymInt after = width - before - block.sym_size(1);
    rows.push_back(at::constant_pad_nd_symint(cast(block, dtype), {before, after}, 0));
    before = before + block.sym_size(1);
  }
  return {at::cat(rows, 0)};
}

}  // namespace

Table joins() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.stack.default", stack},
      {"aten.block_diag.default", block_diag},
  });
  return kTable;
}

}  // namespace exporters::decompositions
