#pragma once

#include "exporters/executorch/edge/op_call.h"
#include "exporters/executorch/edge/partition.h"
#include "exporters/executorch/xnnpack/graph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace exporters::executorch::xnnpack {

/// An XNNPACK graph under construction from a partition of the edge program.
class GraphBuilder {
 public:
  GraphBuilder(const EdgeProgram& edge, const Partition& partition, bool int8_linear = false);

  const EdgeProgram& edge() const { return edge_; }
  bool int8_linear() const { return int8_linear_; }

  /// Lowers every call that an output needs.
  XnnGraph build();

  /// A value of the program: an input, what a call before gave, or a constant.
  uint32_t value(const exporters::Value& value);
  /// The tensor of that name, or a number in its place as a constant of one element.
  uint32_t operand(const OpCall& call, std::string_view name);
  /// What a call gives.
  uint32_t result(const OpCall& call);

  /// A constant matrix of [out, in], or with `transposed` of [in, out]. XNNPACK keeps packed weights by the names of
  /// constants, so that the two ways to pack one have a name each.
  uint32_t filter(const exporters::Value& value, bool transposed);
  /// A constant matrix of [out, in] in int8 with a scale for each row.
  uint32_t int8_filter(const exporters::Value& value);
  /// A value rounded to int8 at run time, with a scale for each row of its last axis.
  uint32_t rounded(const exporters::Value& value);
  /// For a product's operand whose last two axes a permutation of this partition exchanges, and nothing else needs:
  /// what the permutation takes, to be read as it lies. Else null.
  const exporters::Value* transposed_source(const exporters::Value& value) const;

  /// Lets the call that gives `input` keep its results within bounds by itself, so that they are those of `call`, too.
  /// False where it cannot, or something else needs them as they are.
  bool bound_producer(const exporters::Value& input, const OpCall& call, const Bounds& bounds);

  uint32_t constant(const at::Tensor& tensor);
  /// A constant of the program with its axes in another order: a copy.
  uint32_t permuted_constant(const exporters::Value& value, at::IntArrayRef order);
  uint32_t number(double value);
  /// A value between two nodes.
  uint32_t temporary(const TensorMeta& like, std::vector<uint32_t> dims);
  uint32_t temporary(const exporters::Value& like);

  template <typename Op>
  void add(Op op, std::optional<Bounds> bounds = {}) {
    graph_.nodes.push_back({std::move(op), bounds});
  }

  std::vector<uint32_t> dims(const exporters::Value& value) const;

 private:
  std::vector<const exporters::Node*> needed_nodes() const;
  /// The node that gives a value, or null.
  Node* node_of(uint32_t value);

  const EdgeProgram& edge_;
  const Partition& partition_;
  bool int8_linear_;
  std::unordered_map<const exporters::Value*, uint32_t> rounded_;
  std::unordered_set<const exporters::Node*> nodes_;
  XnnGraph graph_;
  std::unordered_map<const exporters::Value*, uint32_t> ids_;
};

/// How one ATen op runs in XNNPACK.
struct NodeLowering {
  std::string_view target;
  /// Why a call cannot run there; empty when it can. Null: no conditions beside the common ones.
  std::string (*refuse)(const OpCall& call, const EdgeProgram& edge);
  void (*lower)(GraphBuilder& builder, const OpCall& call);
  /// Products of matrices and the like: enough work for a delegate of its own.
  bool is_heavy = false;
};

// The table, by families.
std::span<const NodeLowering> matrix_lowerings();
std::span<const NodeLowering> convolution_lowerings();
std::span<const NodeLowering> elementwise_lowerings();
std::span<const NodeLowering> layout_lowerings();
std::span<const NodeLowering> reduction_lowerings();

/// Convolutions over one axis become such over two, with views around them: XNNPACK has no others.
void widen_convolutions(ExportedProgram& program);

/// Null for ops that XNNPACK does not run.
const NodeLowering* find_lowering(std::string_view target);

}  // namespace exporters::executorch::xnnpack
