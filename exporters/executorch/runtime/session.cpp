#include "exporters/executorch/runtime/session.h"

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace exporters::executorch {
namespace {

namespace et = ::executorch;
using et::runtime::EValue;

// What the runtime says while this thread is in a call: its log lines hold the reasons that its error codes lack.
thread_local std::string log_text;
thread_local bool in_call = false;

void keep_log(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t, const char* message,
              size_t length) {
  if (level == kError || level == kFatal) {
    log_text += (log_text.empty() ? "" : "; ") + std::string(message, length);
  }
}

// Kernels that are asked for something impossible end the process. Instead the call ends, with what they say of it;
// what it had allocated is lost. In a thread of the runtime's own nothing could catch that.
void give_up() {
  if (!in_call) {
    std::abort();
  }
  throw std::runtime_error("a kernel cannot go on");
}

void start_runtime() {
  static const bool started = [] {
    et::runtime::register_pal(
        et::runtime::PalImpl::create(nullptr, give_up, nullptr, nullptr, keep_log, nullptr, nullptr, "exporters"));
    et::runtime::runtime_init();
    return true;
  }();
  (void)started;
}

class ModuleSession final : public Session {
 public:
  ModuleSession(const char* path, bool share_state)
      : module_(path, et::extension::Module::LoadMode::Mmap, nullptr, nullptr, nullptr, share_state) {}

  bool load(const char* method) override {
    return guarded([&] { return check(module_.load_method(method)); });
  }

  bool set_output(const char* method, size_t index, const TensorView& memory) override {
    return guarded([&] {
      if (!check(module_.load_method(method))) {
        return false;
      }
      const auto tensor = wrap(memory);
      return check(module_.set_output(method, EValue(*tensor), index));
    });
  }

  bool execute(const char* method, const ValueView* inputs, size_t count) override {
    return guarded([&] {
      std::vector<et::extension::TensorPtr> tensors;
      std::vector<EValue> values;
      for (size_t i = 0; i < count; ++i) {
        values.push_back(unwrap(inputs[i], tensors));
      }
      auto outputs = module_.execute(method, values);
      if (!check(outputs.error())) {
        return false;
      }
      outputs_ = std::move(*outputs);
      return true;
    });
  }

  size_t output_count() const override { return outputs_.size(); }

  ValueView output(size_t index) const override {
    const EValue& value = outputs_[index];
    ValueView view;
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      view.kind = ValueView::Kind::kTensor;
      view.tensor = {static_cast<int32_t>(tensor.scalar_type()),
                     static_cast<int32_t>(tensor.dim()),
                     tensor.sizes().data(),
                     tensor.dim_order().data(),
                     const_cast<void*>(tensor.const_data_ptr()),
                     tensor.nbytes()};
    } else if (value.isInt()) {
      view.kind = ValueView::Kind::kInt;
      view.integer = value.toInt();
    } else if (value.isDouble()) {
      view.kind = ValueView::Kind::kDouble;
      view.real = value.toDouble();
    } else if (value.isBool()) {
      view.kind = ValueView::Kind::kBool;
      view.integer = value.toBool() ? 1 : 0;
    } else if (!value.isNone()) {
      view.kind = ValueView::Kind::kOther;
    }
    return view;
  }

  const char* error() const override { return error_.c_str(); }

 private:
  static et::extension::TensorPtr wrap(const TensorView& view) {
    std::vector<et::aten::SizesType> sizes(view.sizes, view.sizes + view.rank);
    std::vector<et::aten::DimOrderType> order(view.dim_order, view.dim_order + view.rank);
    return et::extension::make_tensor_ptr(
        std::move(sizes), view.data, std::move(order), {}, static_cast<et::aten::ScalarType>(view.dtype),
        et::aten::Device(et::aten::DeviceType::CPU), et::aten::TensorShapeDynamism::STATIC);
  }

  static EValue unwrap(const ValueView& view, std::vector<et::extension::TensorPtr>& tensors) {
    switch (view.kind) {
      case ValueView::Kind::kTensor:
        return EValue(*tensors.emplace_back(wrap(view.tensor)));
      case ValueView::Kind::kInt:
        return EValue(view.integer);
      case ValueView::Kind::kDouble:
        return EValue(view.real);
      case ValueView::Kind::kBool:
        return EValue(view.integer != 0);
      case ValueView::Kind::kNone:
      case ValueView::Kind::kOther:
        break;
    }
    return EValue();
  }

  bool check(et::runtime::Error error) {
    if (error == et::runtime::Error::Ok) {
      return true;
    }
    error_ = et::runtime::to_string(error);
    return false;
  }

  template <typename Call>
  bool guarded(Call&& call) {
    log_text.clear();
    error_.clear();
    in_call = true;
    bool fine = false;
    try {
      fine = call();
    } catch (const std::exception& exception) {
      error_ = exception.what();
    } catch (...) {
      error_ = "an unknown exception";
    }
    in_call = false;
    if (!fine && !log_text.empty()) {
      error_ += " (" + log_text + ")";
    }
    return fine;
  }

  et::extension::Module module_;
  std::vector<EValue> outputs_;
  std::string error_;
};

}  // namespace
}  // namespace exporters::executorch

#define EXPORTERS_VISIBLE __attribute__((visibility("default")))

EXPORTERS_VISIBLE exporters::executorch::Session* exporters_executorch_open(const char* path, bool share_state) {
  exporters::executorch::start_runtime();
  return new exporters::executorch::ModuleSession(path, share_state);
}

EXPORTERS_VISIBLE void exporters_executorch_close(exporters::executorch::Session* session) {
  delete static_cast<exporters::executorch::ModuleSession*>(session);
}

EXPORTERS_VISIBLE void exporters_executorch_kernels(void (*visit)(void* context, const char* name), void* context) {
  exporters::executorch::start_runtime();
  for (const auto& kernel : ::executorch::runtime::get_registered_kernels()) {
    visit(context, kernel.name_);
  }
}
