#include "exporters/onnx/runner.h"

#include "exporters/onnx/cache_buffer.h"
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/in_place.h"
#include "exporters/onnx/packed_model.h"
#include "exporters/onnx/shared_weights.h"
#include "exporters/support/error.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <onnxruntime_cxx_api.h>
#include <onnxruntime_session_options_config_keys.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <thread>

namespace exporters::onnx {
namespace {

// Outlives every tensor that a session hands out, so it is never destroyed.
Ort::Env& environment() {
  static auto* env = new Ort::Env(ORT_LOGGING_LEVEL_FATAL, "exporters");
  return *env;
}

int available_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void append_cuda(Ort::SessionOptions& session, const std::map<std::string, std::string>& options) {
  const OrtApi& api = Ort::GetApi();
  OrtCUDAProviderOptionsV2* raw = nullptr;
  Ort::ThrowOnError(api.CreateCUDAProviderOptions(&raw));
  const std::unique_ptr<OrtCUDAProviderOptionsV2, decltype(api.ReleaseCUDAProviderOptions)> cuda(
      raw, api.ReleaseCUDAProviderOptions);
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : options) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  Ort::ThrowOnError(api.UpdateCUDAProviderOptions(cuda.get(), keys.data(), values.data(), keys.size()));
  session.AppendExecutionProvider_CUDA_V2(*cuda);
}

// "CUDA" of "CUDAExecutionProvider".
std::string short_name(const std::string& provider) {
  return provider.substr(0, std::min(provider.size(), provider.rfind("ExecutionProvider")));
}

bool runs_on_cpu(const OnnxRunnerOptions& options) {
  return std::all_of(options.providers.begin(), options.providers.end(),
                     [](const auto& provider) { return short_name(provider.first) == "CPU"; });
}

void append_provider(Ort::SessionOptions& session, const std::string& provider,
                     const std::map<std::string, std::string>& options) {
  const std::string name = short_name(provider);
  if (name == "CPU") {
    return;  // always there, last
  }
  const std::vector<std::string> available = Ort::GetAvailableProviders();
  if (std::find(available.begin(), available.end(), name + "ExecutionProvider") == available.end()) {
    throw Error(fmt::format("this ONNX Runtime has no execution provider '{}'", provider), {},
                fmt::format("It has: {}.", fmt::join(available, ", ")));
  }
  if (name == "CUDA") {
    append_cuda(session, options);
    return;
  }
  session.AppendExecutionProvider(name, {options.begin(), options.end()});
}

Ort::SessionOptions session_options(const OnnxRunnerOptions& options) {
  Ort::SessionOptions session;
  session.SetIntraOpNumThreads(options.threads > 0 ? options.threads : available_cpus());
  session.SetGraphOptimizationLevel(static_cast<GraphOptimizationLevel>(options.graph_optimization));
  session.SetLogSeverityLevel(options.log_severity);
  if (runs_on_cpu(options)) {
    // On the CPU this fusion makes Add + LayerNormalization several times slower.
    session.AddConfigEntry(kOrtSessionOptionsDisableSpecifiedOptimizers, "SkipLayerNormFusion");
  }
  for (const auto& [key, value] : options.session_config) {
    session.AddConfigEntry(key.c_str(), value.c_str());
  }
  for (const auto& [provider, provider_options] : options.providers) {
    append_provider(session, provider, provider_options);
  }
  return session;
}

// What the optimized model depends on.
std::string settings_text(const OnnxRunnerOptions& options) {
  std::string text = fmt::format("graph_optimization={}", options.graph_optimization);
  for (const auto& [key, value] : options.session_config) {
    text += fmt::format(" {}={}", key, value);
  }
  return text;
}

// Some writers name fixed sizes by their digits.
OnnxDim number_if_digits(const std::string& name) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  return error == std::errc() && end == name.data() + name.size() && value >= 0 ? OnnxDim(value) : OnnxDim(name);
}

OnnxValueInfo describe(std::string name, const Ort::TypeInfo& type) {
  OnnxValueInfo info;
  info.name = std::move(name);
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) {
    return info;
  }
  const auto tensor = type.GetTensorTypeAndShapeInfo();
  info.dtype = static_cast<OnnxType>(tensor.GetElementType());
  const std::vector<int64_t> sizes = tensor.GetShape();
  std::vector<const char*> names(sizes.size());
  tensor.GetSymbolicDimensions(names.data(), names.size());
  info.dims.emplace();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] >= 0) {
      info.dims->emplace_back(sizes[axis]);
    } else if (names[axis] != nullptr && *names[axis] != '\0') {
      info.dims->push_back(number_if_digits(names[axis]));
    } else {
      info.dims->emplace_back();
    }
  }
  return info;
}

std::string shape_text(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

std::string shape_text(const std::optional<std::vector<OnnxDim>>& dims) {
  if (!dims) {
    return "any shape";
  }
  std::vector<std::string> parts;
  std::transform(dims->begin(), dims->end(), std::back_inserter(parts), dim_text);
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

// Sizes that the dim names of one call have taken, with the input that set them.
using NamedSizes = std::map<std::string, std::pair<int64_t, std::string>>;

class InputCheck {
 public:
  InputCheck(const OnnxValueInfo& info, const at::Tensor& tensor) : info_(info), tensor_(tensor) {}

  void run(NamedSizes& names, bool equal_names_equal_sizes) const {
    ensure(tensor_.defined(), "input '{}' is an undefined tensor", info_.name);
    ensure(tensor_.layout() == c10::kStrided, "input '{}' is not a dense tensor", info_.name);
    ensure(info_.dtype != OnnxType::kUndefined, "input '{}' of the model is not a tensor, which cannot be given",
           info_.name);
    check_dtype();
    check_sizes();
    if (equal_names_equal_sizes) {
      check_names(names);
    }
  }

 private:
  void check_dtype() const {
    const OnnxType given = onnx_type(tensor_.scalar_type());
    if (given != info_.dtype) {
      throw Error(fmt::format("input '{}' has dtype {}, the model takes {}", info_.name, type_name(given),
                              type_name(info_.dtype)),
                  {}, "Convert the tensor, or export the model with that dtype.");
    }
  }

  void check_sizes() const {
    if (!info_.dims) {
      return;
    }
    bool fits = static_cast<size_t>(tensor_.dim()) == info_.dims->size();
    for (size_t axis = 0; fits && axis < info_.dims->size(); ++axis) {
      const auto* fixed = std::get_if<int64_t>(&(*info_.dims)[axis]);
      fits = fixed == nullptr || *fixed == tensor_.size(static_cast<int64_t>(axis));
    }
    ensure(fits, "input '{}' has shape {}, the model takes {}", info_.name, shape_text(tensor_.sizes()),
           shape_text(info_.dims));
  }

  void check_names(NamedSizes& names) const {
    for (size_t axis = 0; info_.dims && axis < info_.dims->size(); ++axis) {
      const auto* name = std::get_if<std::string>(&(*info_.dims)[axis]);
      if (name == nullptr) {
        continue;
      }
      const int64_t size = tensor_.size(static_cast<int64_t>(axis));
      const auto [seen, fresh] = names.try_emplace(*name, size, info_.name);
      ensure(fresh || seen->second.first == size, "input '{}' has {} = {} (shape {}), but input '{}' has {} = {}",
             info_.name, *name, size, shape_text(tensor_.sizes()), seen->second.second, *name, seen->second.first);
    }
  }

  const OnnxValueInfo& info_;
  const at::Tensor& tensor_;
};

char no_bytes = 0;  // what an empty tensor points at: ONNX Runtime refuses null

Ort::Value as_ort_value(const at::Tensor& tensor) {
  static const Ort::MemoryInfo cpu = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  void* bytes = tensor.numel() > 0 ? tensor.mutable_data_ptr() : &no_bytes;
  return Ort::Value::CreateTensor(cpu, bytes, tensor.nbytes(), tensor.sizes().data(), static_cast<size_t>(tensor.dim()),
                                  static_cast<ONNXTensorElementDataType>(onnx_type(tensor.scalar_type())));
}

// The tensor owns the value, so nothing is copied.
at::Tensor as_tensor(Ort::Value value, const std::string& name) {
  ensure(value.IsTensor(), "output '{}' is not a tensor", name);
  const auto info = value.GetTensorTypeAndShapeInfo();
  const auto type = static_cast<OnnxType>(info.GetElementType());
  const std::optional<c10::ScalarType> dtype = scalar_type(type);
  ensure(dtype.has_value(), "output '{}' has type {}, which torch does not have", name, type_name(type));
  auto owner = std::make_shared<Ort::Value>(std::move(value));
  void* bytes = owner->GetTensorMutableRawData();
  return at::from_blob(
      bytes, info.GetShape(), [owner](void*) {}, at::TensorOptions().dtype(*dtype));
}

}  // namespace

struct OnnxRunner::Impl {
  std::vector<OnnxValueInfo> inputs;
  std::vector<OnnxValueInfo> outputs;
  OnnxMetadata metadata;
  InPlace in_place;
  bool on_cpu = true;
  bool equal_names_equal_sizes = false;
  std::shared_ptr<SharedWeights> weights;  // null: the session's own
  std::vector<Ort::Value> lent;
  mutable Ort::Session session{nullptr};

  void open_packed(const OnnxModel& model, const std::filesystem::path& path, const OnnxRunnerOptions& options);
  void open(const OnnxModel& model, const std::filesystem::path& path, const OnnxRunnerOptions& options);

  void describe_session();
  void check_names(const Inputs& given) const;
  NamedSizes check_inputs(const Inputs& given) const;
  void check_outputs(const Inputs& given) const;

  void replace_in_place(const Inputs& given, Inputs& given_outputs) const;
  std::map<std::string, int64_t> grow_in_place(Inputs& given, Inputs& given_outputs, const NamedSizes& sizes) const;
  Outputs run(const Inputs& given, const Inputs& given_outputs) const;
};

void OnnxRunner::Impl::open_packed(const OnnxModel& model, const std::filesystem::path& path,
                                   const OnnxRunnerOptions& options) {
  ensure(on_cpu, "packed weights are for the CPU, and other providers were given");
  const std::filesystem::path packed = packed_model(model, path, options.packed_weights, settings_text(options),
                                                    environment(), session_options(options));
  check_external_data(read_model(packed, {.keep_inline_bytes = 0}), packed.parent_path());
  Ort::SessionOptions settings = session_options(options);
  settings.SetGraphOptimizationLevel(ORT_DISABLE_ALL);
  session = Ort::Session(environment(), packed.c_str(), settings);
}

void OnnxRunner::Impl::open(const OnnxModel& model, const std::filesystem::path& path,
                            const OnnxRunnerOptions& options) {
  on_cpu = runs_on_cpu(options);
  if (!options.packed_weights.empty()) {
    open_packed(model, path, options);
    return;
  }
  Ort::SessionOptions session_settings = session_options(options);
  if (options.share_weights && on_cpu) {
    environment();
    weights = SharedWeights::of(path.parent_path().empty() ? "." : path.parent_path());
    lent = weights->lend(model, session_settings);
    session = Ort::Session(environment(), path.c_str(), session_settings, weights->packed());
  } else {
    session = Ort::Session(environment(), path.c_str(), session_settings);
  }
}

void OnnxRunner::Impl::describe_session() {
  Ort::AllocatorWithDefaultOptions allocator;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    inputs.push_back(describe(session.GetInputNameAllocated(i, allocator).get(), session.GetInputTypeInfo(i)));
  }
  for (size_t i = 0; i < session.GetOutputCount(); ++i) {
    outputs.push_back(describe(session.GetOutputNameAllocated(i, allocator).get(), session.GetOutputTypeInfo(i)));
  }
}

void OnnxRunner::Impl::check_names(const Inputs& given) const {
  std::vector<std::string> known;
  std::vector<std::string> missing;
  for (const OnnxValueInfo& info : inputs) {
    known.push_back(info.name);
    if (!given.contains(info.name)) {
      missing.push_back(info.name);
    }
  }
  ensure(missing.empty(), "inputs missing: {}; the model takes {}", fmt::join(missing, ", "), fmt::join(known, ", "));
  for (const auto& [name, tensor] : given) {
    ensure(std::find(known.begin(), known.end(), name) != known.end(), "the model has no input '{}'; it takes {}", name,
           fmt::join(known, ", "));
  }
}

NamedSizes OnnxRunner::Impl::check_inputs(const Inputs& given) const {
  check_names(given);
  NamedSizes names;
  for (const OnnxValueInfo& info : inputs) {
    InputCheck(info, given.at(info.name)).run(names, equal_names_equal_sizes);
  }
  return names;
}

void OnnxRunner::Impl::check_outputs(const Inputs& given) const {
  for (const auto& [name, tensor] : given) {
    const auto known = std::find_if(outputs.begin(), outputs.end(),
                                    [wanted = &name](const OnnxValueInfo& info) { return info.name == *wanted; });
    ensure(known != outputs.end(), "the model has no output '{}'", name);
    ensure(tensor.defined() && tensor.is_cpu() && tensor.is_contiguous(),
           "the tensor for output '{}' must be a contiguous CPU tensor", name);
    ensure(onnx_type(tensor.scalar_type()) == known->dtype,
           "the tensor for output '{}' has dtype {}, the model gives {}", name,
           type_name(onnx_type(tensor.scalar_type())), type_name(known->dtype));
  }
}

// ── Outputs where inputs are ──

void OnnxRunner::Impl::replace_in_place(const Inputs& given, Inputs& given_outputs) const {
  for (const auto& [input, output] : in_place.replaced) {
    const at::Tensor& tensor = given.at(input);
    if (tensor.is_cpu() && tensor.is_contiguous() && tensor.numel() > 0) {
      given_outputs.emplace(output, tensor);
    }
  }
}

// Gives, by output, how many places of it count. A prompt's cache is as long as the prompt: with room behind it, the
// operator would take memory for scores of the room, too. The first step behind it makes the buffer, and each step that
// finds it full one for twice the tokens, so that few tokens are copied often. On other devices the runtime copies what
// lies on the CPU, and there is no one buffer.
std::map<std::string, int64_t> OnnxRunner::Impl::grow_in_place(Inputs& given, Inputs& given_outputs,
                                                               const NamedSizes& sizes) const {
  std::map<std::string, int64_t> lengths;
  for (const GrowingCache& cache : in_place.caches) {
    const auto named = sizes.find(cache.length);
    const int64_t length = named == sizes.end() ? 0 : named->second.first;
    const at::Tensor& keys = given.at(cache.past[0]);
    if (!on_cpu || keys.numel() == 0 || length <= keys.size(2)) {
      continue;
    }
    std::array<at::Tensor, 2> buffers;
    std::transform(cache.past.begin(), cache.past.end(), buffers.begin(),
                   [&](const std::string& past) { return buffer_of(given.at(past)); });
    // The operator wants both as long.
    const bool fits = buffers[0].defined() && buffers[1].defined() && buffers[0].size(2) == buffers[1].size(2) &&
                      buffers[0].size(2) >= length;
    for (size_t i = 0; i < buffers.size(); ++i) {
      at::Tensor& past = given.at(cache.past[i]);
      past = fits ? buffers[i] : with_room(past, 2 * length);
      given_outputs.emplace(cache.present[i], past);
      lengths.emplace(cache.present[i], length);
    }
  }
  return lengths;
}

OnnxRunner::Outputs OnnxRunner::Impl::run(const Inputs& given, const Inputs& given_outputs) const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const OnnxValueInfo& info : inputs) {
    tensors.push_back(given.at(info.name).cpu().contiguous());
  }
  try {
    Ort::IoBinding binding(session);
    for (size_t i = 0; i < tensors.size(); ++i) {
      binding.BindInput(inputs[i].name.c_str(), as_ort_value(tensors[i]));
    }
    const Ort::MemoryInfo cpu = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    for (const OnnxValueInfo& info : outputs) {
      const auto given_output = given_outputs.find(info.name);
      if (given_output != given_outputs.end()) {
        binding.BindOutput(info.name.c_str(), as_ort_value(given_output->second));
      } else {
        binding.BindOutput(info.name.c_str(), cpu);
      }
    }
    session.Run(Ort::RunOptions(), binding);
    std::vector<Ort::Value> values = binding.GetOutputValues();
    Outputs results;
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string& name = outputs[i].name;
      const auto given_output = given_outputs.find(name);
      results.emplace_back(
          name, given_output != given_outputs.end() ? given_output->second : as_tensor(std::move(values[i]), name));
    }
    return results;
  } catch (const Ort::Exception& error) {
    throw Error(fmt::format("ONNX Runtime failed: {}", error.what()));
  }
}

OnnxRunner::OnnxRunner(const std::filesystem::path& path, const OnnxRunnerOptions& options)
    : impl_(std::make_unique<Impl>()) {
  OnnxModel model = read_model(path, {.keep_inline_bytes = 0});
  impl_->metadata = std::move(model.metadata);
  impl_->in_place = outputs_in_place(model.graph);
  try {
    check_external_data(model, path.parent_path());
    impl_->equal_names_equal_sizes = model.producer_name == "exporters.cpp" || model.producer_name == "pytorch";
    impl_->open(model, path, options);
    impl_->describe_session();
  } catch (const Error& error) {
    throw error.with_context(path.string());
  } catch (const Ort::Exception& error) {
    throw Error(fmt::format("ONNX Runtime {} cannot load {}: {}", onnxruntime_version(), path.string(), error.what()));
  }
}

OnnxRunner::~OnnxRunner() = default;
OnnxRunner::OnnxRunner(OnnxRunner&&) noexcept = default;
OnnxRunner& OnnxRunner::operator=(OnnxRunner&&) noexcept = default;

const std::vector<OnnxValueInfo>& OnnxRunner::inputs() const { return impl_->inputs; }
const std::vector<OnnxValueInfo>& OnnxRunner::outputs() const { return impl_->outputs; }
const OnnxMetadata& OnnxRunner::metadata() const { return impl_->metadata; }

OnnxRunner::Outputs OnnxRunner::run(const Inputs& inputs, const Inputs& outputs) const {
  impl_->check_inputs(inputs);
  impl_->check_outputs(outputs);
  return impl_->run(inputs, outputs);
}

OnnxRunner::Outputs OnnxRunner::run_in_place(Inputs inputs) const {
  const NamedSizes sizes = impl_->check_inputs(inputs);
  Inputs outputs;
  impl_->replace_in_place(inputs, outputs);
  const std::map<std::string, int64_t> lengths = impl_->grow_in_place(inputs, outputs, sizes);
  Outputs results = impl_->run(inputs, outputs);
  for (auto& [name, tensor] : results) {
    if (const auto length = lengths.find(name); length != lengths.end()) {
      tensor = first_places(tensor, length->second);
    }
  }
  return results;
}

std::string onnxruntime_version() { return Ort::GetVersionString(); }

}  // namespace exporters::onnx
