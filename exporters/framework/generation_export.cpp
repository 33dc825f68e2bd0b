#include "exporters/framework/generation_export.h"

#include "exporters/framework/exported_model.h"
#include "exporters/framework/prepare_export.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/generation/empty_cache.h"
#include "exporters/support/error.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

ExportConfig& config_of(const GenerationExport& request, const std::string& component) {
  return request.component_configs.empty() ? *request.config : *request.component_configs.at(component);
}

const ExportConfig* decode_config(const GenerationExport& request) {
  const auto named = request.component_configs.find("decode");
  return named == request.component_configs.end() ? request.config : named->second;
}

bool is_dynamic(const ExportConfig* config) {
  const auto* dynamo = dynamic_cast<const DynamoConfig*>(config);
  return dynamo == nullptr || dynamo->dynamic;
}

void check_configs(const GenerationExport& request, const std::vector<GenerationComponent>& components) {
  if (request.component_configs.empty()) {
    ensure(request.config != nullptr, "an export for generation needs a config");
    return;
  }
  std::vector<std::string> names;
  std::vector<std::string> missing;
  for (const GenerationComponent& component : components) {
    names.push_back(component.name);
    if (!request.component_configs.contains(component.name)) {
      missing.push_back(component.name);
    }
  }
  ensure(missing.empty(), "configs by component lack {}: the components are {}", fmt::join(missing, ", "),
         fmt::join(names, ", "));
}

}  // namespace

bool merges(const HfExporter& exporter, const ExportConfig* config, const models::PreTrainedModel& model,
            std::optional<bool> wanted) {
  const bool can = is_dynamic(config) && model.encoder() == nullptr && model.image_text_parts() == nullptr;
  return wanted.value_or(can && config != nullptr && exporter.merges_generation(*config));
}

ExportSource export_source(const GenerationComponent& component, models::ForwardArgs flags) {
  if (takes_argument(*component.model, "use_cache")) {
    flags.set("use_cache", PyTree(true));
  }
  ExportSource source = export_source(component.model, std::move(flags), component.with_cache);
  for (auto& [input, axes] : source.axis_labels) {
    if (const auto first = axes.find(0); first != axes.end() && first->second.name == "batch") {
      first->second.name = component.batch;
    }
  }
  // A prepared mask is [batch, 1, queries, room of the static cache]: the model's own names are for [batch, keys]. The
  // room is fixed, there and in the cache; the encoder's keys have none.
  constexpr int64_t kRank = 4;
  constexpr int64_t kLengthAxis = 2;
  for (const auto& [name, value] : component.inputs) {
    if (name.ends_with("attention_mask") && value.is_tensor() && value.tensor().dim() == kRank) {
      source.axis_labels[name] = {{0, {"batch"}}, {1, {}}, {2, {"sequence"}}, {3, {}}};
    }
  }
  const PyTree* cache = find_input(component.inputs, "cache");
  const bool is_static = cache != nullptr && cache->context().find(":StaticLayer") != std::string::npos;
  for (const auto& [path, tensor] : is_static ? cache->tensors() : decltype(cache->tensors()){}) {
    if (tensor.dim() == kRank && !path.starts_with("cross_attention_cache.")) {
      source.axis_labels["cache." + path][kLengthAxis] = {};
    }
  }
  return source;
}

ExportedModel HfExporter::export_for_generation(const GenerationExport& request) const {
  const std::vector<GenerationComponent> parts =
      decompose_for_generation(request.model, request.sample_inputs, request.generation_config,
                               {.dynamic = is_dynamic(decode_config(request)),
                                .multi_token_decode = request.multi_token_decode,
                                .merged = merges(*this, decode_config(request), *request.model, request.merged)});
  check_configs(request, parts);
  std::vector<ComponentExport> components;
  for (const GenerationComponent& part : parts) {
    components.push_back({part.name, export_source(part, request.flags), part.inputs, &config_of(request, part.name)});
  }
  return export_components(components, request.model->config().json().dump(), request.generation_config.json);
}

}  // namespace exporters
