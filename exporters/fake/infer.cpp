#include "exporters/fake/infer.h"

#include "exporters/fake/dispatch_mode.h"
#include "exporters/fake/registry.h"
#include "exporters/fake/shape_call.h"
#include "exporters/support/error.h"

#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string_view>

namespace exporters {
namespace {

using torch::jit::Stack;

// Elements that an `empty` may have to count as a constant under construction rather than as a result buffer.
constexpr int64_t kMostElementsOfConstant = int64_t{1} << 16;

template <typename Function>
void for_each_tensor(const c10::IValue& value, Function&& function) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      function(value.toTensor());
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      for_each_tensor(item, function);
    }
  }
}

// The value with each tensor replaced; lists keep their type.
template <typename Function>
c10::IValue map_tensors(const c10::IValue& value, Function&& function) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? c10::IValue(function(value.toTensor())) : value;
  }
  if (value.isTensorList()) {
    std::vector<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      mapped.push_back(function(tensor));
    }
    return mapped;
  }
  if (value.isList()) {
    const c10::List<c10::IValue> list = value.toList();
    c10::impl::GenericList mapped(list.elementType());
    for (const c10::IValue& item : value.toListRef()) {
      mapped.push_back(map_tensors(item, function));
    }
    return mapped;
  }
  return value;
}

c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op, const Stack& stack) {
  return torch::jit::last(stack, op.schema().arguments().size());
}

std::string name_of(const c10::OperatorHandle& op) { return c10::toString(op.operator_name()); }

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& why, std::string hint) {
  throw Error(name_of(op) + ": " + why, current_place().str(), std::move(hint));
}

// Runs the ops inside a composite kernel on fake tensors.
class FakeMode : public DispatchMode {
 public:
  explicit FakeMode(std::shared_ptr<ShapeEnv> env) : env_(std::move(env)) {}

  void handle(const c10::OperatorHandle& op, Stack& stack) override {
    if (makes_real_tensor(op, stack) || has_only_real_tensors(op, stack)) {
      op.callBoxed(stack);
      return;
    }
    infer(op, stack, env_);
  }

 private:
  std::shared_ptr<ShapeEnv> env_;
};

class Inference {
 public:
  Inference(const c10::OperatorHandle& op, Stack& stack, const std::shared_ptr<ShapeEnv>& env)
      : op_(op), stack_(stack), env_(env) {}

  void run() {
    make_arguments_fake();
    if (by_shape_function() || by_functional_form() || by_view() || by_composite_kernel() || by_meta_kernel()) {
      make_results_fake();
      return;
    }
    refuse(op_, "no shape function",
           "Register one with exporters::register_shape_function(\"" + name_of(op_) + "\", …).");
  }

 private:
  c10::ArrayRef<c10::IValue> arguments() const { return arguments_of(op_, stack_); }

  void make_arguments_fake() {
    const size_t count = op_.schema().arguments().size();
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      bool any_real = false;
      for_each_tensor(stack_[i], [&](const at::Tensor& tensor) { any_real |= !is_fake(tensor); });
      if (any_real) {
        stack_[i] = map_tensors(
            stack_[i], [&](const at::Tensor& tensor) { return is_fake(tensor) ? tensor : fake_like(tensor, env_); });
      }
    }
  }

  void make_results_fake() {
    const size_t count = op_.schema().returns().size();
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      stack_[i] = map_tensors(
          stack_[i], [&](const at::Tensor& tensor) { return is_fake(tensor) ? tensor : fake_like(tensor, env_); });
    }
  }

  void replace_arguments_by(std::vector<c10::IValue> results) {
    torch::jit::drop(stack_, op_.schema().arguments().size());
    for (c10::IValue& result : results) {
      stack_.push_back(std::move(result));
    }
  }

  bool by_shape_function() {
    const ShapeFunction* function = find_shape_function(op_.operator_name());
    if (function == nullptr) {
      return false;
    }
    ShapeCall call(op_, arguments(), env_);
    (*function)(call);
    ensure(call.results().size() == op_.schema().returns().size(), "the shape function of {} gave {} results, not {}",
           name_of(op_), call.results().size(), op_.schema().returns().size());
    replace_arguments_by(written_to_outputs(call.results()));
    return true;
  }

  // `out=` arguments come back themselves, once the results are known to fit them.
  std::vector<c10::IValue> written_to_outputs(std::vector<c10::IValue> results) {
    size_t next = 0;
    for (size_t i = 0; i < op_.schema().arguments().size(); ++i) {
      const auto& argument = op_.schema().arguments()[i];
      const bool is_output =
          argument.kwarg_only() && argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      if (!is_output || !arguments()[i].isTensor() || next >= results.size()) {
        continue;
      }
      const at::Tensor& output = arguments()[i].toTensor();
      require_fits(meta_of(results[next].toTensor()), meta_of(output));
      results[next++] = output;
    }
    return results;
  }

  // An in-place op gives its own argument back. Its functional form checks that the operands fit, and tells whether the
  // result would have kept the argument's size.
  bool by_functional_form() {
    const auto self = written_and_returned();
    if (!self) {
      return false;
    }
    const auto functional = functional_form();
    if (!functional) {
      return false;
    }
    const at::Tensor target = arguments()[*self].toTensor();
    Stack inner = arguments_for(*functional);
    infer(*functional, inner, env_);
    require_fits(meta_of(inner.at(0).toTensor()), meta_of(target));
    replace_arguments_by({target});
    return true;
  }

  std::optional<size_t> written_and_returned() const {
    const auto& schema = op_.schema();
    if (schema.returns().size() != 1 || schema.returns()[0].alias_info() == nullptr ||
        !schema.returns()[0].alias_info()->isWrite()) {
      return std::nullopt;
    }
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite() && !schema.arguments()[i].kwarg_only()) {
        return i;
      }
    }
    return std::nullopt;
  }

  std::optional<c10::OperatorHandle> functional_form() const {
    const auto name = functional_name(op_.operator_name());
    return name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  }

  Stack arguments_for(const c10::OperatorHandle& functional) const {
    Stack inner;
    const auto& mine = op_.schema().arguments();
    for (const auto& wanted : functional.schema().arguments()) {
      const auto it = std::find_if(mine.begin(), mine.end(), [&](const auto& a) { return a.name() == wanted.name(); });
      if (it != mine.end()) {
        inner.push_back(arguments()[static_cast<size_t>(it - mine.begin())]);
      } else if (wanted.default_value()) {
        inner.push_back(*wanted.default_value());
      } else {
        refuse(op_, "its functional form needs '" + wanted.name() + "'", "Call the functional form.");
      }
    }
    return inner;
  }

  // `<view>_copy` gives row-major copies of what the view would show.
  bool by_view() {
    const auto name = copied_view(op_.operator_name());
    const auto view = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
    if (!view || view->schema().arguments().size() != arguments().size()) {
      return false;
    }
    Stack inner(arguments().begin(), arguments().end());
    infer(*view, inner, env_);
    replace_arguments_by({map_tensors(inner.at(0), [&](const at::Tensor& shown) {
      TensorMeta meta = meta_of(shown);
      meta.strides = contiguous_strides(meta.sizes);
      meta.storage_offset = 0;
      return make_fake(std::move(meta), env_);
    })});
    return true;
  }

  void require_fits(const TensorMeta& result, const TensorMeta& target) {
    if (!c10::canCast(result.dtype, target.dtype)) {
      refuse(op_,
             std::string("a result of ") + c10::toString(result.dtype) + " cannot be written to a tensor of " +
                 c10::toString(target.dtype),
             "Use the op without '_'.");
    }
    bool same = result.sizes.size() == target.sizes.size();
    for (size_t d = 0; same && d < result.sizes.size(); ++d) {
      same = holds(*env_, eq(result.sizes[d], target.sizes[d]));
    }
    if (!same) {
      refuse(op_, "the result does not have the size of the tensor it is written to", "Use the op without '_'.");
    }
  }

  bool by_composite_kernel() {
    if (!op_.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      return false;
    }
    FakeMode mode(env_);
    const DispatchMode::Scope scope(mode);
    op_.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack_);
    return true;
  }

  bool by_meta_kernel() {
    if (!op_.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta) || !all_sizes_are_plain()) {
      return false;
    }
    std::vector<std::pair<at::Tensor, at::Tensor>> fake_and_meta;
    const size_t count = op_.schema().arguments().size();
    c10::Device device(c10::kCPU);
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      stack_[i] = map_tensors(stack_[i], [&](const at::Tensor& fake) {
        device = fake.device();
        fake_and_meta.emplace_back(fake, to_meta(fake));
        return fake_and_meta.back().second;
      });
    }
    op_.callBoxed(stack_);
    back_to_fake(fake_and_meta, device);
    return true;
  }

  bool all_sizes_are_plain() const {
    bool plain = true;
    for (const c10::IValue& argument : arguments()) {
      plain &= !argument.isSymInt() && !argument.isSymIntList();
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        for (const Expr& size : meta_of(tensor).sizes) {
          plain &= size.is_int();
        }
      });
    }
    return plain;
  }

  static at::Tensor to_meta(const at::Tensor& fake) {
    const TensorMeta meta = meta_of(fake);
    std::vector<int64_t> sizes, strides;
    for (size_t d = 0; d < meta.sizes.size(); ++d) {
      sizes.push_back(*meta.sizes[d].as_int());
      strides.push_back(meta.strides[d].as_int().value_or(1));
    }
    at::Tensor tensor = at::empty_strided(sizes, strides, at::TensorOptions(meta.dtype).device(c10::kMeta));
    if (fake.unsafeGetTensorImpl()->is_wrapped_number()) {
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return tensor;
  }

  void back_to_fake(const std::vector<std::pair<at::Tensor, at::Tensor>>& fake_and_meta, c10::Device device) {
    const size_t count = op_.schema().returns().size();
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      stack_[i] = map_tensors(stack_[i], [&](const at::Tensor& result) {
        at::Tensor base;
        for (const auto& [fake, meta] : fake_and_meta) {
          if (result.is_same(meta)) return fake;
          if (result.is_alias_of(meta)) base = fake;
        }
        TensorMeta metadata = meta_of(result);
        metadata.device = device;
        return make_fake(std::move(metadata), env_, base);
      });
    }
  }

  const c10::OperatorHandle& op_;
  Stack& stack_;
  const std::shared_ptr<ShapeEnv>& env_;
};

}  // namespace

void infer(const c10::OperatorHandle& op, Stack& stack, const std::shared_ptr<ShapeEnv>& env) {
  try {
    Inference(op, stack, env).run();
  } catch (const c10::Error& error) {
    // ATen's own checks, among them wrong shapes in the caller's model.
    refuse(op, error.what_without_backtrace(), {});
  }
}

std::optional<c10::OperatorName> functional_name(c10::OperatorName name) {
  if (!name.name.ends_with('_')) {
    return std::nullopt;
  }
  name.name.pop_back();
  return name;
}

std::optional<c10::OperatorName> copied_view(c10::OperatorName name) {
  static constexpr std::string_view kSuffix = "_copy";
  if (!name.name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  name.name.resize(name.name.size() - kSuffix.size());
  return name;
}

bool makes_real_tensor(const c10::OperatorHandle& op, const Stack& stack) {
  if (op.operator_name().name != "aten::empty" || op.operator_name().overload_name != "memory_format") {
    return false;
  }
  int64_t elements = 1;
  for (const Expr& size : to_exprs(arguments_of(op, stack)[0])) {
    const auto plain = size.as_int();
    if (!plain || *plain < 0 || *plain > kMostElementsOfConstant) {
      return false;
    }
    elements *= *plain;
    if (elements > kMostElementsOfConstant) {
      return false;
    }
  }
  return true;
}

bool has_only_real_tensors(const c10::OperatorHandle& op, const Stack& stack) {
  bool any = false;
  bool all_real = true;
  for (const c10::IValue& argument : arguments_of(op, stack)) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      any = true;
      all_real &= !is_fake(tensor);
    });
  }
  return any && all_real;
}

}  // namespace exporters
