#include "exporters/executorch/emit/memory_plan.h"

#include "exporters/executorch/emit/value_uses.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace exporters::executorch {
namespace {

uint64_t aligned(uint64_t nbytes, uint64_t alignment) { return (nbytes + alignment - 1) / alignment * alignment; }

// Who comes first among those of equal size. Which order is best depends on the lifetimes, so several are tried; the
// reverse of the order of creation is what ExecuTorch's planner has when its set keeps that order.
enum class Ties { kFirstUse, kCreation, kReverse, kLongest };
constexpr Ties kTies[] = {Ties::kFirstUse, Ties::kCreation, Ties::kReverse, Ties::kLongest};

// Largest first.
std::vector<size_t> by_size(std::span<const Lifetime> lifetimes, Ties ties) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (ties == Ties::kReverse) {
    std::reverse(order.begin(), order.end());
  }
  const auto rank = [&](size_t i) -> int64_t {
    switch (ties) {
      case Ties::kFirstUse:
        return lifetimes[i].first;
      case Ties::kLongest:
        return lifetimes[i].first - lifetimes[i].last;
      case Ties::kCreation:
      case Ties::kReverse:
        break;
    }
    return 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lifetimes[a].nbytes != lifetimes[b].nbytes ? lifetimes[a].nbytes > lifetimes[b].nbytes : rank(a) < rank(b);
  });
  return order;
}

struct SharedObject {
  uint64_t size = 0;
  std::vector<std::pair<size_t, uint64_t>> members;  // lifetime → offset inside the object

  // Behind everything in the object that is alive at the same time; nothing when nothing is.
  std::optional<uint64_t> behind_others(const Lifetime& wanted, std::span<const Lifetime> lifetimes,
                                        uint64_t alignment) const {
    std::optional<uint64_t> end;
    for (const auto& [member, offset] : members) {
      if (lifetimes[member].overlaps(wanted)) {
        end = std::max(end.value_or(0), offset + aligned(lifetimes[member].nbytes, alignment));
      }
    }
    return end;
  }
};

// A lifetime goes to the first object in which it overlaps nothing in time, else behind all that it overlaps with in
// the first object that has the room, else it makes an object of its size.
MemoryPlan by_shared_objects(std::span<const Lifetime> lifetimes, uint64_t alignment,
                             const std::vector<size_t>& order) {
  std::vector<SharedObject> objects;
  for (const size_t i : order) {
    const uint64_t nbytes = aligned(lifetimes[i].nbytes, alignment);
    SharedObject* picked = nullptr;
    uint64_t offset = 0;
    for (SharedObject& object : objects) {
      const std::optional<uint64_t> end = object.behind_others(lifetimes[i], lifetimes, alignment);
      if (!end) {
        picked = &object;
        offset = 0;
        break;
      }
      if (picked == nullptr && *end + nbytes <= object.size) {
        picked = &object;
        offset = *end;
      }
    }
    if (picked == nullptr) {
      picked = &objects.emplace_back(SharedObject{nbytes, {}});
      offset = 0;
    }
    picked->members.emplace_back(i, offset);
  }
  MemoryPlan plan{std::vector<uint64_t>(lifetimes.size()), 0};
  for (const SharedObject& object : objects) {
    for (const auto& [member, offset] : object.members) {
      plan.offsets[member] = plan.size + offset;
    }
    plan.size += object.size;
  }
  return plan;
}

// Each into the smallest gap between those that live at the same time.
MemoryPlan by_gaps(std::span<const Lifetime> lifetimes, uint64_t alignment, const std::vector<size_t>& order) {
  MemoryPlan plan{std::vector<uint64_t>(lifetimes.size()), 0};
  std::vector<size_t> placed;  // by offset
  for (const size_t i : order) {
    const uint64_t nbytes = aligned(lifetimes[i].nbytes, alignment);
    uint64_t end = 0;  // of all before that live at the same time
    uint64_t best = std::numeric_limits<uint64_t>::max();
    uint64_t best_gap = std::numeric_limits<uint64_t>::max();
    for (const size_t other : placed) {
      if (!lifetimes[other].overlaps(lifetimes[i])) {
        continue;
      }
      const uint64_t begin = plan.offsets[other];
      if (begin > end && begin - end >= nbytes && begin - end < best_gap) {
        best_gap = begin - end;
        best = end;
      }
      end = std::max(end, begin + aligned(lifetimes[other].nbytes, alignment));
    }
    plan.offsets[i] = best_gap < std::numeric_limits<uint64_t>::max() ? best : end;
    plan.size = std::max(plan.size, plan.offsets[i] + nbytes);
    const auto position = std::upper_bound(placed.begin(), placed.end(), plan.offsets[i],
                                           [&](uint64_t offset, size_t other) { return offset < plan.offsets[other]; });
    placed.insert(position, i);
  }
  return plan;
}

}  // namespace

MemoryPlan plan_by_shared_objects(std::span<const Lifetime> lifetimes, uint64_t alignment) {
  return by_shared_objects(lifetimes, alignment, by_size(lifetimes, Ties::kFirstUse));
}

MemoryPlan plan_by_gaps(std::span<const Lifetime> lifetimes, uint64_t alignment) {
  return by_gaps(lifetimes, alignment, by_size(lifetimes, Ties::kFirstUse));
}

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, uint64_t alignment) {
  MemoryPlan best;
  best.size = std::numeric_limits<uint64_t>::max();
  for (const Ties ties : kTies) {
    const std::vector<size_t> order = by_size(lifetimes, ties);
    for (const auto planner : {by_gaps, by_shared_objects}) {
      MemoryPlan plan = planner(lifetimes, alignment, order);
      if (plan.size < best.size) {
        best = std::move(plan);
      }
    }
  }
  return best;
}

// ── Methods ──

namespace {

constexpr uint32_t kActivations = 1;
constexpr uint32_t kSharedState = 2;

// Where methods have state in common, all state lies in area 2: the runtime then gives them one area 1, too, in which
// each would write over what another one keeps.
class SharedState {
 public:
  SharedState(const Program& program, std::span<const MethodMemory> memory) {
    std::map<std::string, std::pair<const TensorValue*, int>> seen;
    for (size_t m = 0; m < memory.size(); ++m) {
      for (const auto& [value, name] : memory[m].state) {
        const TensorValue* tensor = program.methods[m].tensor(value);
        ensure(tensor != nullptr, "state {} is no tensor", quote(name));
        auto& [first, count] = seen.try_emplace(name, tensor, 0).first->second;
        ensure(first->dtype == tensor->dtype && first->sizes == tensor->sizes && first->constant == tensor->constant,
               "state {} is not the same in all methods", quote(name));
        ++count;
      }
    }
    if (std::none_of(seen.begin(), seen.end(), [](const auto& each) { return each.second.second > 1; })) {
      return;
    }
    for (const auto& [name, tensor] : seen) {
      places_.emplace(name, size_);
      size_ += aligned(tensor.first->nbytes(), kTensorAlignment);
    }
  }

  const uint64_t* place(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &found->second;
  }
  uint64_t size() const { return size_; }

 private:
  std::map<std::string, uint64_t> places_;
  uint64_t size_ = 0;
};

class MethodPlanner {
 public:
  MethodPlanner(Method& method, const MethodMemory& memory, const SharedState& shared)
      : method_(method), memory_(memory), shared_(shared), lifetimes_(method.values.size()) {}

  void run() {
    find_views();
    find_lifetimes();
    prolong_bases();
    prolong_over_loops();
    choose();
    const MemoryPlan plan = plan_memory(planned_);
    for (size_t i = 0; i < planned_.size(); ++i) {
      tensor(planned_values_[i]).allocation = Allocation{kActivations, plan.offsets[i]};
    }
    for (const auto& [view, base] : memory_.aliases) {
      tensor(view).allocation = tensor(root(base)).allocation;
    }
    method_.memory_sizes = {0, static_cast<int64_t>(plan.size)};
    if (shared_.size() > 0) {
      method_.memory_sizes.push_back(static_cast<int64_t>(shared_.size()));
    }
  }

 private:
  TensorValue& tensor(int32_t value) { return std::get<TensorValue>(method_.values[value]); }

  void find_views() {
    for (const auto& [view, base] : memory_.aliases) {
      ensure(method_.tensor(view) != nullptr && method_.tensor(base) != nullptr, "an alias in method {} is no tensor",
             quote(method_.name));
      ensure(method_.tensor(view)->nbytes() <= method_.tensor(base)->nbytes(),
             "value {} of method {} shows more bytes than its base has", view, quote(method_.name));
      bases_[view] = base;
    }
    for (const Instruction& instruction : method_.instructions) {
      if (const auto view = view_of(method_, instruction)) {
        bases_[view->view] = view->base;
      }
    }
  }

  int32_t root(int32_t value) const {
    for (auto base = bases_.find(value); base != bases_.end(); base = bases_.find(value)) {
      value = base->second;
    }
    return value;
  }

  void use(int32_t value, int64_t when) {
    auto& lifetime = lifetimes_[value];
    if (!lifetime) {
      lifetime = Lifetime{0, when, when};
    }
    lifetime->first = std::min(lifetime->first, when);
    lifetime->last = std::max(lifetime->last, when);
  }

  void find_lifetimes() {
    const auto end = static_cast<int64_t>(method_.instructions.size());
    for_each_tensor(method_, method_.inputs, [&](int32_t value) { use(value, -1); });
    for (int64_t i = 0; i < end; ++i) {
      for_each_tensor(method_, arguments_of(method_.instructions[i]), [&](int32_t value) { use(value, i); });
    }
    for_each_tensor(method_, method_.outputs, [&](int32_t value) { use(value, end); });
    for (const auto& [value, name] : memory_.state) {
      use(value, -1);
      use(value, end);
    }
  }

  void prolong_bases() {
    for (const auto& [view, base] : bases_) {
      if (lifetimes_[view]) {
        const Lifetime lifetime = *lifetimes_[view];
        use(root(base), lifetime.first);
        use(root(base), lifetime.last);
      }
    }
  }

  // Along instructions in their order, what a forward jump skips lives longer than it has to, and no shorter. A jump
  // back makes a loop: what lives when it begins or when it ends, the next round may read.
  void prolong_over_loops() {
    bool changed = true;
    while (changed) {  // out of an inner loop, into the one around it
      changed = false;
      for (size_t end = 0; end < method_.instructions.size(); ++end) {
        const auto* jump = std::get_if<JumpFalseCall>(&method_.instructions[end]);
        if (jump != nullptr && static_cast<size_t>(jump->destination) <= end) {
          changed |= prolong_over(jump->destination, static_cast<int64_t>(end));
        }
      }
    }
  }

  bool prolong_over(int64_t begin, int64_t end) {
    bool changed = false;
    for (std::optional<Lifetime>& lifetime : lifetimes_) {
      const bool lives = lifetime && lifetime->overlaps({0, begin, end});
      const bool stays_inside = lives && lifetime->first >= begin && lifetime->last <= end;
      const bool is_covered = lives && lifetime->first <= begin && lifetime->last >= end;
      if (lives && !stays_inside && !is_covered) {
        lifetime->first = std::min(lifetime->first, begin);
        lifetime->last = std::max(lifetime->last, end);
        changed = true;
      }
    }
    return changed;
  }

  bool is_left_out(int32_t value) const {
    const auto listed = [&](const std::vector<int32_t>& list) {
      bool found = false;
      for_each_tensor(method_, list, [&](int32_t other) { found |= root(other) == value; });
      return found;
    };
    return (!memory_.plan_inputs && listed(method_.inputs)) || (!memory_.plan_outputs && listed(method_.outputs));
  }

  void choose() {
    for (size_t i = 0; i < method_.values.size(); ++i) {
      const auto value = static_cast<int32_t>(i);
      const TensorValue* found = method_.tensor(value);
      if (found == nullptr) {
        continue;
      }
      tensor(value).allocation.reset();
      const auto state = memory_.state.find(value);
      const bool is_state = state != memory_.state.end();
      if (is_state ? !memory_.plan_state : found->constant || found->external) {
        continue;
      }
      if (is_state && shared_.place(state->second) != nullptr) {
        tensor(value).allocation = Allocation{kSharedState, *shared_.place(state->second)};
        continue;
      }
      if (!lifetimes_[i] || bases_.contains(value) || found->dynamism == ShapeDynamism::kUnbounded ||
          is_left_out(value)) {
        continue;
      }
      planned_.push_back({found->nbytes(), lifetimes_[i]->first, lifetimes_[i]->last});
      planned_values_.push_back(value);
    }
  }

  Method& method_;
  const MethodMemory& memory_;
  const SharedState& shared_;
  std::vector<std::optional<Lifetime>> lifetimes_;  // of each value
  std::map<int32_t, int32_t> bases_;                // view → what it shows
  std::vector<Lifetime> planned_;
  std::vector<int32_t> planned_values_;
};

}  // namespace

void plan_memory(Program& program, std::span<const MethodMemory> memory) {
  ensure(memory.size() == program.methods.size(), "{} methods, but what to plan is given for {}",
         program.methods.size(), memory.size());
  const SharedState shared(program, memory);
  for (size_t m = 0; m < memory.size(); ++m) {
    MethodPlanner(program.methods[m], memory[m], shared).run();
    check_memory(program.methods[m], memory[m]);
  }
}

}  // namespace exporters::executorch
