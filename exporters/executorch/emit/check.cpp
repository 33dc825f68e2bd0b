#include "exporters/executorch/emit/program.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <fmt/format.h>

#include <set>

namespace exporters::executorch {
namespace {

constexpr size_t kMaxRank = 16;  // kTensorDimensionLimit of the runtime

class MethodCheck {
 public:
  MethodCheck(const Program& program, const Method& method) : program_(program), method_(method) {}

  void run() {
    ensure(!method_.name.empty(), "a method has no name");
    for (size_t i = 0; i < method_.values.size(); ++i) {
      where_ = fmt::format("value {}", i);
      std::visit([&](const auto& value) { check_value(value); }, method_.values[i]);
    }
    where_ = "the inputs";
    check_indices(method_.inputs);
    where_ = "the outputs";
    check_indices(method_.outputs);
    for (size_t i = 0; i < method_.delegates.size(); ++i) {
      where_ = fmt::format("delegate {}", i);
      require(method_.delegates[i].blob < program_.blobs.size(), "refers to a blob that is not there");
    }
    for (size_t i = 0; i < method_.instructions.size(); ++i) {
      where_ = fmt::format("instruction {}", i);
      std::visit([&](const auto& instruction) { check_instruction(instruction); }, method_.instructions[i]);
    }
  }

 private:
  void require(bool condition, std::string_view what) const {
    if (!condition) {
      throw Error(fmt::format("{} {}", where_, what), "method " + quote(method_.name));
    }
  }

  template <typename Index>
  void check_index(Index index) const {
    require(index >= 0 && static_cast<uint64_t>(index) < method_.values.size(), "refers to a value that is not there");
  }
  template <typename Index>
  void check_indices(const std::vector<Index>& indices) const {
    for (const Index index : indices) {
      check_index(index);
    }
  }

  template <typename Plain>
  void check_value(const Plain&) const {}

  void check_value(const TensorValue& tensor) const {
    require(tensor.sizes.size() <= kMaxRank, "has more dimensions than the runtime takes");
    require(tensor.dim_order.size() == tensor.sizes.size(), "has a dim order of another length than its sizes");
    std::set<uint8_t> seen;
    for (const uint8_t dim : tensor.dim_order) {
      require(dim < tensor.sizes.size() && seen.insert(dim).second, "has a dim order that is no permutation");
    }
    const uint64_t nbytes = tensor.nbytes();
    if (tensor.constant) {
      require(*tensor.constant < program_.constants.size(), "refers to a constant that is not there");
      const uint64_t there = nbytes_of(program_.constants[*tensor.constant]);
      require(there == nbytes, fmt::format("needs {} bytes, its constant has {}", nbytes, there));
    }
    if (tensor.allocation) {
      const auto [id, offset] = *tensor.allocation;
      require(id >= 1 && id < method_.memory_sizes.size(), "lies in a memory area that is not there");
      uint64_t end = 0;
      require(!__builtin_add_overflow(offset, nbytes, &end) && method_.memory_sizes[id] >= 0 &&
                  end <= static_cast<uint64_t>(method_.memory_sizes[id]),
              "leaves its memory area");
    }
  }

  void check_value(const IntList& list) const {
    check_indices(list.values);
    for (const int64_t index : list.values) {
      require(std::holds_alternative<int64_t>(method_.values[index]), "is an int list with something else in it");
    }
  }
  void check_value(const TensorList& list) const {
    for (const int32_t index : list.values) {
      require(method_.tensor(index) != nullptr, "is a tensor list with something else in it");
    }
  }
  void check_value(const OptionalTensorList& list) const {
    for (const int32_t index : list.values) {
      require(index == -1 || method_.tensor(index) != nullptr, "is a tensor list with something else in it");
    }
  }

  void check_instruction(const KernelCall& call) const {
    require(call.op >= 0 && static_cast<size_t>(call.op) < method_.operators.size(),
            "calls an operator that is not there");
    check_indices(call.args);
  }
  void check_instruction(const DelegateCall& call) const {
    require(call.delegate >= 0 && static_cast<size_t>(call.delegate) < method_.delegates.size(),
            "calls a delegate that is not there");
    check_indices(call.args);
  }
  void check_instruction(const MoveCall& call) const {
    check_index(call.from);
    check_index(call.to);
    require(method_.values[call.from].index() == method_.values[call.to].index(),
            "moves a value to one of another kind");
  }
  void check_instruction(const JumpFalseCall& call) const {
    check_index(call.condition);
    const TensorValue* tensor = method_.tensor(call.condition);
    require(
        tensor != nullptr ? tensor->dtype == c10::kBool : std::holds_alternative<bool>(method_.values[call.condition]),
        "jumps by a value that is neither true nor false");
    // The end of the method is a destination too.
    require(call.destination >= 0 && static_cast<size_t>(call.destination) <= method_.instructions.size(),
            "jumps out of the method");
  }
  void check_instruction(const FreeCall& call) const { check_index(call.value); }

  const Program& program_;
  const Method& method_;
  std::string where_;
};

}  // namespace

void check(const Program& program) {
  std::set<std::string_view> names;
  for (const Method& method : program.methods) {
    ensure(names.insert(method.name).second, "two methods are named {}", quote(method.name));
    MethodCheck(program, method).run();
  }
}

}  // namespace exporters::executorch
