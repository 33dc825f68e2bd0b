#include "exporters/generation/empty_cache.h"

#include "exporters/models/cache.h"
#include "exporters/patching/scope.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters {
namespace {

using models::ForwardArgs;
using models::LayeredCache;
using models::PreTrainedModel;

constexpr int64_t kScoresRank = 3;
constexpr std::string_view kWindowLayer = "transformers.cache_utils:DynamicSlidingWindowLayer";

std::unique_ptr<models::CacheLayer> empty_layer(const JsonField& layer, std::optional<int64_t> max_cache_len) {
  const std::string& name = layer.at("p").as_string();
  if (name == "transformers.cache_utils:LinearAttentionLayer") {
    ensure(!max_cache_len, "the model's cache is a state of one size: leave cache_implementation out");
    return std::make_unique<models::LinearAttentionLayer>();
  }
  if (max_cache_len) {
    return std::make_unique<models::StaticLayer>(*max_cache_len);
  }
  if (name == kWindowLayer) {
    return std::make_unique<models::DynamicSlidingWindowLayer>(layer.at("s").at("sliding_window").as_int());
  }
  ensure(name == "transformers.cache_utils:DynamicLayer", "generation with cache layers of class {} is not supported",
         quote(name));
  return std::make_unique<models::DynamicLayer>();
}

std::unique_ptr<LayeredCache> empty_layers(const JsonField& cache, std::optional<int64_t> max_cache_len) {
  LayeredCache::Layers layers;
  for (const JsonField& layer : cache.at("s").at("layers").elements()) {
    layers.push_back(empty_layer(layer, max_cache_len));
  }
  if (max_cache_len) {
    return std::make_unique<models::StaticCache>(std::move(layers));
  }
  return std::make_unique<models::DynamicCache>(std::move(layers), /*adds_layers=*/false);
}

PyTree without_tokens(const TreeSpec& cache, std::optional<int64_t> max_cache_len) {
  const nlohmann::json context = parse_json(cache.context, "the cache's context");
  const JsonField root(context, "the cache's context");
  if (cache.type != "transformers.cache_utils:EncoderDecoderCache") {
    return empty_layers(root, max_cache_len)->to_tree();
  }
  const JsonField parts = root.at("s");
  return models::EncoderDecoderCache(empty_layers(parts.at("self_attention_cache"), max_cache_len),
                                     empty_layers(parts.at("cross_attention_cache"), {}))
      .to_tree();
}

// Null where there is none.
const TreeSpec* child(const TreeSpec& output, std::string_view key) {
  if (output.is_leaf()) {
    return nullptr;
  }
  const std::vector<std::string> names = output.child_names();
  const auto found = std::find(names.begin(), names.end(), key);
  return found == names.end() ? nullptr : &output.children[static_cast<size_t>(found - names.begin())];
}

[[noreturn]] void fail_to_generate(const std::string& model) {
  throw Error(model + " cannot generate: its forward does not give scores of a next token and a cache", {},
              "Take the architecture with a language-model head, such as …ForCausalLM.");
}

}  // namespace

bool has_windows(const PyTree& cache) { return cache.context().find(kWindowLayer) != std::string::npos; }

bool takes_argument(const PreTrainedModel& model, std::string_view name) {
  const std::vector<models::ArgumentSpec> specs = model.arguments();
  return std::any_of(specs.begin(), specs.end(), [&](const models::ArgumentSpec& spec) {
    return spec.name == name && spec.kind != models::ArgumentSpec::Kind::kRefused;
  });
}

std::vector<TracedState> traced_state(const PreTrainedModel& model) {
  std::vector<TracedState> result;
  for (const models::StateEntry& entry : model.state()) {
    result.push_back({entry.name, entry.tensor, entry.is_buffer, entry.persistent, entry.source});
  }
  return result;
}

ExportedProgram traced_forward(const std::shared_ptr<const PreTrainedModel>& model, const NamedInputs& inputs,
                               bool dynamic) {
  TraceRequest request;
  request.module_class = model->class_name();
  request.state = traced_state(*model);
  request.inputs = inputs;
  request.dynamic = dynamic;
  request.forward = [&model, cached = takes_argument(*model, "use_cache")](const NamedInputs& given) {
    ForwardArgs args;
    for (const auto& [name, value] : given) {
      args.set(name, value);
    }
    if (cached) {
      args.set("use_cache", PyTree(true));
    }
    return model->forward(args);
  };
  const PatchScope patches = apply_patches("dynamo");
  return trace(request);
}

void check_generates(const PyTree& output, const std::string& model) {
  const PyTree* logits = output.is_leaf() ? nullptr : output.find("logits");
  const bool scores = logits != nullptr && logits->is_tensor() && logits->tensor().dim() == kScoresRank;
  if (!scores || output.find("cache") == nullptr) {
    fail_to_generate(model);
  }
}

PyTree empty_cache(const std::shared_ptr<const PreTrainedModel>& model, std::optional<int64_t> max_cache_len) {
  if (!takes_argument(*model, "cache")) {
    fail_to_generate(model->class_name());
  }
  NamedInputs inputs;
  for (const auto& [name, value] : model->sample_inputs({})) {
    inputs.emplace_back(name, value);
  }
  const ExportedProgram program = traced_forward(model, inputs, /*dynamic=*/true);
  const TreeSpec* cache = child(program.out_spec, "cache");
  if (cache == nullptr || child(program.out_spec, "logits") == nullptr) {
    fail_to_generate(model->class_name());
  }
  return without_tokens(*cache, max_cache_len);
}

}  // namespace exporters
