#pragma once

#include "exporters/fake/shape_call.h"
#include "exporters/graph/exported_program.h"

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// An op call that is taken apart: arguments by their schema names. Tensors are fake, sizes may be symbolic. The ATen
/// ops that a decomposition calls are recorded, or taken apart in their turn.
class DecompositionCall : public ShapeCall {
 public:
  DecompositionCall(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, std::shared_ptr<ShapeEnv> env)
      : ShapeCall(op, arguments, std::move(env)), arguments_(arguments) {}

  std::optional<at::Tensor> optional_tensor(std::string_view name) const;
  c10::SymInt sym(std::string_view name) const;
  std::optional<c10::SymInt> optional_sym(std::string_view name) const;
  std::vector<c10::SymInt> syms(std::string_view name) const;
  /// Axes brought into [0, rank), in order; every axis for an absent or empty list.
  std::vector<int64_t> dims(std::string_view name, int64_t rank) const;

  c10::ArrayRef<c10::IValue> arguments() const { return arguments_; }
  /// What the op itself would give, on tensors that stand for no call: for its sizes.
  std::vector<c10::IValue> inferred() const;

 private:
  c10::ArrayRef<c10::IValue> arguments_;
};

/// What a decomposition gives: one value for each return of the schema.
using Results = std::vector<c10::IValue>;
using Decomposition = std::function<Results(const DecompositionCall&)>;

/// How ops are taken apart. An op that is neither in the table nor kept is taken apart by its own composite kernel if
/// it has one (CompositeImplicitAutograd) and is not tagged core, and else stays whole.
class DecompositionTable {
 public:
  /// An empty table; `composites`: whether ops that it does not mention are taken apart by their composite kernels.
  explicit DecompositionTable(bool composites = true) : composites_(composites) {}

  /// Adds or replaces the decomposition of an overload: "aten.silu.default". Throws Error for a target that the
  /// dispatcher does not know.
  void add(std::string_view target, Decomposition decomposition);
  /// The overload stays whole, whatever kernel it has.
  void keep(std::string_view target);

  const Decomposition* find(std::string_view target) const;  ///< null where there is none
  bool keeps(std::string_view target) const;
  /// Whether a node of this target would be taken apart.
  bool decomposes(std::string_view target) const;
  std::vector<std::string> targets() const;  ///< that have a decomposition, sorted

 private:
  std::map<std::string, std::optional<Decomposition>, std::less<>> entries_;  // without a decomposition: kept
  bool composites_ = true;
};

/// The table for functional core ATen: afterwards a program has ops with at::Tag::core, operations on sizes, and those
/// few ops that have no decomposition (sorting with a stable order, linear algebra, random numbers, …).
const DecompositionTable& core_aten_decompositions();

/// The program in functional form: mutations of buffers, parameters and inputs are outputs of the signature, ops that
/// the table takes apart are replaced by what they consist of, `add.Scalar` and the like are spelled as torch.export
/// does. Placeholders, signature, state (shared), ranges, guards, tree specs and the names of ops that stay are kept;
/// new nodes stand at the place in the model of the op they come from. Subgraphs of higher-order ops are taken apart
/// too. Decomposing asks no new questions about sizes where the ops don't; a question that they do ask is answered as
/// in a trace, and its answer is a guard of the result. Throws Error that names the op and its place for what cannot be
/// made functional and for a decomposition that fails.
ExportedProgram run_decompositions(const ExportedProgram& program,
                                   const DecompositionTable& table = core_aten_decompositions());

}  // namespace exporters
