#pragma once

#include "exporters/graph/graph.h"
#include "exporters/graph/sym_op.h"
#include "exporters/interpreter/ivalue.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace exporters {

/// Where an instruction takes one argument from.
struct Operand {
  enum class Kind : uint8_t { kConstant, kRegister, kList };
  Kind kind = Kind::kConstant;
  bool last_use = false;  ///< of the register: its value is moved out, so that memory is given back early
  Conversion conversion = Conversion::kNone;
  ListKind list_kind = ListKind::kInt;
  uint32_t index = 0;  ///< of the register
  c10::IValue constant;
  std::vector<Operand> items;  ///< kList
};

/// Where an output goes; a list's elements have registers of their own.
struct Result {
  static constexpr uint32_t kUnused = UINT32_MAX;
  uint32_t index = kUnused;
  std::vector<uint32_t> elements;
};

class Code;

struct Instruction {
  /// kCond: branches are taken when true, when false. kWhile: branches are the condition and the body; the first
  /// `carried` operands change from turn to turn. kInline: the branch is run in place.
  enum class Kind : uint8_t { kOp, kSymOp, kSize, kCond, kWhile, kInline };
  Kind kind = Kind::kOp;
  SymOp sym_op = SymOp::kAdd;
  const Node* node = nullptr;
  std::optional<c10::OperatorHandle> op;
  std::vector<Operand> operands;  ///< kOp: one for each argument of the schema
  std::vector<Result> results;
  std::vector<std::unique_ptr<Code>> branches;
  size_t carried = 0;
};

/// A graph as a list of instructions on registers. Immutable once built; any number of threads may run it.
class Code {
 public:
  using Constants = std::unordered_map<const Value*, c10::IValue>;
  /// Called after an instruction with what its node's outputs are, before they are consumed.
  using Observer = std::function<void(const Node& node, std::span<const c10::IValue> outputs)>;

  /// `constants`: placeholders with a fixed value (parameters, buffers, constants). The graph has to be verified and to
  /// outlive the code. Throws Error for ops that are unknown or cannot be run.
  Code(const Graph& graph, const Constants& constants);

  /// Inputs: one for each placeholder without a fixed value. Gives the graph's outputs. Throws Error that names the
  /// node when an op fails.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, const Observer* observer = nullptr) const;

  /// Runs a single call all of whose inputs are constants. Throws as `run`.
  static std::vector<c10::IValue> run_alone(const Node& node, const Constants& constants);

 private:
  friend class CodeBuilder;
  Code() = default;
  std::vector<Instruction> instructions_;
  std::vector<uint32_t> inputs_;  ///< registers, Result::kUnused for inputs that nothing takes
  std::vector<Operand> outputs_;
  uint32_t register_count_ = 0;
};

}  // namespace exporters
