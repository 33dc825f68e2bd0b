#include "exporters/onnx/optimize/infer_facts.h"

#include "exporters/onnx/emit/operators.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace exporters::onnx {
namespace {

using Dims = std::vector<OnnxDim>;

// Of the first input's type and sizes.
bool keeps_sizes(const OnnxNode& node) {
  static constexpr std::array<std::string_view, 6> kOps = {
      "Identity", "LayerNormalization", "LogSoftmax", "RMSNormalization", "Softmax", "RotaryEmbedding"};
  return is_unary_elementwise(node) || std::find(kOps.begin(), kOps.end(), node.op_type) != kOps.end();
}

// Of the first input's type and other sizes.
bool keeps_type(std::string_view op) {
  static constexpr std::array<std::string_view, 12> kOps = {"Attention", "Concat",  "Expand", "Gather",
                                                            "Gemm",      "MatMul",  "Pad",    "Reshape",
                                                            "Slice",     "Squeeze", "Tile",   "Unsqueeze"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

bool is_one(const OnnxDim& dim) { return dim == OnnxDim(int64_t{1}); }

// Unknown where neither of both is 1 and they are not known to be equal.
std::optional<Dims> broadcast(const ValueFacts& a, const ValueFacts& b) {
  if (!a.dims || !b.dims) {
    return std::nullopt;
  }
  const Dims& longer = a.dims->size() >= b.dims->size() ? *a.dims : *b.dims;
  const Dims& shorter = a.dims->size() >= b.dims->size() ? *b.dims : *a.dims;
  Dims result = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    OnnxDim& dim = result[lead + i];
    if (is_one(dim)) {
      dim = shorter[i];
    } else if (!is_one(shorter[i]) && dim != shorter[i]) {
      dim = std::monostate();
    }
  }
  return result;
}

std::optional<Dims> transposed(const OnnxNode& node, const ValueFacts& source) {
  const std::vector<int64_t> perm = ints_attribute(node, "perm");
  if (!source.dims || perm.size() != source.dims->size()) {
    return std::nullopt;
  }
  Dims dims;
  for (const int64_t axis : perm) {
    dims.push_back(source.dims->at(static_cast<size_t>(axis)));
  }
  return dims;
}

std::optional<Dims> product_dims(const OnnxNode& gemm, const ValueFacts& a, const ValueFacts& b) {
  if (a.rank() != 2u || b.rank() != 2u) {
    return std::nullopt;
  }
  const bool a_turned = int_attribute(gemm, "transA", 0) != 0;
  const bool b_turned = int_attribute(gemm, "transB", 0) != 0;
  return Dims{(*a.dims)[a_turned ? 1 : 0], (*b.dims)[b_turned ? 0 : 1]};
}

class Inference {
 public:
  explicit Inference(FactsByValue& facts) : facts_(facts) {}

  void node(const OnnxNode& node) {
    if (!node.domain.empty() || node.outputs.empty() || node.inputs.empty()) {
      return;
    }
    ValueFacts result = infer(node);
    ValueFacts& known = facts_[node.outputs[0]];
    if (known.dtype == OnnxType::kUndefined) {
      known.dtype = result.dtype;
    }
    if (!known.dims) {
      known.dims = std::move(result.dims);
    }
  }

 private:
  const ValueFacts& input(const OnnxNode& node, size_t i) const {
    static const ValueFacts unknown;
    const auto found = i < node.inputs.size() ? facts_.find(node.inputs[i]) : facts_.end();
    return found == facts_.end() ? unknown : found->second;
  }

  ValueFacts infer(const OnnxNode& node) const {
    const ValueFacts& first = input(node, 0);
    if (node.op_type == "Cast") {
      return {static_cast<OnnxType>(int_attribute(node, "to", 0)), first.dims};
    }
    if (node.op_type == "Shape") {
      return {OnnxType::kInt64, std::nullopt};
    }
    if (node.op_type == "Transpose") {
      return {first.dtype, transposed(node, first)};
    }
    if (node.op_type == "Where") {
      return {input(node, 1).dtype, std::nullopt};
    }
    if (is_binary_elementwise(node)) {
      return {gives_bool(node.op_type) ? OnnxType::kBool : first.dtype, broadcast(first, input(node, 1))};
    }
    if (node.op_type == "Gemm") {
      return {first.dtype, product_dims(node, first, input(node, 1))};
    }
    if (keeps_type(node.op_type)) {
      return {first.dtype, std::nullopt};
    }
    if (keeps_sizes(node)) {
      return {gives_bool(node.op_type) ? OnnxType::kBool : first.dtype, first.dims};
    }
    return {};
  }

  FactsByValue& facts_;
};

}  // namespace

FactsByValue stated_facts(const OnnxGraph& graph) {
  FactsByValue facts;
  for (const auto* infos : {&graph.inputs, &graph.value_info, &graph.outputs}) {
    for (const OnnxValueInfo& info : *infos) {
      facts[info.name] = {info.dtype, info.dims};
    }
  }
  for (const OnnxTensor& tensor : graph.initializers) {
    facts[tensor.name] = {tensor.dtype, Dims(tensor.dims.begin(), tensor.dims.end())};
  }
  return facts;
}

void infer_facts(const OnnxNode& node, FactsByValue& facts) { Inference(facts).node(node); }

FactsByValue infer_facts(const OnnxGraph& graph) {
  FactsByValue facts = stated_facts(graph);
  for (const OnnxNode& node : graph.nodes) {
    infer_facts(node, facts);
  }
  return facts;
}

}  // namespace exporters::onnx
