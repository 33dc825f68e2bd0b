#include "exporters/executorch/xnnpack/graph_builder.h"

#include "exporters/executorch/xnnpack/serialize.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/graph/node_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>

namespace exporters::executorch::xnnpack {

namespace {

constexpr double kInt8Max = 127;

}  // namespace

std::vector<uint32_t> GraphBuilder::dims(const exporters::Value& value) const {
  const std::vector<int32_t> sizes = edge_.bounds().sizes(value);
  return {sizes.begin(), sizes.end()};
}

uint32_t GraphBuilder::temporary(const TensorMeta&, std::vector<uint32_t> dims) {
  return graph_.add({Datatype::kFp32, std::move(dims), {}, {}});
}

uint32_t GraphBuilder::temporary(const exporters::Value& like) { return temporary(like.meta(), dims(like)); }

GraphBuilder::GraphBuilder(const EdgeProgram& edge, const Partition& partition, bool int8_linear)
    : edge_(edge),
      partition_(partition),
      int8_linear_(int8_linear),
      nodes_(partition.nodes.begin(), partition.nodes.end()) {}

XnnGraph GraphBuilder::build() {
  for (const exporters::Value* input : partition_.inputs) {
    const uint32_t id = temporary(*input);
    ids_.emplace(input, id);
    graph_.inputs.push_back(id);
  }
  for (const exporters::Node* node : needed_nodes()) {
    find_lowering(node->target())->lower(*this, OpCall(*node));
  }
  for (const exporters::Value* output : partition_.outputs) {
    graph_.outputs.push_back(value(*output));
  }
  return std::move(graph_);
}

// A permutation that a product reads through is not among them.
std::vector<const exporters::Node*> GraphBuilder::needed_nodes() const {
  std::unordered_set<const exporters::Value*> values(partition_.outputs.begin(), partition_.outputs.end());
  std::vector<const exporters::Node*> nodes;
  for (auto node = partition_.nodes.rbegin(); node != partition_.nodes.rend(); ++node) {
    const auto& outputs = (*node)->outputs();
    if (std::none_of(outputs.begin(), outputs.end(), [&](const auto* output) { return values.contains(output); })) {
      continue;
    }
    nodes.push_back(*node);
    const bool is_product = (*node)->is_call("aten.matmul.default") || (*node)->is_call("aten.bmm.default");
    const std::vector<exporters::Value*> inputs = (*node)->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const exporters::Value* source = is_product && i == 1 ? transposed_source(*inputs[i]) : nullptr;
      values.insert(source == nullptr ? inputs[i] : source);
    }
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

const exporters::Value* GraphBuilder::transposed_source(const exporters::Value& value) const {
  const exporters::Node& node = *value.node();
  if (!nodes_.contains(&node) || !node.is_call("aten.permute_copy.default") || value.user_count() != 1) {
    return nullptr;
  }
  const OpCall call(node);
  const std::vector<int64_t> dims = call.integers("dims").value_or(std::vector<int64_t>());
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t given = dims[static_cast<size_t>(i)];
    const int64_t wanted = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
    if ((given < 0 ? given + rank : given) != wanted) {
      return nullptr;
    }
  }
  return rank < 2 ? nullptr : call.tensor("self");
}

uint32_t GraphBuilder::filter(const exporters::Value& value, bool transposed) {
  if (!transposed) {
    return this->value(value);
  }
  const StateTensor* state = edge_.constant(value);
  ensure_at(*value.node(), state != nullptr, " is no constant");
  Constant bytes = xnnpack::constant(bytes_of(*state));
  bytes.key += "-transposed";
  return graph_.add({Datatype::kFp32, dims(value), std::move(bytes), {}});
}

// The cache of packed weights knows them by their keys, and packs scales beside them.
uint32_t GraphBuilder::int8_filter(const exporters::Value& value) {
  const StateTensor* state = edge_.constant(value);
  ensure_at(*value.node(), state != nullptr, " is no constant");
  const at::Tensor weight = undeferred(state->tensor).to(at::kFloat);
  const at::Tensor largest = weight.abs().amax({1}, /*keepdim=*/true);
  const at::Tensor scales = at::where(largest > 0, largest / kInt8Max, at::ones_like(largest)).contiguous();
  const at::Tensor rounded = (weight / scales).round().clamp(-kInt8Max, kInt8Max).to(at::kChar).contiguous();
  Constant bytes = xnnpack::constant(rounded);
  bytes.key += "-" + xnnpack::constant(scales).key;
  const float* begin = scales.const_data_ptr<float>();
  return graph_.add(
      {Datatype::kQcint8, dims(value), std::move(bytes), ChannelScales{0, {begin, begin + scales.numel()}}});
}

uint32_t GraphBuilder::rounded(const exporters::Value& value) {
  const auto known = rounded_.find(&value);
  if (known != rounded_.end()) {
    return known->second;
  }
  const uint32_t input = this->value(value);
  const uint32_t result = graph_.add({Datatype::kQdint8, dims(value), {}, RowScales{1}});
  add(UnaryNode{Unary::kConvert, input, result});
  rounded_.emplace(&value, result);
  return result;
}

uint32_t GraphBuilder::value(const exporters::Value& value) {
  const auto known = ids_.find(&value);
  if (known != ids_.end()) {
    return known->second;
  }
  const StateTensor* state = edge_.constant(value);
  ensure_at(*value.node(), state != nullptr, " has no value in its XNNPACK graph");
  const uint32_t id = graph_.add({Datatype::kFp32, dims(value), xnnpack::constant(bytes_of(*state)), {}});
  ids_.emplace(&value, id);
  return id;
}

uint32_t GraphBuilder::operand(const OpCall& call, std::string_view name) {
  if (const exporters::Value* tensor = call.tensor(name)) {
    return value(*tensor);
  }
  const auto given = call.number(name);
  ensure_at(call.node(), given.has_value(), ": '{}' is neither a tensor nor a number", name);
  return number(*given);
}

uint32_t GraphBuilder::result(const OpCall& call) {
  const exporters::Value& output = *call.node().output();
  const uint32_t id = temporary(output);
  ids_.emplace(&output, id);
  return id;
}

namespace {

// Kinds of nodes whose bounds XNNPACK's delegate heeds.
bool takes_bounds(const Node& node) {
  const auto* binary = std::get_if<BinaryNode>(&node.op);
  return std::holds_alternative<FullyConnected>(node.op) || std::holds_alternative<Convolution>(node.op) ||
         (binary != nullptr && binary->op == Binary::kAdd);
}

}  // namespace

Node* GraphBuilder::node_of(uint32_t value) {
  const auto found = std::find_if(graph_.nodes.rbegin(), graph_.nodes.rend(), [&](const Node& node) {
    return std::visit([](const auto& op) { return op.output; }, node.op) == value;
  });
  return found == graph_.nodes.rend() ? nullptr : &*found;
}

bool GraphBuilder::bound_producer(const exporters::Value& input, const OpCall& call, const Bounds& bounds) {
  const auto id = ids_.find(&input);
  const auto& outputs = partition_.outputs;
  if (id == ids_.end() || input.user_count() != 1 ||
      std::find(outputs.begin(), outputs.end(), &input) != outputs.end()) {
    return false;
  }
  Node* producer = node_of(id->second);
  // A convolution gives its result to a transpose that nothing else knows of.
  while (producer != nullptr && std::holds_alternative<Transpose>(producer->op)) {
    const uint32_t before = std::get<Transpose>(producer->op).input;
    const bool is_known =
        std::any_of(ids_.begin(), ids_.end(), [&](const auto& each) { return each.second == before; });
    producer = is_known ? nullptr : node_of(before);
  }
  if (producer == nullptr || producer->bounds || !takes_bounds(*producer)) {
    return false;
  }
  producer->bounds = bounds;
  ids_.emplace(call.node().output(), id->second);
  return true;
}

uint32_t GraphBuilder::constant(const at::Tensor& tensor) {
  return graph_.add(
      {Datatype::kFp32, {tensor.sizes().begin(), tensor.sizes().end()}, xnnpack::constant(tensor.contiguous()), {}});
}

uint32_t GraphBuilder::permuted_constant(const exporters::Value& value, at::IntArrayRef order) {
  const StateTensor* state = edge_.constant(value);
  ensure_at(*value.node(), state != nullptr, " is no constant");
  return constant(undeferred(state->tensor).permute(order).contiguous());
}

uint32_t GraphBuilder::number(double value) { return constant(at::full({1}, value, at::kFloat)); }

const NodeLowering* find_lowering(std::string_view target) {
  for (const auto family :
       {matrix_lowerings, convolution_lowerings, elementwise_lowerings, layout_lowerings, reduction_lowerings}) {
    for (const NodeLowering& lowering : family()) {
      if (lowering.target == target) {
        return &lowering;
      }
    }
  }
  return nullptr;
}

}  // namespace exporters::executorch::xnnpack
