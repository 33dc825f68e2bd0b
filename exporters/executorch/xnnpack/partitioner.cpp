#include "exporters/executorch/xnnpack/partitioner.h"

#include "exporters/executorch/xnnpack/graph_builder.h"
#include "exporters/executorch/xnnpack/serialize.h"
#include "exporters/graph/dtype.h"
#include "exporters/graph/node_check.h"

#include <algorithm>

namespace exporters::executorch::xnnpack {
namespace {

constexpr int64_t kMostAxes = 6;
// Cheap calls that are worth a call of the delegate together.
constexpr size_t kEnoughCalls = 3;

// What no node of XNNPACK takes.
std::string refuse_tensor(const exporters::Value& value) {
  const TensorMeta& meta = value.meta();
  if (meta.dtype != at::kFloat) {
    return "XNNPACK runs float32 only, and a tensor is " + std::string(dtype_name(meta.dtype));
  }
  return meta.dim() <= kMostAxes ? "" : "a tensor has more axes than XNNPACK takes";
}

std::string refuse_tensors(const exporters::Node& node) {
  for (const exporters::Value* input : node.inputs()) {
    if (input->kind() == exporters::Value::Kind::kTensorList) {
      return "it takes a list that another call gives";
    }
    if (!input->is_tensor()) {
      continue;  // sizes of a view: XNNPACK computes them itself
    }
    if (std::string reason = refuse_tensor(*input); !reason.empty()) {
      return reason;
    }
  }
  const exporters::Value* output = node.outputs().empty() ? nullptr : node.output();
  if (output == nullptr || !output->is_tensor()) {
    return "it does not give a tensor";
  }
  if (output->meta().dim() == 0) {
    return "its result has no axes";
  }
  return refuse_tensor(*output);
}

}  // namespace

std::string XnnpackPartitioner::backend_id() const { return std::string(kBackendId); }

void XnnpackPartitioner::keep_ops(DecompositionTable& table) const { table.keep("aten.matmul.default"); }

void XnnpackPartitioner::prepare(ExportedProgram& program) const { widen_convolutions(program); }

std::string XnnpackPartitioner::refuse(const exporters::Node& node, const EdgeProgram& edge) const {
  const NodeLowering* lowering = find_lowering(node.target());
  if (lowering == nullptr) {
    return "XNNPACK has no such op";
  }
  if (std::string reason = refuse_tensors(node); !reason.empty()) {
    return reason;
  }
  return lowering->refuse == nullptr ? std::string() : lowering->refuse(OpCall(node), edge);
}

bool XnnpackPartitioner::is_worthwhile(const Partition& partition) const {
  const auto is_heavy = [](const exporters::Node* node) { return find_lowering(node->target())->is_heavy; };
  return partition.nodes.size() >= kEnoughCalls ||
         std::any_of(partition.nodes.begin(), partition.nodes.end(), is_heavy);
}

std::shared_ptr<const Partitioner> XnnpackPartitioner::with_int8_linear() const {
  return std::make_shared<const XnnpackPartitioner>(/*int8_linear=*/true);
}

Delegate XnnpackPartitioner::lower(const Partition& partition, const EdgeProgram& edge, Program& program) const {
  return add_delegate(program, GraphBuilder(edge, partition, int8_linear_).build());
}

}  // namespace exporters::executorch::xnnpack
