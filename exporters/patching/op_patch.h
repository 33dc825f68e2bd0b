#pragma once

#include "exporters/patching/replacement.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace exporters {

/// A boxed op. The stack holds the op's arguments, in schema order and nothing else; the function puts the op's results
/// in their place.
using OpFunction = std::function<void(torch::jit::Stack&)>;

namespace detail {

class OpReplacement;

// What links a replacement to what it replaced.
struct OpLink {
  c10::OperatorHandle op;
  std::shared_ptr<OpReplacement> below;  // an earlier patch of the same op, if there is one
  struct Invocation* invocation = nullptr;
};

}  // namespace detail

/// The op that a patch replaces: an earlier patch of it, or else the op itself, which is then recorded as it is. To be
/// called on the thread of the export only, while the patch is in force.
class OpOriginal {
 public:
  explicit OpOriginal(std::shared_ptr<detail::OpLink> link) : link_(std::move(link)) {}

  const c10::OperatorHandle& op() const { return link_->op; }
  const c10::FunctionSchema& schema() const { return link_->op.schema(); }
  void operator()(torch::jit::Stack& stack) const;

 private:
  std::shared_ptr<detail::OpLink> link_;
};

/// Makes the replacement of one overload. For a patch by name ("aten::where"), which is asked for each overload, an
/// empty function says that this overload stays as it is.
using OpFactory = std::function<OpFunction(OpOriginal original)>;

/// The factory of op patches, with what tells which overloads it can replace.
struct OpPatch {
  OpFactory factory;
  /// Gives an empty text when the overload can be replaced, else why not.
  std::function<std::string(const c10::OperatorHandle&)> misfit;
};

inline OpPatch op_patch(OpFactory factory) { return {std::move(factory), {}}; }

namespace detail {

std::string misfit(const c10::OperatorHandle& op, size_t argument_count, const std::function<void()>& check_signature);

// The original under a boxed kernel's interface, which libtorch's own boxing calls.
struct OriginalKernel : c10::OperatorKernel {
  explicit OriginalKernel(OpOriginal original) : original(std::move(original)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) { original(*stack); }
  OpOriginal original;
};

template <typename Signature>
struct TypedOp;

template <typename Result, typename... Args>
struct TypedOp<Result(Args...)> {
  using Function = std::function<Result(Args...)>;

  struct Kernel : c10::OperatorKernel {
    explicit Kernel(Function function) : function(std::move(function)) {}
    Result operator()(Args... args) { return function(std::forward<Args>(args)...); }
    Function function;
  };

  static Function unboxed(const OpOriginal& original) {
    const auto kernel = c10::BoxedKernel::makeFromFunctor(std::make_unique<OriginalKernel>(original));
    return [kernel, op = original.op()](Args... args) -> Result {
      return c10::impl::BoxedKernelWrapper<Result(Args...)>::call(kernel, op, c10::DispatchKeySet(),
                                                                  std::forward<Args>(args)...);
    };
  }

  static OpFunction boxed(Function function, const c10::OperatorHandle& op) {
    const auto kernel =
        c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(std::make_unique<Kernel>(std::move(function)));
    return [kernel, op](torch::jit::Stack& stack) { kernel.callBoxed(op, c10::DispatchKeySet(), &stack); };
  }

  static std::string misfit(const c10::OperatorHandle& op) {
    return detail::misfit(op, sizeof...(Args), [&] { op.template typed<Result(Args...)>(); });
  }
};

}  // namespace detail

/// A patch in C++ types: `factory` takes and gives a std::function<Signature>, where Signature is what libtorch
/// declares for the op, at::_ops::where_self::schema for aten::where.self. By name, it replaces the overloads with that
/// signature.
template <typename Signature, typename Factory>
OpPatch typed_op_patch(Factory factory) {
  using Typed = detail::TypedOp<Signature>;
  return {[factory = std::move(factory)](const OpOriginal& original) -> OpFunction {
            return Typed::boxed(factory(typename Typed::Function(Typed::unboxed(original))), original.op());
          },
          &Typed::misfit};
}

// ── For a tracer ──

namespace detail {

/// One patch in force on one op.
class OpReplacement : public Replacement {
 public:
  using Replacement::Replacement;
  OpFunction function;
  std::shared_ptr<OpLink> link;
};

OpReplacement* find_op_replacement(const c10::OperatorHandle& op);

}  // namespace detail

/// The replacement that is in force on this thread for a call of the op; null for most calls, and for the one that an
/// original makes.
inline detail::OpReplacement* active_replacement(const c10::OperatorHandle& op) {
  return detail::active_patches == nullptr ? nullptr : detail::find_op_replacement(op);
}

/// The name of the node that made a tensor, for reports.
using NodeNamer = std::function<std::string(const c10::IValue&)>;

/// Calls the replacement: takes the op's arguments from the end of the stack and puts the results there. Throws Error
/// when the results are not those that the op's schema promises, and when the replacement calls its own op without end.
void call_replacement(detail::OpReplacement& replacement, torch::jit::Stack& stack, const NodeNamer& node_of);

}  // namespace exporters
