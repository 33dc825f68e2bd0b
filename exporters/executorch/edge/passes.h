#pragma once

#include "exporters/graph/exported_program.h"

#include <functional>
#include <span>
#include <string_view>

namespace exporters::executorch {

// Passes over a functional core ATen program. Each is linear in the graph and leaves a program that verifies. What is
// in subgraphs they leave alone: those are lowered afterwards, as programs of their own.

/// A new placeholder for a constant of the program.
Value* add_constant(ExportedProgram& program, std::string_view name_hint, StateTensor state);

/// After a rewrite that put other values in the place of outputs: the signature names the graph's again.
void update_outputs(ExportedProgram& program);

/// A call that stays as it is, where a pass asks.
using Stays = std::function<bool(const Node&)>;

/// A size or number that comes from one branch of cond or from the other has a symbol of its own, of which the trace
/// knew no bound: it gets the larger one of the branches'. Inside of subgraphs too.
void bound_merged_sizes(ExportedProgram& program);
/// Every tensor is dense and row-major: kernels write their results so, and constants are stored so.
void make_contiguous(ExportedProgram& program);
/// Views become `view_copy`, `permute_copy`, `slice_copy`, …: ops that give new tensors. Whatever keeps the order of
/// elements (squeeze, unsqueeze, reshape, permutations that move axes of length 1 only) becomes `view_copy`.
void copy_views(ExportedProgram& program);
/// Calls that give their input back: clones, conversions to the same dtype, views of the same sizes, slices of all.
void drop_no_ops(ExportedProgram& program);
/// An `expand` whose users broadcast anyway.
void drop_expands(ExportedProgram& program);
/// Sizes that an input has are read from that input, so that no delegate gives out a tensor just for its sizes.
void read_sizes_from_inputs(ExportedProgram& program);
/// A remainder of sizes has the divisor's sign, as in Python; the runtime's kernel gives it the dividend's. Where a
/// sign may be negative it becomes `a - a // b * b`. Comes last: other passes compute sizes, too.
void spell_out_remainders(ExportedProgram& program);
/// Calls whose inputs are all known are computed now, where results are small.
void fold_constants(ExportedProgram& program);
/// `matmul` becomes `bmm` on batches of matrices, but where it stays.
void lower_matmul(ExportedProgram& program, const Stays& stays);

struct EdgePass {
  std::string_view name;
  std::string_view reason;
  void (*run)(ExportedProgram&);
};
/// In the order they run; lower_matmul comes after them.
std::span<const EdgePass> edge_passes();

/// The largest constant that fold_constants makes.
constexpr size_t kLargestFolded = size_t{1} << 20;

}  // namespace exporters::executorch
