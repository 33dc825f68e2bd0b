#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/pytree.h"
#include "exporters/symbolic/dim.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace exporters {

using NamedInputs = std::vector<std::pair<std::string, PyTree>>;

/// A parameter or buffer of the module that is traced. Its bytes are never read.
struct TracedState {
  std::string name;  ///< fully qualified: "encoder.layer.0.output.dense.weight"
  at::Tensor tensor;
  bool is_buffer = false;
  bool persistent = true;  ///< buffers: part of the state dict
  std::optional<WeightSource> source = {};
};

/// What is traced, and with which inputs.
struct TraceRequest {
  std::string module_class;  ///< "BertModel"
  std::vector<TracedState> state;
  /// Sample inputs by name, in the order of the forward's signature. Containers flatten to leaves; leaves that are not
  /// tensors are constants of the program.
  NamedInputs inputs;
  /// The forward: takes what `inputs` holds, with fake tensors in place of the samples.
  std::function<PyTree(const NamedInputs&)> forward;
  /// Dim::Auto (true) or Dim::Static (false) for every axis that `dynamic_shapes` does not name.
  bool dynamic = true;
  /// By the leaf's path: "input_ids", "cache.layers.0.keys".
  DynamicShapes dynamic_shapes;
};

/// Runs the forward once on fake tensors and records each op it calls, whole, as one node. In-place ops and views are
/// recorded as called. Parameters and buffers become placeholders; other tensors that the forward uses are lifted as
/// constants. Throws Error for what cannot be exported: an op without a shape function, a data-dependent decision, a
/// named Dim that cannot stay symbolic, an unknown name in dynamic_shapes. Thread-safe.
ExportedProgram trace(const TraceRequest& request);

}  // namespace exporters
