#include "exporters/generation/stages.h"

#include "exporters/generation/empty_cache.h"
#include "exporters/models/registry.h"

#include <algorithm>

namespace exporters {
namespace {

using models::PreTrainedModel;

GenerationStage forward_stage(const std::shared_ptr<const PreTrainedModel>& model) {
  GenerationStage stage;
  stage.takes = [model](std::string_view input) { return takes_argument(*model, input); };
  stage.run = [model, keeps_last = takes_argument(*model, "logits_to_keep"),
               cached = takes_argument(*model, "use_cache")](NamedInputs inputs) {
    models::ForwardArgs args;
    for (auto& [name, value] : inputs) {
      args.set(name, std::move(value));
    }
    inputs.clear();
    if (keeps_last) {
      args.set("logits_to_keep", PyTree(int64_t{1}));
    }
    if (cached) {
      args.set("use_cache", PyTree(true));
    }
    return (*model)(args);
  };
  return stage;
}

}  // namespace

GenerationStages eager_stages(std::shared_ptr<const PreTrainedModel> model, const GenerationConfig& config) {
  GenerationStages stages;
  stages.decode = forward_stage(model);
  stages.cache_boundary = models::cache_boundary(model->config());
  stages.keeps_state = models::keeps_state(model->config());
  if (const PreTrainedModel* encoder = model->encoder()) {
    stages.is_encoder_decoder = true;
    stages.encoder = forward_stage(std::shared_ptr<const PreTrainedModel>(model, encoder));
  }
  if (config.static_cache) {
    // A cache that grows is made by the model itself.
    stages.empty_cache = [model, max_cache_len = config.max_cache_len](int64_t, int64_t tokens) {
      return empty_cache(model, std::max(tokens, max_cache_len.value_or(tokens)));
    };
  }
  return stages;
}

}  // namespace exporters
