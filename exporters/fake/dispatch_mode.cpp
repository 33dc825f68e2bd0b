#include "exporters/fake/dispatch_mode.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <utility>

namespace exporters {
namespace {

// Note [The key of the mode]
// TESTING_ONLY_GenericMode stands above autograd and BackendSelect and is the one mode key that libtorch leaves free:
// PreDispatch, PythonDispatcher, FuncTorchDynamicLayerFrontMode and Tracer already have fallbacks, and a second one is
// refused. It is no key of any tensor; a Scope includes it in this thread's set.
constexpr c10::DispatchKey kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local DispatchMode* innermost = nullptr;

void set_keys(c10::impl::LocalDispatchKeySet keys) { c10::impl::_force_tls_local_dispatch_key_set(keys); }

c10::impl::LocalDispatchKeySet with_mode(c10::impl::LocalDispatchKeySet keys, bool on) {
  keys.included_ = on ? keys.included_.add(kModeKey) : keys.included_.remove(kModeKey);
  keys.excluded_ = keys.excluded_.remove(kModeKey);
  return keys;
}

// What a handler runs in: no mode, so that its own calls reach ATen.
class OutsideModes {
 public:
  OutsideModes() : mode_(std::exchange(innermost, nullptr)), keys_(c10::impl::tls_local_dispatch_key_set()) {
    set_keys(with_mode(keys_, false));
  }
  ~OutsideModes() {
    set_keys(keys_);
    innermost = mode_;
  }

 private:
  DispatchMode* mode_;
  c10::impl::LocalDispatchKeySet keys_;
};

void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  DispatchMode* mode = innermost;
  OutsideModes outside;
  mode->handle(op, *stack);
}

void install_fallback() {
  static const auto library = [] {
    auto lib = std::make_unique<torch::Library>(torch::Library::IMPL, "_", kModeKey, __FILE__, __LINE__);
    lib->fallback(torch::CppFunction::makeFromBoxedFunction<&on_op>());
    return lib;
  }();
  (void)library;
}

}  // namespace

DispatchMode::Scope::Scope(DispatchMode& mode)
    : previous_(innermost), previous_keys_(c10::impl::tls_local_dispatch_key_set()) {
  install_fallback();
  innermost = &mode;
  set_keys(with_mode(previous_keys_, true));
}

DispatchMode::Scope::~Scope() {
  set_keys(previous_keys_);
  innermost = previous_;
}

}  // namespace exporters
