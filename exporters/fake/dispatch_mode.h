#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace exporters {

/// Sees every op call of this thread, whole, before autograd and before decomposition, while a Scope of it is alive.
/// Modes nest: the innermost one is asked.
class DispatchMode {
 public:
  virtual ~DispatchMode() = default;

  /// The op's arguments are the last ones on the stack; replaces them by the results. While it runs, ops go to ATen as
  /// if there were no mode.
  virtual void handle(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;

  class Scope {
   public:
    explicit Scope(DispatchMode& mode);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DispatchMode* previous_;
    c10::impl::LocalDispatchKeySet previous_keys_;
  };
};

}  // namespace exporters
