#include "exporters/framework/pretrained_source.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters {
namespace {

std::vector<TracedState> traced_state(const models::PreTrainedModel& model) {
  std::vector<TracedState> result;
  for (const models::StateEntry& entry : model.state()) {
    result.push_back({entry.name, entry.tensor, entry.is_buffer, entry.persistent, entry.source});
  }
  return result;
}

AxisLabels axis_labels(const models::PreTrainedModel& model, bool with_cache) {
  AxisLabels result;
  for (const auto& [input, axes] : model.axis_names(with_cache)) {
    for (const auto& [axis, name] : axes) {
      result[input][axis] = {name.name, name.max};
    }
  }
  return result;
}

IndexLimits index_limits(const models::PreTrainedModel& model) {
  IndexLimits result;
  for (const models::ArgumentSpec& spec : model.arguments()) {
    if (spec.kind == models::ArgumentSpec::Kind::kIndices && spec.limit > 0) {
      result[spec.name] = {spec.limit, spec.note};
    }
  }
  return result;
}

bool has_flag(const models::PreTrainedModel& model, std::string_view name) {
  const std::vector<models::ArgumentSpec> specs = model.arguments();
  return std::any_of(specs.begin(), specs.end(), [name](const models::ArgumentSpec& spec) {
    return spec.name == name && spec.kind == models::ArgumentSpec::Kind::kFlag;
  });
}

Forward forward_of(std::shared_ptr<const models::PreTrainedModel> model, models::ForwardArgs flags) {
  return [model = std::move(model), flags = std::move(flags)](const NamedInputs& inputs) {
    models::ForwardArgs args = flags;
    for (const auto& [name, value] : inputs) {
      args.set(name, value);
    }
    return model->forward(args);
  };
}

}  // namespace

ExportSource export_source(std::shared_ptr<const models::PreTrainedModel> model, models::ForwardArgs flags,
                           bool with_cache) {
  ExportSource source;
  source.architecture = model->class_name();
  source.state = traced_state(*model);
  source.axis_labels = axis_labels(*model, with_cache);
  source.index_limits = index_limits(*model);
  source.config_json = model->config().json().dump();
  source.forward = forward_of(model, flags);
  source.with_output_flags = [model = std::move(model), flags = std::move(flags)](const NamedInputs& output_flags) {
    models::ForwardArgs all = flags;
    for (const auto& [name, value] : output_flags) {
      if (has_flag(*model, name)) {
        all.set(name, value);
      }
    }
    return forward_of(model, std::move(all));
  };
  return source;
}

}  // namespace exporters
