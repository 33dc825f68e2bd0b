#include "exporters/framework/pretrained_source.h"

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

}  // namespace

ExportSource export_source(std::shared_ptr<const models::PreTrainedModel> model, std::string config_json,
                           models::ForwardArgs flags, bool with_cache) {
  ExportSource source;
  source.architecture = model->class_name();
  source.state = traced_state(*model);
  source.axis_labels = axis_labels(*model, with_cache);
  source.config_json = std::move(config_json);
  source.forward = [model = std::move(model), flags = std::move(flags)](const NamedInputs& inputs) {
    models::ForwardArgs args = flags;
    for (const auto& [name, value] : inputs) {
      args.set(name, value);
    }
    return model->forward(args);
  };
  return source;
}

}  // namespace exporters
