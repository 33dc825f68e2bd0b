#include "tests/executorch/exported.h"

#include "exporters/executorch/report.h"
#include "tests/executorch/support.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

#include <sstream>

namespace exporters::executorch::testing {

using exporters::testing::input_name;
using exporters::testing::on_named_inputs;

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

}  // namespace

void use_executorch() { [[maybe_unused]] static const bool registered = (register_executorch_format(), true); }

std::map<std::string, int64_t> largest_sizes(const ExportSource& source, const NamedInputs& inputs, int64_t largest) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, value] : inputs) {
    for (const auto& [path, tensor] : value.tensors()) {
      const auto axes = source.axis_labels.find(path.empty() ? name : name + "." + path);
      if (axes == source.axis_labels.end()) {
        continue;
      }
      for (const auto& [axis, label] : axes->second) {
        if (!label.name.empty() && label.max > largest) {  // without a name the architecture fixes the axis
          sizes[label.name] = largest;
        }
      }
    }
  }
  return sizes;
}

ExportSource source_of(const TensorForward& forward, const std::map<std::string, at::Tensor>& parameters) {
  ExportSource result;
  result.architecture = "Test";
  for (const auto& [name, tensor] : parameters) {
    result.state.push_back({name, tensor});
  }
  result.forward = on_named_inputs(forward);
  return result;
}

Exported::Exported(TensorForward forward, const Tensors& samples, const ExportedOptions& options)
    : forward_(std::move(forward)) {
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

Tensors Exported::run(const Tensors& inputs) const {
  Tensors outputs;
  for (const auto& [path, tensor] : (*loaded_)(named(inputs)).tensors()) {
    outputs.push_back(tensor);
  }
  return outputs;
}

void Exported::expect_as_eager(const std::vector<Tensors>& inputs, double tolerance) const {
  for (const Tensors& each : inputs) {
    Tensors copies;
    for (const at::Tensor& tensor : each) {
      copies.push_back(tensor.clone());
    }
    const Tensors expected = forward_(copies);
    const Tensors actual = run(each);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      std::ostringstream what;
      what << "output " << i << " of inputs like " << each[0] << "\nis " << actual[i] << "\nnot " << expected[i];
      ASSERT_EQ(actual[i].scalar_type(), expected[i].scalar_type()) << what.str();
      ASSERT_EQ(actual[i].sizes(), expected[i].sizes()) << what.str();
      const bool exact = !c10::isFloatingType(expected[i].scalar_type());
      EXPECT_TRUE(exact ? at::equal(actual[i], expected[i])
                        : at::allclose(actual[i], expected[i], tolerance, tolerance, /*equal_nan=*/true))
          << what.str();
    }
  }
  keep_for_python(file(), inputs.back(), run(inputs.back()));
}

int64_t Exported::count(const std::string& op) const {
  const ProgramDescription description = describe(*program_);
  const auto found = description.ops.find(op);
  return found == description.ops.end() ? 0 : found->second;
}

}  // namespace exporters::executorch::testing
