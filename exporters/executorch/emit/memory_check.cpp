#include "exporters/executorch/emit/memory_plan.h"
#include "exporters/executorch/emit/value_uses.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <fmt/format.h>

#include <algorithm>

namespace exporters::executorch {
namespace {

// Of bytes that different families wrote on different ways to a place.
constexpr int32_t kNobody = -1;

// Whose bytes lie where: disjoint ranges of one memory area, each with the family (see below) that wrote it last.
class Ownership {
 public:
  void write(uint64_t begin, uint64_t end, int32_t family) {
    split(begin);
    split(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    if (begin < end) {
      ranges_.emplace(begin, Range{end, family});
    }
  }

  // Another family that has bytes of the range; nothing when all of it is `family`'s.
  std::optional<int32_t> stranger(uint64_t begin, uint64_t end, int32_t family) {
    split(begin);
    split(end);
    for (auto it = ranges_.lower_bound(begin); it != ranges_.end() && it->first < end; ++it) {
      if (it->second.family != family) {
        return it->second.family;
      }
    }
    return std::nullopt;
  }

  // What holds whichever of two ways led here; true if that is less than before. Bytes that nobody wrote on one of them
  // are the other's: whether a family is there at all, `State::defined` says.
  bool meet(const Ownership& other) {
    bool changed = false;
    for (const auto& [begin, theirs] : other.ranges_) {
      split(begin);
      split(theirs.end);
      uint64_t at = begin;
      for (auto it = ranges_.lower_bound(begin); at < theirs.end; ++it) {
        if (it == ranges_.end() || it->first > at) {
          const uint64_t end = it == ranges_.end() ? theirs.end : std::min(it->first, theirs.end);
          it = ranges_.emplace(at, Range{end, theirs.family}).first;
          changed = true;
        } else if (it->second.family != theirs.family && it->second.family != kNobody) {
          it->second.family = kNobody;
          changed = true;
        }
        at = it->second.end;
      }
    }
    return changed;
  }

 private:
  struct Range {
    uint64_t end = 0;
    int32_t family = 0;
  };

  void split(uint64_t at) {
    auto after = ranges_.upper_bound(at);
    if (after == ranges_.begin()) {
      return;
    }
    auto& [begin, range] = *std::prev(after);
    if (begin < at && at < range.end) {
      ranges_.emplace(at, range);
      range.end = at;
    }
  }

  std::map<uint64_t, Range> ranges_;
};

// What is known at an instruction.
struct State {
  std::map<uint32_t, Ownership> areas;
  std::map<int32_t, int32_t> shows;  // what et_view made so far: view → family
  std::set<int32_t> defined;         // families

  // As Ownership::meet.
  bool meet(const State& other) {
    bool changed = false;
    for (const auto& [area, theirs] : other.areas) {
      changed |= areas[area].meet(theirs);
    }
    changed |= std::erase_if(shows, [&](const auto& each) {
                 const auto theirs = other.shows.find(each.first);
                 return theirs == other.shows.end() || theirs->second != each.second;
               }) > 0;
    changed |= std::erase_if(defined, [&](int32_t family) { return !other.defined.contains(family); }) > 0;
    return changed;
  }
};

// Note [Ways through a method]
// Jumps divide a method into pieces that run from their first instruction to their last. A piece is followed with what
// holds on every way to its beginning; when another way arrives there, and less holds, it is followed again. Each time
// less is known, so that comes to an end, and then every way is covered, any number of rounds through a loop too.
//
// A family is a tensor and all that show its bytes; its name is the tensor's index.
class MemoryCheck {
 public:
  MemoryCheck(const Method& method, const MethodMemory& memory) : method_(method), memory_(memory) {
    for (size_t i = 0; i < method_.instructions.size(); ++i) {
      note(method_.instructions[i], i);
    }
  }

  void run() {
    for (size_t i = 0; i < method_.values.size(); ++i) {
      check_place(static_cast<int32_t>(i));
    }
    where_ = "at the start";
    for (const auto& [value, name] : memory_.state) {
      define(value);
    }
    for_each_tensor(method_, method_.inputs, [&](int32_t value) { define(value); });
    arrive(0);
    while (!open_.empty()) {
      const size_t begin = *open_.begin();
      open_.erase(open_.begin());
      follow(begin);
    }
    where_ = "at the end";
    const auto end = arrived_.find(method_.instructions.size());
    if (end == arrived_.end()) {
      refuse("no way leads there");
    }
    state_ = end->second;
    for_each_tensor(method_, method_.outputs, [&](int32_t value) { read(value); });
    for (const auto& [value, name] : memory_.state) {
      read(value);
    }
  }

 private:
  // ── Ways ──

  void note(const Instruction& instruction, size_t at) {
    if (const auto view = view_of(method_, instruction)) {
      views_.insert(view->view);
    } else if (const auto* kernel = std::get_if<KernelCall>(&instruction); kernel != nullptr && !kernel->args.empty()) {
      written_.insert(kernel->args.back());
    } else if (const auto* move = std::get_if<MoveCall>(&instruction)) {
      written_.insert(move->to);
    } else if (const auto* jump = std::get_if<JumpFalseCall>(&instruction)) {
      beginnings_.insert(static_cast<size_t>(jump->destination));
      beginnings_.insert(at + 1);
    }
  }

  // The condition is False, and nothing writes to it.
  bool jumps_always(const JumpFalseCall& jump) const {
    const auto* truth = std::get_if<bool>(&method_.values[jump.condition]);
    return truth != nullptr && !*truth && !written_.contains(jump.condition);
  }

  void arrive(size_t at) {
    const auto [place, is_new] = arrived_.try_emplace(at, state_);
    if (is_new || place->second.meet(state_)) {
      open_.insert(at);
    }
  }

  void follow(size_t begin) {
    state_ = arrived_.at(begin);
    for (size_t i = begin; i < method_.instructions.size(); ++i) {
      if (i != begin && beginnings_.contains(i)) {
        arrive(i);
        return;
      }
      where_ = fmt::format("instruction {}", i);
      step(method_.instructions[i]);
      if (const auto* jump = std::get_if<JumpFalseCall>(&method_.instructions[i])) {
        arrive(static_cast<size_t>(jump->destination));
        if (!jumps_always(*jump)) {
          arrive(i + 1);
        }
        return;
      }
    }
    if (begin < method_.instructions.size()) {
      arrive(method_.instructions.size());
    }
  }

  // ── Memory ──

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("memory plan: " + what, fmt::format("method {}, {}", quote(method_.name), where_));
  }

  void check_place(int32_t value) {
    const TensorValue* tensor = method_.tensor(value);
    if (tensor == nullptr || !tensor->allocation) {
      return;
    }
    const auto [area, offset] = *tensor->allocation;
    where_ = fmt::format("value {}", value);
    if (offset % kTensorAlignment != 0) {
      refuse(fmt::format("it begins at byte {}, which is not aligned to {}", offset, kTensorAlignment));
    }
    if (area >= method_.memory_sizes.size() ||
        offset + tensor->nbytes() > static_cast<uint64_t>(method_.memory_sizes[area])) {
      refuse("it leaves its memory area");
    }
  }

  int32_t family(int32_t value) const {
    if (const auto shown = state_.shows.find(value); shown != state_.shows.end()) {
      return shown->second;
    }
    if (const auto alias = memory_.aliases.find(value); alias != memory_.aliases.end()) {
      return family(alias->second);
    }
    return value;
  }

  // The allocation that holds the value's bytes: a view that et_view fills has none of its own.
  const Allocation* place(int32_t value) const {
    const TensorValue& tensor = *method_.tensor(value);
    const TensorValue& root = *method_.tensor(family(value));
    return tensor.allocation ? &*tensor.allocation : root.allocation ? &*root.allocation : nullptr;
  }

  void define(int32_t value) {
    state_.defined.insert(family(value));
    if (const Allocation* at = place(value)) {
      const uint64_t end = at->offset + method_.tensor(value)->nbytes();
      state_.areas[at->memory_id].write(at->offset, end, family(value));
    }
  }

  void read(int32_t value) {
    const TensorValue& tensor = *method_.tensor(value);
    if (views_.contains(value) && !state_.shows.contains(value)) {
      refuse(fmt::format("value {} is read before it shows anything", value));
    }
    const Allocation* at = place(value);
    if (at == nullptr) {
      return;
    }
    if (!state_.defined.contains(family(value))) {
      refuse(fmt::format("value {} is read before anything is written to it", value));
    }
    const TensorValue& root = *method_.tensor(family(value));
    if (tensor.allocation && root.allocation && tensor.allocation != root.allocation) {
      refuse(fmt::format("value {} does not lie where the tensor lies that it shows, value {}", value, family(value)));
    }
    const auto other = state_.areas[at->memory_id].stranger(at->offset, at->offset + tensor.nbytes(), family(value));
    if (other == kNobody) {
      refuse(fmt::format("value {} is read, but on one of the ways here something was written over it", value));
    }
    if (other) {
      refuse(fmt::format("value {} is read, but value {} was written over it", value, *other));
    }
  }

  // The result of a kernel comes last; a delegate's results are the values that are new.
  std::set<int32_t> written_by(const Instruction& instruction) const {
    std::set<int32_t> written;
    if (const auto* kernel = std::get_if<KernelCall>(&instruction)) {
      if (!kernel->args.empty()) {
        for_each_tensor(method_, {kernel->args.back()}, [&](int32_t value) { written.insert(value); });
      }
    } else if (const auto* delegate = std::get_if<DelegateCall>(&instruction)) {
      for_each_tensor(method_, delegate->args, [&](int32_t value) {
        const TensorValue& tensor = *method_.tensor(value);
        if (!state_.defined.contains(family(value)) && !tensor.constant && !tensor.external) {
          written.insert(value);
        }
      });
    }
    return written;
  }

  void step(const Instruction& instruction) {
    if (const auto* move = std::get_if<MoveCall>(&instruction);
        move != nullptr && method_.tensor(move->to) != nullptr) {
      refuse("it gives a value another one's tensor");
    }
    if (const auto view = view_of(method_, instruction)) {
      read(view->base);
      state_.shows[view->view] = family(view->base);
      return;
    }
    const std::set<int32_t> written = written_by(instruction);
    std::vector<int32_t> readers;
    for_each_tensor(method_, arguments_of(instruction), [&](int32_t value) {
      if (!written.contains(value)) {
        read(value);
        readers.push_back(value);
      }
    });
    for (const int32_t value : written) {
      define(value);
    }
    // What was read is still whole: a kernel may write before it has read everything.
    for (const int32_t value : readers) {
      if (!written.contains(family(value))) {
        read(value);
      }
    }
    for (const int32_t value : written) {
      read(value);
    }
  }

  const Method& method_;
  const MethodMemory& memory_;
  std::set<int32_t> views_;          // that et_view makes
  std::set<int32_t> written_;        // by kernels and moves, numbers among them
  std::set<size_t> beginnings_;      // of pieces that jumps make
  std::map<size_t, State> arrived_;  // beginning → what holds there
  std::set<size_t> open_;            // beginnings to follow from
  State state_;
  std::string where_;
};

}  // namespace

void check_memory(const Method& method, const MethodMemory& memory) { MemoryCheck(method, memory).run(); }

}  // namespace exporters::executorch
