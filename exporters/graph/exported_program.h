#pragma once

#include "exporters/graph/graph.h"
#include "exporters/graph/tree_spec.h"
#include "exporters/symbolic/dim.h"
#include "exporters/symbolic/shape_env.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace exporters {

/// What one placeholder stands for; the kinds of torch.export's InputSpec.
struct InputSpec {
  enum class Kind { kUserInput, kParameter, kBuffer, kTensorConstant, kConstantInput, kCustomObj, kToken };
  Kind kind = Kind::kUserInput;
  std::string name;        ///< the placeholder
  std::string target;      ///< fully qualified name of the parameter, buffer or constant; else empty
  bool persistent = true;  ///< buffers
  Argument constant;       ///< kConstantInput: None, bool, int, double or string
  friend bool operator==(const InputSpec&, const InputSpec&) = default;
};

/// What one output stands for; the kinds of torch.export's OutputSpec.
struct OutputSpec {
  enum class Kind { kUserOutput, kLossOutput, kBufferMutation, kUserInputMutation, kParameterMutation, kToken };
  Kind kind = Kind::kUserOutput;
  Argument argument;   ///< a value of the graph, or a constant
  std::string target;  ///< the mutated buffer's name or the mutated input's placeholder
  friend bool operator==(const OutputSpec&, const OutputSpec&) = default;
};

struct GraphSignature {
  std::vector<InputSpec> inputs;    ///< one for each placeholder, in order
  std::vector<OutputSpec> outputs;  ///< one for each argument of the output node, in order

  const InputSpec* find_input(std::string_view placeholder) const;
  std::vector<std::string> user_inputs() const;  ///< placeholder names
};

/// Where a tensor's bytes lie in a file, so that a writer can copy or reference them without reading them.
struct WeightSource {
  std::string file;     ///< absolute path; never written into an export
  std::string key;      ///< the name in the checkpoint
  uint64_t offset = 0;  ///< of the first byte, from the file's start
  uint64_t nbytes = 0;
  friend bool operator==(const WeightSource&, const WeightSource&) = default;
};

/// A parameter, buffer or constant of a program: the tensor, and the file it is a view of if it is one.
struct StateTensor {
  at::Tensor tensor;
  std::optional<WeightSource> source;
};

/// A user input or output leaf as people call it.
struct LeafInfo {
  std::string path;         ///< "input_ids", "cache.layers.0.keys", "last_hidden_state"
  std::string placeholder;  ///< graph name; for outputs the value's name, empty for a constant
};

/// A traced forward: graph, signature, state, symbols. One to one with torch.export's ExportedProgram.
class ExportedProgram {
 public:
  ExportedProgram();

  std::shared_ptr<Graph> graph;
  GraphSignature signature;
  /// Parameters, buffers (also non-persistent) and lifted constants by `InputSpec::target`.
  std::map<std::string, StateTensor> state;
  /// Symbols and their ranges; expressions in value metadata use these.
  std::map<std::string, Range> range_constraints;
  /// Facts beyond the ranges that the program relies on.
  std::vector<Guard> guards;
  /// Axes asked to be dynamic that are not, and why.
  std::vector<Specialization> specializations;
  /// Symbol name → the user's Dim name, where one was given.
  std::map<std::string, std::string> dim_names;
  /// Symbol name → size in the sample inputs; absent for unbacked symbols.
  std::map<std::string, int64_t> hints;
  TreeSpec in_spec;  ///< (args tuple, kwargs dict)
  TreeSpec out_spec;
  /// User inputs, flat, in signature order: samples the trace was made with. May be empty for a loaded program.
  std::vector<at::Tensor> sample_inputs;
  /// Class name of the traced module ("BertModel").
  std::string module_class;

  std::vector<LeafInfo> input_leaves() const;  ///< tensor leaves of in_spec with their placeholders
  std::vector<LeafInfo> output_leaves() const;

  std::string str() const;  ///< graph, signature, ranges, guards
};

/// Checks a graph: each value used is defined before (dominance) and belongs to the graph, use lists are exact, names
/// are unique, ATen calls match their op's schema (argument count, kinds, keywords, number of outputs), metadata is
/// there. Throws Error that names the node and what is wrong.
void verify(const Graph& graph);
/// As above, plus the signature: one spec per placeholder and output, targets present in the state with the
/// placeholder's dtype and shape, every symbol in range_constraints.
void verify(const ExportedProgram& program);

}  // namespace exporters
