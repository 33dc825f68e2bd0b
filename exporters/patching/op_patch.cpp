#include "exporters/patching/op_patch.h"

#include "exporters/patching/active.h"
#include "exporters/patching/effects.h"
#include "exporters/support/error.h"
#include "exporters/support/place.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace exporters {

using torch::jit::Stack;

namespace detail {

// One call of a replacement: tells one that hands its arguments on and gives back what comes from one that does
// something.
struct Invocation {
  Stack arguments;
  int originals = 0;  // calls of the original
  bool handed_on = false;
  Stack results;  // of the original
};

}  // namespace detail

namespace {

bool same(const c10::IValue& a, const c10::IValue& b);

bool same_items(c10::ArrayRef<c10::IValue> a, c10::ArrayRef<c10::IValue> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

// Conservative: kinds that cannot be compared cheaply differ.
bool same(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor() && b.isTensor()) {
    return a.toTensor().is_same(b.toTensor());
  }
  if (a.isList() && b.isList()) {
    return same_items(a.toListRef(), b.toListRef());
  }
  if (a.isSymInt() || b.isSymInt()) {
    return a.isSymInt() && b.isSymInt() && a.toSymInt().is_same(b.toSymInt());
  }
  if (a.isNone() || b.isNone()) {
    return a.isNone() && b.isNone();
  }
  const bool plain = a.isInt() || a.isDouble() || a.isBool() || a.isString() || a.isDevice() || a.isComplexDouble();
  return plain && a.tagKind() == b.tagKind() && a == b;
}

// Says for the time of one dispatch that the op is to be taken as it is.
class AsOriginal {
 public:
  explicit AsOriginal(const c10::OperatorHandle& op) {
    if (detail::active_patches != nullptr) {
      detail::active_patches->original = op;
    }
  }
  ~AsOriginal() {
    if (detail::active_patches != nullptr) {
      detail::active_patches->original.reset();
    }
  }
  AsOriginal(const AsOriginal&) = delete;
  AsOriginal& operator=(const AsOriginal&) = delete;
};

[[noreturn]] void refuse(const detail::OpReplacement& replacement, const std::string& why) {
  throw Error("the patch '" + replacement.notes().name + "' of '" + replacement.target() + "' " + why,
              current_place().str());
}

void check_results(const detail::OpReplacement& replacement, const Stack& results, const Stack& arguments) {
  const auto& returns = replacement.link->op.schema().returns();
  if (results.size() != returns.size()) {
    refuse(replacement, "left " + std::to_string(results.size()) + " values on the stack; the op gives " +
                            std::to_string(returns.size()));
  }
  for (size_t i = 0; i < returns.size(); ++i) {
    const bool tensor = returns[i].type()->kind() == c10::TypeKind::TensorType;
    if (tensor != results[i].isTensor()) {
      refuse(replacement,
             std::string("gave a ") + results[i].tagKind() + " where the op gives a " + returns[i].type()->str());
    }
    const bool in_place = tensor && returns[i].alias_info() != nullptr && returns[i].alias_info()->isWrite();
    if (in_place && std::none_of(arguments.begin(), arguments.end(),
                                 [&](const c10::IValue& argument) { return same(argument, results[i]); })) {
      refuse(replacement, "gave a new tensor where the op writes to its argument and gives that back");
    }
  }
}

// The stack holds the arguments and nothing else.
void call(detail::OpReplacement& replacement, Stack& stack) {
  const detail::ReplacementCall guard(replacement);
  detail::Invocation invocation{stack, 0, false, {}};
  struct Entered {
    detail::OpLink& link;
    detail::Invocation* previous;
    ~Entered() { link.invocation = previous; }
  } const entered{*replacement.link, std::exchange(replacement.link->invocation, &invocation)};

  replacement.function(stack);

  check_results(replacement, stack, invocation.arguments);
  const bool took_effect = invocation.originals != 1 || !invocation.handed_on || !same_items(stack, invocation.results);
  if (took_effect) {
    const NodeNamer* node_of = detail::active_patches == nullptr ? nullptr : detail::active_patches->node_of;
    const std::string node = node_of == nullptr || stack.empty() ? std::string() : (*node_of)(stack.front());
    record_effect("patch", replacement.backend(), replacement.notes().name, {node, current_place().module_path});
  }
}

}  // namespace

void OpOriginal::operator()(Stack& stack) const {
  detail::Invocation* invocation = link_->invocation;
  if (invocation != nullptr) {
    ++invocation->originals;
    invocation->handed_on = same_items(stack, invocation->arguments);
  }
  if (link_->below != nullptr) {
    call(*link_->below, stack);
  } else {
    const AsOriginal guard(link_->op);
    link_->op.callBoxed(stack);
  }
  if (invocation != nullptr) {
    invocation->results = stack;
  }
}

std::string detail::misfit(const c10::OperatorHandle& op, size_t argument_count,
                           const std::function<void()>& check_signature) {
  if (op.schema().arguments().size() != argument_count) {
    return "the replacement takes " + std::to_string(argument_count) + " arguments, the op " +
           std::to_string(op.schema().arguments().size());
  }
  try {
    check_signature();
    return {};
  } catch (const c10::Error&) {
    return "the replacement's C++ signature is not that of the op";
  }
}

detail::OpReplacement* detail::find_op_replacement(const c10::OperatorHandle& op) {
  if (active_patches->original && *active_patches->original == op) {
    active_patches->original.reset();
    return nullptr;
  }
  const auto found = active_patches->ops.find(op);
  return found == active_patches->ops.end() ? nullptr : found->second.back().get();
}

void call_replacement(detail::OpReplacement& replacement, Stack& stack, const NodeNamer& node_of) {
  struct Naming {
    const NodeNamer* previous = detail::active_patches->node_of;
    explicit Naming(const NodeNamer& namer) { detail::active_patches->node_of = &namer; }
    ~Naming() { detail::active_patches->node_of = previous; }
  } const naming(node_of);
  Stack own = torch::jit::pop(stack, replacement.link->op.schema().arguments().size());
  call(replacement, own);
  for (c10::IValue& result : own) {
    stack.push_back(std::move(result));
  }
}

}  // namespace exporters
