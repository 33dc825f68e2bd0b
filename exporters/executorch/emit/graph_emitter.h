#pragma once

#include "exporters/executorch/edge/partition.h"
#include "exporters/executorch/emit/emit_method.h"
#include "exporters/executorch/emit/value_table.h"

#include <cstdint>
#include <unordered_set>

namespace exporters::executorch {

struct Kernel;

/// A method under construction: what its graphs, one inside the other, have in common.
struct MethodContext {
  MethodContext(const Partitioner* partitioner, const EmitOptions& options, Program& program)
      : partitioner(partitioner), options(options), program(program) {}
  MethodContext(const MethodContext&) = delete;
  MethodContext& operator=(const MethodContext&) = delete;

  const Partitioner* partitioner;
  const EmitOptions& options;
  Program& program;
  Method method;
  MethodMemory memory;
  PlainValues plain{method};
  std::unordered_set<int32_t> run_time_views;

  /// A call of clone: `to` gets the sizes and the bytes of `from`.
  void copy(int32_t from, int32_t to);
  /// A new tensor with what `source` holds.
  int32_t clone(int32_t source);
};

/// Emits the calls of one graph of a method.
class GraphEmitter {
 public:
  GraphEmitter(const EdgeProgram& edge, const Delegation& delegation, MethodContext& context)
      : edge_(edge),
        delegation_(delegation),
        context_(context),
        method_(context.method),
        table_(edge, context.program, context.method, context.plain) {}

  /// Inputs of the graph are bound here before, results are found here after the run.
  ValueTable& table() { return table_; }
  void run();

 private:
  void emit(const Node& node);
  void emit(const Partition& partition);
  void emit_sym(const Node& node, std::string_view kernel);
  void emit_kernel(const Node& node, const Kernel& kernel);
  void emit_view(const Node& node);
  bool is_planned(int32_t value) const;

  const EdgeProgram& edge_;
  const Delegation& delegation_;
  MethodContext& context_;
  Method& method_;
  ValueTable table_;
};

}  // namespace exporters::executorch
