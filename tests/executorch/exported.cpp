#include "tests/executorch/exported.h"

#include "exporters/executorch/report.h"
#include "tests/executorch/support.h"

namespace exporters::executorch::testing {

using exporters::testing::input_name;

namespace {

// Every axis of every input with the same bound.
std::map<std::string, int64_t> bounds(const Tensors& samples, int64_t largest) {
  std::map<std::string, int64_t> result;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (int64_t axis = 0; axis < samples[i].dim(); ++axis) {
      result[input_name(i) + "." + std::to_string(axis)] = largest;
    }
  }
  return result;
}

template <typename Visit>
void for_each_named_axis(const ExportSource& source, const NamedInputs& inputs, const Visit& visit) {
  for (const auto& [name, value] : inputs) {
    for (const auto& [path, tensor] : value.tensors()) {
      const auto axes = source.axis_labels.find(path.empty() ? name : name + "." + path);
      if (axes == source.axis_labels.end()) {
        continue;
      }
      for (const auto& [axis, label] : axes->second) {
        if (!label.name.empty()) {  // without a name the architecture fixes the axis
          visit(label, tensor.size(axis));
        }
      }
    }
  }
}

}  // namespace

void use_executorch() { [[maybe_unused]] static const bool registered = (register_executorch_format(), true); }

std::map<std::string, int64_t> largest_sizes(const ExportSource& source, const NamedInputs& inputs, int64_t largest) {
  std::map<std::string, int64_t> sizes;
  for_each_named_axis(source, inputs, [&](const AxisLabel& label, int64_t) {
    if (label.max > largest) {
      sizes[label.name] = largest;
    }
  });
  return sizes;
}

std::map<std::string, int64_t> named_sizes(const ExportSource& source, const NamedInputs& inputs) {
  std::map<std::string, int64_t> sizes;
  for_each_named_axis(source, inputs, [&](const AxisLabel& label, int64_t size) { sizes[label.name] = size; });
  return sizes;
}

Exported::Exported(TensorForward forward, const Tensors& samples, const ExportedOptions& options)
    : ExportedForward(std::move(forward)) {
  use_executorch();
  ExecutorchConfig config;
  config.dynamic = options.dynamic;
  config.backend = options.backend;
  config.quantize_linear = options.quantize_linear;
  for (const auto& [name, size] : bounds(samples, options.largest)) {
    const size_t dot = name.rfind('.');
    if (options.dynamic) {
      config.dynamic_shapes[name.substr(0, dot)].insert_or_assign(
          std::stoll(name.substr(dot + 1)),
          options.static_axes.contains(name) ? Dim::Static() : Dim::Auto(0, options.largest));
    }
  }
  const ExportedModel exported =
      ExecutorchExporter().export_model(source_of(forward_, options.parameters), named(samples), config);
  folder_ = scratch_folder();
  exported.save_pretrained(folder_);
  loaded_ = std::make_shared<const ExportedModel>(ExportedModel::from_pretrained(folder_));
  program_ = dynamic_cast<const ExecutorchProgram&>(*loaded_->component().program).program();
}

void Exported::expect_as_eager(const std::vector<Tensors>& inputs, double tolerance) const {
  expect_as_forward(inputs, tolerance, tolerance);
  keep_for_python(file(), inputs.back(), run(inputs.back()));
}

int64_t Exported::count(const std::string& op) const {
  const ProgramDescription description = describe(*program_);
  const auto found = description.ops.find(op);
  return found == description.ops.end() ? 0 : found->second;
}

}  // namespace exporters::executorch::testing
