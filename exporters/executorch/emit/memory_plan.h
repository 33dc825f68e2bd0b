#pragma once

#include "exporters/executorch/emit/program.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace exporters::executorch {

/// Where ExecuTorch's kernels expect tensors to begin.
constexpr uint64_t kTensorAlignment = 16;

/// Something that needs memory while the instructions [first, last] run.
struct Lifetime {
  uint64_t nbytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

/// A place for each lifetime, so that those which overlap in time do not overlap in memory.
struct MemoryPlan {
  std::vector<uint64_t> offsets;
  uint64_t size = 0;  ///< of the area that holds them all
};

/// The tightest of several greedy plans, among them one by shared objects as ExecuTorch's own planner makes them. The
/// same lifetimes give the same plan.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, uint64_t alignment = kTensorAlignment);

/// Greedy by size into shared objects: a lifetime goes to the first object in which it overlaps nothing in time, else
/// behind all it overlaps with in the first object that has the room, else it makes an object of its size.
MemoryPlan plan_by_shared_objects(std::span<const Lifetime> lifetimes, uint64_t alignment = kTensorAlignment);
/// Greedy by size into the smallest gap between those that live at the same time.
MemoryPlan plan_by_gaps(std::span<const Lifetime> lifetimes, uint64_t alignment = kTensorAlignment);

/// What planning has to know of a method beyond its instructions.
struct MethodMemory {
  bool plan_inputs = true;   ///< else the runtime reads the caller's memory
  bool plan_outputs = true;  ///< else the caller gives memory for them
  bool plan_state = true;    ///< else memory for mutable buffers is given at run time
  /// Values that show the bytes of another value though no instruction says so: views that cost nothing.
  std::map<int32_t, int32_t> aliases;
  /// Mutable buffers, by name. They live from call to call.
  std::map<int32_t, std::string> state;
};

/// Gives every tensor of every method that is computed, given or mutated its Allocation, and sets memory_sizes. A
/// tensor lives from its first use to its last one in the order of instructions, and over the whole of a loop (a jump
/// back) that it lives into or out of: branches may lie over each other, and what a loop reads stays until it ends.
/// Activations lie in area 1, and so does state. Where a name of state occurs in several methods, all state lies in
/// area 2 instead, at the same place in each. `memory` has one entry for each method. Throws Error when state of one
/// name differs in dtype, sizes or initial bytes, or an alias is larger than its base.
void plan_memory(Program& program, std::span<const MethodMemory> memory);

/// Follows the method's instructions, jumps both ways, and checks that every tensor still has the bytes last written to
/// it whenever it is read, whichever way led there, that no kernel writes where it reads (but in place), and that
/// allocations are aligned and inside their areas. It knows nothing of how the plan was made. Throws Error that names
/// the instruction and both values, and for tensors that MoveCall exchanges: they have no place of their own.
void check_memory(const Method& method, const MethodMemory& memory);

}  // namespace exporters::executorch
