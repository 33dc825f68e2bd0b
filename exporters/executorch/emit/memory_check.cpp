#include "exporters/executorch/emit/memory_plan.h"
#include "exporters/executorch/emit/value_uses.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <fmt/format.h>

namespace exporters::executorch {
namespace {

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

// A family is a tensor and all that show its bytes; its name is the tensor's index.
class MemoryCheck {
 public:
  MemoryCheck(const Method& method, const MethodMemory& memory) : method_(method), memory_(memory) {}

  void run() {
    for (size_t i = 0; i < method_.values.size(); ++i) {
      check_place(static_cast<int32_t>(i));
    }
    where_ = "at the start";
    for (const auto& [value, name] : memory_.state) {
      define(value);
    }
    for_each_tensor(method_, method_.inputs, [&](int32_t value) { define(value); });
    for (size_t i = 0; i < method_.instructions.size(); ++i) {
      where_ = fmt::format("instruction {}", i);
      step(method_.instructions[i]);
    }
    where_ = "at the end";
    for_each_tensor(method_, method_.outputs, [&](int32_t value) { read(value); });
    for (const auto& [value, name] : memory_.state) {
      read(value);
    }
  }

 private:
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
    if (const auto shown = shows_.find(value); shown != shows_.end()) {
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
    defined_.insert(family(value));
    if (const Allocation* at = place(value)) {
      const uint64_t end = at->offset + method_.tensor(value)->nbytes();
      areas_[at->memory_id].write(at->offset, end, family(value));
    }
  }

  void read(int32_t value) {
    const TensorValue& tensor = *method_.tensor(value);
    const Allocation* at = place(value);
    if (at == nullptr) {
      return;
    }
    if (!defined_.contains(family(value))) {
      refuse(fmt::format("value {} is read before anything is written to it", value));
    }
    const TensorValue& root = *method_.tensor(family(value));
    if (tensor.allocation && root.allocation && tensor.allocation != root.allocation) {
      refuse(fmt::format("value {} does not lie where the tensor lies that it shows, value {}", value, family(value)));
    }
    if (const auto other = areas_[at->memory_id].stranger(at->offset, at->offset + tensor.nbytes(), family(value))) {
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
        if (!defined_.contains(family(value)) && !tensor.constant && !tensor.external) {
          written.insert(value);
        }
      });
    }
    return written;
  }

  void step(const Instruction& instruction) {
    if (const auto view = view_of(method_, instruction)) {
      read(view->base);
      shows_[view->view] = family(view->base);
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
  std::map<uint32_t, Ownership> areas_;
  std::map<int32_t, int32_t> shows_;  // what et_view made so far: view → family
  std::set<int32_t> defined_;         // families
  std::string where_;
};

}  // namespace

void check_memory(const Method& method, const MethodMemory& memory) { MemoryCheck(method, memory).run(); }

}  // namespace exporters::executorch
