// Generation by the components of an export: what the loop calls, and the cache that it begins with.
#include "exporters/framework/exported_model.h"
#include "exporters/framework/registry.h"
#include "exporters/generation/image_text.h"
#include "exporters/graph/dtype.h"
#include "exporters/models/registry.h"
#include "exporters/support/error.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace exporters {
namespace {

using nlohmann::json;

constexpr std::string_view kCache = "cache";

bool has_component(const ExportedModel& model, std::string_view name) {
  return std::any_of(model.components().begin(), model.components().end(),
                     [&](const auto& each) { return each.first == name; });
}

bool is_constant(const ExportMetadata& metadata, std::string_view name) {
  return std::any_of(metadata.in_constants.begin(), metadata.in_constants.end(),
                     [&](const auto& each) { return each.first == name; });
}

// A static cache comes with a mask over its room.
bool has_prepared_mask(const ExportMetadata& metadata) {
  constexpr int64_t kPreparedRank = 4;
  return std::any_of(metadata.kwargs.begin(), metadata.kwargs.end(), [](const ExportMetadata::Kwarg& kwarg) {
    const json description = json::parse(kwarg.description, nullptr, /*allow_exceptions=*/false);
    return kwarg.name.ends_with("attention_mask") && description.is_object() &&
           description.value("rank", 0) == kPreparedRank;
  });
}

// The loop takes the cache from a stage's result to the next stage: here there is nothing in it.
PyTree with_empty_cache(const PyTree& output) {
  std::vector<std::pair<std::string, PyTree>> fields;
  const std::vector<std::string> names = output.spec().keys();
  for (size_t i = 0; i < names.size(); ++i) {
    fields.emplace_back(names[i], output.children()[i]);
  }
  fields.emplace_back(kCache, PyTree::tuple({}));
  return PyTree::object(output.type(), std::move(fields));
}

GenerationStage stage_of(const std::shared_ptr<const ExportedModel>& model, const std::string& name) {
  const ExportMetadata& metadata = model->component(name).metadata;
  GenerationStage stage;
  stage.takes = [&metadata](std::string_view input) { return metadata.takes(input) && !is_constant(metadata, input); };
  const bool keeps_cache = exporter_for(model->export_format()).keeps_cache(metadata);
  stage.run = [model, name, keeps_cache](NamedInputs inputs) {
    PyTree output = model->run_in_place(name, std::move(inputs));
    return keeps_cache ? with_empty_cache(output) : output;
  };
  stage.prepared_mask = has_prepared_mask(metadata);
  return stage;
}

// ── Images and text: the parts that a prompt goes through ──

std::function<PyTree(NamedInputs)> part_of(const std::shared_ptr<const ExportedModel>& model, const std::string& name) {
  if (!has_component(*model, name)) {
    throw Error("this export has no component '" + name + "', which a prompt of images and text goes through", {},
                "Export with export_for_generation (hfx export --generation).");
  }
  return [model, name](NamedInputs inputs) { return model->run(name, inputs); };
}

GenerationStage image_text_stage(const std::shared_ptr<const ExportedModel>& model) {
  const auto config = model->config();
  ensure(config.has_value(), "this export has no config.json, which says where images are among the tokens");
  ImageTextStages stages;
  stages.image_encoder = part_of(model, "image_encoder");
  stages.projector = part_of(model, "multi_modal_projector");
  stages.embed_tokens = part_of(model, "embed_tokens");
  stages.language_model = stage_of(model, "language_model");
  stages.lm_head = part_of(model, "lm_head");
  stages.features = models::read_image_features(*config);
  return image_text_prefill(std::move(stages));
}

// ── The cache that generation begins with ──

// Null where the call takes no cache.
const TreeSpec* cache_spec(const ExportMetadata& metadata) {
  if (metadata.in_spec.children.size() != 2) {
    return nullptr;
  }
  const TreeSpec& call = metadata.in_spec.children[1];
  const std::vector<std::string> names = call.keys();
  const auto found = std::find(names.begin(), names.end(), kCache);
  return found == names.end() ? nullptr : &call.children[static_cast<size_t>(found - names.begin())];
}

// The first value of that name, wherever it is.
const json* find_deep(const json& value, const std::string& name) {
  if (value.is_object() && value.contains(name)) {
    return &value.at(name);
  }
  for (const json& each : value) {
    if (each.is_structured()) {
      if (const json* found = find_deep(each, name)) {
        return found;
      }
    }
  }
  return nullptr;
}

std::optional<int64_t> cache_number(const TreeSpec& cache, const std::string& name) {
  const json context = json::parse(cache.context, nullptr, /*allow_exceptions=*/false);
  const json* found = context.is_discarded() ? nullptr : find_deep(context, name);
  return found != nullptr && found->is_number_integer() ? std::optional(found->get<int64_t>()) : std::nullopt;
}

std::optional<int64_t> number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Makes a cache without tokens for a component: keys and values of length 0, or the room of a static cache.
class EmptyCache {
 public:
  EmptyCache(const HfExporter& exporter, const ExportedComponent& component, TreeSpec spec)
      : spec_(std::move(spec)),
        window_(cache_number(spec_, "sliding_window")),
        room_(cache_number(spec_, "max_cache_len").value_or(0)) {
    if (spec_.leaf_count() == 0) {
      return;
    }
    for (const ValueDescription& input : exporter.describe_program(*component.program).inputs) {
      for (const std::string_view prefix : {"input.cache.", "cache."}) {
        if (input.name.starts_with(prefix)) {
          leaves_.emplace(input.name.substr(prefix.size()), input);
          break;
        }
      }
    }
  }

  PyTree operator()(int64_t batch) const {
    std::vector<PyTree::Leaf> leaves;
    for (const std::string& path : spec_.leaf_paths()) {
      leaves.emplace_back(leaf(path, batch));
    }
    return PyTree::unflatten(spec_, std::move(leaves));
  }

 private:
  at::Tensor leaf(const std::string& path, int64_t batch) const {
    const auto found = leaves_.find(path);
    if (found == leaves_.end()) {
      return at::zeros({}, at::kLong);  // the program does without it
    }
    const auto dtype = dtype_from_name(found->second.dtype);
    ensure(dtype.has_value(), "'{}' of the cache has the dtype {}, which torch does not have", path,
           found->second.dtype);
    // The reference keeps the window of a layer as a tensor beside its keys.
    if (path.ends_with("_sliding_window_tensor") && window_) {
      return at::full({}, *window_, *dtype);
    }
    std::vector<int64_t> sizes;
    for (const std::string& dim : found->second.dims) {
      const int64_t open = sizes.empty() ? batch : room_;  // only batch and length can be dynamic
      sizes.push_back(number(dim).value_or(open));
    }
    return at::zeros(sizes, *dtype);
  }

  TreeSpec spec_;
  std::optional<int64_t> window_;
  int64_t room_;  // of a static cache
  std::map<std::string, ValueDescription> leaves_;
};

void read_cache(const ExportedModel& model, const std::string& first, GenerationStages& stages) {
  const ExportedComponent& component = model.component(first);
  const HfExporter& exporter = exporter_for(model.export_format());
  const TreeSpec* spec = cache_spec(component.metadata);
  if (spec == nullptr) {
    if (exporter.keeps_cache(component.metadata)) {
      stages.max_cache_len =
          read_generation_config(model.generation_config_json(), model.config_json(), {}).max_cache_len;
    }
    return;
  }
  stages.max_cache_len = cache_number(*spec, "max_cache_len");
  stages.empty_cache = [cache = EmptyCache(exporter, component, *spec)](int64_t batch, int64_t) {
    return cache(batch);
  };
}

GenerationStages exported_stages(const std::shared_ptr<const ExportedModel>& model) {
  GenerationStages stages;
  if (!has_component(*model, "decode")) {
    throw Error("this export has no component 'decode', which generation needs", {},
                "Export with export_for_generation (hfx export --generation).");
  }
  stages.decode = stage_of(model, "decode");
  if (has_component(*model, "prefill")) {
    stages.prefill = stage_of(model, "prefill");
  }
  if (has_component(*model, "language_model")) {
    stages.prefill = image_text_stage(model);
  }
  if (has_component(*model, "encoder")) {
    stages.encoder = stage_of(model, "encoder");
  }
  stages.is_encoder_decoder = stages.decode.takes("decoder_input_ids");
  if (const auto config = model->config()) {
    stages.cache_boundary = models::cache_boundary(*config);
    stages.keeps_state = models::keeps_state(*config);
  }
  for (const char* first : {"prefill", "language_model", "decode"}) {
    if (has_component(*model, first)) {
      read_cache(*model, first, stages);
      break;
    }
  }
  return stages;
}

}  // namespace

Generator ExportedModel::generator(const GenerationSettings& settings) const {
  return Generator(exported_stages(std::make_shared<const ExportedModel>(*this)),
                   read_generation_config(generation_config_json_, config_json_, settings));
}

at::Tensor ExportedModel::generate(const NamedInputs& inputs, const GenerationSettings& settings,
                                   const TokenCallback& on_tokens) const {
  return generator(settings).generate(inputs, on_tokens);
}

}  // namespace exporters
