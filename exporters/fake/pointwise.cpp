#include "exporters/fake/families.h"

#include <array>

// ── Elementwise ops: broadcasting and type promotion ──
namespace exporters::families {
namespace {

using c10::ScalarType;

// Tensor operands in schema order, with scalars: what TensorIterator sees.
struct Operands {
  std::vector<at::Tensor> tensors;
  std::vector<TensorMeta> metas;
  std::vector<at::Scalar> scalars;
};

Operands operands_of(const ShapeCall& call) {
  static constexpr std::array<std::string_view, 7> kNames = {"self", "other",  "tensor1", "tensor2",
                                                             "end",  "weight", "exponent"};
  Operands operands;
  for (const auto& argument : call.schema().arguments()) {
    const std::string_view name = argument.name();
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end() || !call.has(name)) {
      continue;
    }
    if (call.value(name).isTensor()) {
      operands.tensors.push_back(call.tensor(name));
      operands.metas.push_back(meta_of(operands.tensors.back()));
    } else {
      operands.scalars.push_back(call.scalar(name));
    }
  }
  return operands;
}

// Result of the promoted type: add, mul, maximum, …
void promoting(ShapeCall& call) {
  const Operands operands = operands_of(call);
  call.returns(elementwise(call.env(), operands.metas, promote(operands.tensors, operands.scalars)));
}

// Integers give floating results: div, sqrt, exp, sigmoid, …
void promoting_to_float(ShapeCall& call) {
  const Operands operands = operands_of(call);
  call.returns(elementwise(call.env(), operands.metas, to_floating(promote(operands.tensors, operands.scalars))));
}

// Comparisons and tests.
void to_bool(ShapeCall& call) {
  const Operands operands = operands_of(call);
  call.returns(elementwise(call.env(), operands.metas, ScalarType::Bool));
}

// The type of self, whatever the scalars: relu, neg, floor, masked ops.
void like_self(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(elementwise(call.env(), {self}, self.dtype));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::add.Tensor", promoting},
    {"aten::add.Scalar", promoting},
    {"aten::mul.Tensor", promoting},
    {"aten::mul.Scalar", promoting},
    {"aten::sub.Tensor", promoting},
    {"aten::sub.Scalar", promoting},
    {"aten::div.Tensor", promoting_to_float},
    {"aten::div.Scalar", promoting_to_float},
    {"aten::eq.Tensor", to_bool},
    {"aten::eq.Scalar", to_bool},
    {"aten::relu", like_self},
    {"aten::gelu", like_self},
});

}  // namespace

std::span<const ShapeEntry> pointwise() { return kTable; }

}  // namespace exporters::families
