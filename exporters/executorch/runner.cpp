#include "exporters/executorch/runner.h"

#include "exporters/executorch/emit/reader.h"
#include "exporters/executorch/runtime/session.h"
#include "exporters/executorch/xnnpack/check_blob.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <ATen/ops/empty.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#ifdef __SANITIZE_ADDRESS__  // g++
#define WITH_ADDRESS_SANITIZER
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER
#endif
#endif

namespace exporters::executorch {
namespace {

// ── The runtime's library ──

constexpr const char* kLibrary = "libexporters_executorch_runtime.so";

// The folder of the library that this code is in.
std::filesystem::path own_folder() {
  Dl_info info{};
  static const int anchor = 0;
  ensure(dladdr(&anchor, &info) != 0 && info.dli_fname != nullptr, "cannot tell where this library lies");
  return std::filesystem::path(info.dli_fname).parent_path();
}

struct RuntimeLibrary {
  decltype(&exporters_executorch_open) open = nullptr;
  decltype(&exporters_executorch_close) close = nullptr;
  decltype(&exporters_executorch_kernels) kernels = nullptr;

  RuntimeLibrary() {
    // LOCAL: libtorch, and what is loaded later, does not bind to ExecuTorch's BLAS, pthreadpool or cpuinfo. DEEPBIND:
    // ExecuTorch does not bind to libtorch's.
    int flags = RTLD_NOW | RTLD_LOCAL;
#ifndef WITH_ADDRESS_SANITIZER  // which refuses it: there cmake/bind_symbols.py does the same to the libraries
    flags |= RTLD_DEEPBIND;
#endif
    void* library = dlopen((own_folder() / kLibrary).c_str(), flags);
    if (library == nullptr) {
      const char* reason = dlerror();
      throw Error(fmt::format("ExecuTorch's runtime cannot be opened: {}", reason), {},
                  fmt::format("{} and ExecuTorch's libraries must lie beside this library.", kLibrary));
    }
    open = find<decltype(open)>(library, "exporters_executorch_open");
    close = find<decltype(close)>(library, "exporters_executorch_close");
    kernels = find<decltype(kernels)>(library, "exporters_executorch_kernels");
  }

  template <typename Function>
  static Function find(void* library, const char* name) {
    void* symbol = dlsym(library, name);
    ensure(symbol != nullptr, "{} has no {}: it is of another version", kLibrary, name);
    return reinterpret_cast<Function>(symbol);
  }
};

// Stays open: a library with threads of its own is not unloaded.
const RuntimeLibrary& runtime_library() {
  static const RuntimeLibrary library;
  return library;
}

// ── Values ──

std::string input_name(const Method& method, size_t index) {
  const TensorValue* tensor = method.tensor(method.inputs[index]);
  return tensor != nullptr && !tensor->name.empty() ? fmt::format("input {}", quote(tensor->name))
                                                    : fmt::format("input {}", index);
}

std::string bounds_text(const TensorValue& tensor) {
  return fmt::format("[{}]{}", fmt::join(tensor.sizes, ", "),
                     tensor.dynamism == ShapeDynamism::kBounded ? " at most" : "");
}

void check_input(const Method& method, size_t index, const at::Tensor& given) {
  const TensorValue& wanted = *method.tensor(method.inputs[index]);
  const std::string name = input_name(method, index);
  ensure(given.defined() && given.layout() == c10::kStrided, "{} is not a dense tensor", name);
  ensure(given.scalar_type() == wanted.dtype, "{} has dtype {}, the program takes {}", name,
         dtype_name(given.scalar_type()), dtype_name(wanted.dtype));
  ensure(given.dim() == static_cast<int64_t>(wanted.sizes.size()), "{} has {} axes, the program takes sizes {}", name,
         given.dim(), bounds_text(wanted));
  if (wanted.dynamism == ShapeDynamism::kUnbounded) {
    return;
  }
  for (int64_t axis = 0; axis < given.dim(); ++axis) {
    const int64_t limit = wanted.sizes[axis];
    if (wanted.dynamism == ShapeDynamism::kStatic) {
      ensure(given.size(axis) == limit, "axis {} of {} is {}, the program takes {} only", axis, name, given.size(axis),
             limit);
    } else if (given.size(axis) > limit) {
      throw Error(
          fmt::format("axis {} of {} is {}, over the program's bound of {}", axis, name, given.size(axis), limit), {},
          "Memory is planned for sizes up to the bound: export again with a larger one.");
    }
  }
}

// A number as both sides hold it; nothing for what is no number.
std::optional<double> number_of(const EValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  if (const auto* truth = std::get_if<bool>(&value)) {
    return *truth ? 1 : 0;
  }
  const auto* real = std::get_if<double>(&value);
  return real != nullptr ? std::optional(*real) : std::nullopt;
}

void check_number(const Method& method, size_t index, double given) {
  const std::optional<double> fixed = number_of(method.values[method.inputs[index]]);
  if (fixed && *fixed != given) {
    throw Error(fmt::format("{} is {}, the program was made for {}", input_name(method, index), given, *fixed), {},
                "Numbers are fixed by the export: pass what may change as a tensor.");
  }
}

// The tensor with its dimensions in the order that the program has them in memory.
at::Tensor in_dim_order(const at::Tensor& tensor, const std::vector<uint8_t>& order) {
  const std::vector<int64_t> permutation(order.begin(), order.end());
  return tensor.cpu().permute(permutation).contiguous();
}

at::Tensor copied(const TensorView& view) {
  std::vector<int64_t> memory_sizes;  // outermost first
  std::vector<int64_t> inverse(static_cast<size_t>(view.rank));
  for (int32_t i = 0; i < view.rank; ++i) {
    memory_sizes.push_back(view.sizes[view.dim_order[i]]);
    inverse[view.dim_order[i]] = i;
  }
  at::Tensor tensor = at::empty(memory_sizes, static_cast<c10::ScalarType>(view.dtype));
  ensure(tensor.nbytes() == view.nbytes, "an output has {} bytes instead of {}", view.nbytes, tensor.nbytes());
  if (view.nbytes > 0) {
    std::memcpy(tensor.mutable_data_ptr(), view.data, view.nbytes);
  }
  return tensor.permute(inverse);
}

}  // namespace

struct ExecutorchRunner::Impl {
  std::filesystem::path path;
  Program program;
  struct Close {
    void operator()(Session* session) const { runtime_library().close(session); }
  };
  std::unique_ptr<Session, Close> session;
  std::map<std::string, std::vector<at::Tensor>> output_memory;  // of methods that do not plan it
  bool shares_state = false;

  void check_kernels() const;
  void load(const Method& method);
  void give_output_memory(const Method& method);
  const Method& method(std::string_view name) const;
};

void ExecutorchRunner::Impl::check_kernels() const {
  const std::vector<std::string>& known = runtime_kernels();
  std::set<std::string> missing;
  for (const Method& method : program.methods) {
    for (const Operator& op : method.operators) {
      if (!std::binary_search(known.begin(), known.end(), op.str())) {
        missing.insert(op.str());
      }
    }
  }
  ensure(missing.empty(), "{} needs kernels that this ExecuTorch does not have: {}", quote(path.native(), 400),
         fmt::join(missing, ", "));
}

// A method that is loaded gives its state the start values: with shared state, none may be after another one has run.
void ExecutorchRunner::Impl::load(const Method& method) {
  for (const Method& each : program.methods) {
    if ((shares_state || &each == &method) && !session->load(each.name.c_str())) {
      fail("ExecuTorch cannot load method {} of {}: {}", quote(each.name), quote(path.native(), 400), session->error());
    }
  }
}

const Method& ExecutorchRunner::Impl::method(std::string_view name) const {
  const Method* found = program.method(name);
  std::vector<std::string> names;
  for (const Method& each : program.methods) {
    names.push_back(quote(each.name));
  }
  ensure(found != nullptr, "{} has no method {}; it has {}", quote(path.native(), 400), quote(name),
         fmt::join(names, ", "));
  return *found;
}

void ExecutorchRunner::Impl::give_output_memory(const Method& method) {
  if (output_memory.contains(method.name)) {
    return;
  }
  std::vector<at::Tensor>& memory = output_memory[method.name];
  for (size_t i = 0; i < method.outputs.size(); ++i) {
    const TensorValue* tensor = method.tensor(method.outputs[i]);
    const bool is_input =
        std::find(method.inputs.begin(), method.inputs.end(), method.outputs[i]) != method.inputs.end();
    if (tensor == nullptr || tensor->allocation || tensor->constant || is_input) {
      continue;
    }
    ensure(tensor->dynamism != ShapeDynamism::kUnbounded, "output {} has no bound, so no memory can be given for it",
           i);
    memory.push_back(at::empty({static_cast<int64_t>(tensor->nbytes())}, at::kByte));
    TensorView view{static_cast<int32_t>(tensor->dtype),
                    static_cast<int32_t>(tensor->sizes.size()),
                    tensor->sizes.data(),
                    tensor->dim_order.data(),
                    memory.back().mutable_data_ptr(),
                    tensor->nbytes()};
    if (!session->set_output(method.name.c_str(), i, view)) {
      fail("ExecuTorch refuses memory for output {}: {}", i, session->error());
    }
  }
}

ExecutorchRunner::ExecutorchRunner(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->program = read_program(path);
  try {
    xnnpack::check_delegates(impl_->program);
  } catch (const Error& error) {
    throw error.with_context(path.string());
  }
  impl_->check_kernels();
  // Without shared memory each method has its own arena: shared state is what area 2 is for.
  impl_->shares_state = std::any_of(impl_->program.methods.begin(), impl_->program.methods.end(),
                                    [](const Method& method) { return method.memory_sizes.size() > 2; });
  impl_->session.reset(runtime_library().open(path.c_str(), impl_->shares_state));
}

ExecutorchRunner::~ExecutorchRunner() = default;
ExecutorchRunner::ExecutorchRunner(ExecutorchRunner&&) noexcept = default;
ExecutorchRunner& ExecutorchRunner::operator=(ExecutorchRunner&&) noexcept = default;

const Program& ExecutorchRunner::program() const { return impl_->program; }

std::vector<ExecutorchRunner::Value> ExecutorchRunner::run(std::span<const Value> inputs, std::string_view name) {
  const Method& method = impl_->method(name);
  ensure(inputs.size() == method.inputs.size(), "method {} takes {} inputs, {} are given", quote(method.name),
         method.inputs.size(), inputs.size());
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<int32_t>> sizes(inputs.size());
  std::vector<ValueView> views(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorValue* wanted = method.tensor(method.inputs[i]);
    const auto* given = std::get_if<at::Tensor>(&inputs[i]);
    ensure((wanted != nullptr) == (given != nullptr), "{} must {}be a tensor", input_name(method, i),
           wanted == nullptr ? "not " : "");
    if (given != nullptr) {
      check_input(method, i, *given);
      sizes[i].assign(given->sizes().begin(), given->sizes().end());
      const at::Tensor& tensor = tensors.emplace_back(in_dim_order(*given, wanted->dim_order));
      views[i].kind = ValueView::Kind::kTensor;
      views[i].tensor = {static_cast<int32_t>(tensor.scalar_type()),
                         static_cast<int32_t>(sizes[i].size()),
                         sizes[i].data(),
                         wanted->dim_order.data(),
                         const_cast<void*>(tensor.const_data_ptr()),
                         tensor.nbytes()};
    } else if (const auto* integer = std::get_if<int64_t>(&inputs[i])) {
      views[i].kind = ValueView::Kind::kInt;
      views[i].integer = *integer;
      check_number(method, i, static_cast<double>(*integer));
    } else if (const auto* real = std::get_if<double>(&inputs[i])) {
      views[i].kind = ValueView::Kind::kDouble;
      views[i].real = *real;
      check_number(method, i, *real);
    } else if (const auto* truth = std::get_if<bool>(&inputs[i])) {
      views[i].kind = ValueView::Kind::kBool;
      views[i].integer = *truth ? 1 : 0;
      check_number(method, i, *truth ? 1 : 0);
    }
  }
  Session& session = *impl_->session;
  impl_->load(method);
  impl_->give_output_memory(method);
  if (!session.execute(method.name.c_str(), views.data(), views.size())) {
    fail("ExecuTorch failed in method {}: {}", quote(method.name), session.error());
  }
  std::vector<Value> outputs;
  for (size_t i = 0; i < session.output_count(); ++i) {
    const ValueView view = session.output(i);
    switch (view.kind) {
      case ValueView::Kind::kTensor:
        outputs.emplace_back(copied(view.tensor));
        break;
      case ValueView::Kind::kInt:
        outputs.emplace_back(view.integer);
        break;
      case ValueView::Kind::kDouble:
        outputs.emplace_back(view.real);
        break;
      case ValueView::Kind::kBool:
        outputs.emplace_back(view.integer != 0);
        break;
      case ValueView::Kind::kNone:
        outputs.emplace_back();
        break;
      case ValueView::Kind::kOther:
        fail("output {} is neither a tensor nor a number", i);
    }
  }
  return outputs;
}

std::vector<at::Tensor> ExecutorchRunner::run(const std::vector<at::Tensor>& inputs, std::string_view method) {
  const std::vector<Value> values(inputs.begin(), inputs.end());
  std::vector<at::Tensor> tensors;
  for (const Value& output : run(std::span<const Value>(values), method)) {
    const auto* tensor = std::get_if<at::Tensor>(&output);
    ensure(tensor != nullptr, "an output is no tensor");
    tensors.push_back(*tensor);
  }
  return tensors;
}

const std::vector<std::string>& runtime_kernels() {
  static const std::vector<std::string> kernels = [] {
    std::vector<std::string> names;
    runtime_library().kernels(
        [](void* context, const char* name) { static_cast<std::vector<std::string>*>(context)->emplace_back(name); },
        &names);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }();
  return kernels;
}

}  // namespace exporters::executorch
