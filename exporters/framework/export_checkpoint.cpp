#include "exporters/framework/export_checkpoint.h"

#include "exporters/framework/pretrained_source.h"
#include "exporters/framework/registry.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <set>

namespace exporters {
namespace {

int64_t parse_bound(std::string_view text, const std::string& whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw Error("'" + whole + "' is no range", {}, "Write MIN:MAX, for example 1:64; either side may be left out.");
  }
  return value;
}

// Every axis that carries the label becomes the one named Dim.
DynamicShapes named_axes(const AxisLabels& labels, const std::map<std::string, Range>& wanted) {
  DynamicShapes shapes;
  std::set<std::string> used;
  std::set<std::string> known;
  for (const auto& [input, axes] : labels) {
    for (const auto& [axis, label] : axes) {
      known.insert(label.name);
      const auto range = wanted.find(label.name);
      if (range != wanted.end()) {
        used.insert(label.name);
        shapes[input].insert_or_assign(axis, Dim::named(label.name, range->second.min, range->second.max));
      }
    }
  }
  for (const auto& [name, range] : wanted) {
    if (!used.contains(name)) {
      std::string names;
      for (const std::string& each : known) {
        names += (names.empty() ? "" : ", ") + each;
      }
      throw Error("no input of this model has an axis '" + name + "'", {}, "Axes are: " + names + ".");
    }
  }
  return shapes;
}

// The usual sample, moved into the ranges that were asked for.
models::SampleSize sample_size(const std::map<std::string, Range>& axes) {
  models::SampleSize size;
  for (const auto& [name, slot] : {std::pair("batch", &size.batch), std::pair("sequence", &size.sequence)}) {
    if (const auto range = axes.find(name); range != axes.end()) {
      *slot = std::clamp(*slot, range->second.min, range->second.max);
    }
  }
  return size;
}

// Labels of inputs that are not among the samples say nothing about this export.
AxisLabels labels_of(const ExportSource& source, const NamedInputs& inputs) {
  AxisLabels labels;
  for (const auto& [name, value] : inputs) {
    if (const auto found = source.axis_labels.find(name); found != source.axis_labels.end()) {
      labels.insert(*found);
    }
  }
  return labels;
}

}  // namespace

Range parse_range(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    const int64_t size = parse_bound(text, text);
    return {size, size};
  }
  Range range{1, Range::kMax};
  if (colon > 0) {
    range.min = parse_bound(std::string_view(text).substr(0, colon), text);
  }
  if (colon + 1 < text.size()) {
    range.max = parse_bound(std::string_view(text).substr(colon + 1), text);
  }
  ensure(range.min <= range.max, "the range {} is empty", text);
  return range;
}

c10::ScalarType parse_dtype(const std::string& text) {
  static const std::map<std::string, c10::ScalarType> kNames = {{"float32", c10::kFloat},     {"fp32", c10::kFloat},
                                                                {"float16", c10::kHalf},      {"fp16", c10::kHalf},
                                                                {"bfloat16", c10::kBFloat16}, {"bf16", c10::kBFloat16}};
  const auto found = kNames.find(text);
  if (found == kNames.end()) {
    throw Error("'" + text + "' is no dtype for a model", {}, "Use float32, float16 or bfloat16.");
  }
  return found->second;
}

ExportedModel export_checkpoint(const CheckpointExport& request) {
  const HfExporter& exporter = exporter_for(request.format);
  const std::unique_ptr<ExportConfig> config = exporter.make_config();
  config->set("dynamic", request.dynamic ? "true" : "false");
  for (const auto& [field, value] : request.settings) {
    config->set(field, value);
  }

  models::LoadOptions options;
  options.task = request.task;
  options.dtype = request.dtype;
  const std::shared_ptr<const models::PreTrainedModel> model = models::load(request.checkpoint, options);
  models::ForwardArgs flags;
  for (const auto& [name, value] : request.flags) {
    flags.set(name, value);
  }
  const ExportSource source =
      export_source(model, read_json(request.checkpoint / "config.json").dump(), std::move(flags));

  NamedInputs inputs = request.sample_inputs;
  if (inputs.empty()) {
    for (const auto& [name, value] : model->sample_inputs(sample_size(request.axes))) {
      inputs.emplace_back(name, value);
    }
  }
  if (auto* dynamo = dynamic_cast<DynamoConfig*>(config.get()); dynamo != nullptr && !request.axes.empty()) {
    for (auto& [input, axes] : named_axes(labels_of(source, inputs), request.axes)) {
      for (auto& [axis, dim] : axes) {
        dynamo->dynamic_shapes[input].emplace(axis, dim);
      }
    }
  }
  return exporter.export_model(source, inputs, *config);
}

}  // namespace exporters
