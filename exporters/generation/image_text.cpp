#include "exporters/generation/image_text.h"

#include "exporters/support/error.h"

#include <ATen/ops/eq.h>

#include <memory>

namespace exporters {
namespace {

at::Tensor with_images(const ImageTextStages& stages, const at::Tensor& input_ids, at::Tensor pixel_values,
                       const at::Tensor& embeddings) {
  const PyTree encoded = stages.image_encoder({{"pixel_values", std::move(pixel_values)}});
  const at::Tensor selected = models::select_image_features(stages.features, encoded.at("hidden_states"));
  const at::Tensor features = stages.projector({{"image_features", selected.contiguous()}}).tensor();
  const at::Tensor is_image = at::eq(input_ids, stages.features.image_token_id);
  models::check_image_tokens(is_image, features.size(0) * features.size(1));
  return models::merge_image_features(embeddings, is_image, features.to(embeddings.scalar_type()));
}

PyTree run(const ImageTextStages& stages, NamedInputs inputs) {
  at::Tensor input_ids;
  at::Tensor pixel_values;
  NamedInputs others;
  for (auto& [name, value] : inputs) {
    if (name == "input_ids") {
      input_ids = value.tensor();
    } else if (name == "pixel_values") {
      pixel_values = value.tensor();
    } else {
      others.emplace_back(std::move(name), std::move(value));
    }
  }
  inputs.clear();
  at::Tensor embeddings = stages.embed_tokens({{"input_ids", input_ids}}).tensor();
  if (pixel_values.defined()) {
    embeddings = with_images(stages, input_ids, std::move(pixel_values), embeddings);
  }
  others.emplace_back("inputs_embeds", std::move(embeddings));
  const PyTree output = stages.language_model.run(std::move(others));
  const at::Tensor last = output.at("last_hidden_state").tensor().slice(1, -1).contiguous();
  return PyTree::dict({{"logits", stages.lm_head({{"input", last}})}, {"cache", output.at("cache")}});
}

}  // namespace

GenerationStage image_text_prefill(ImageTextStages stages) {
  GenerationStage stage;
  stage.prepared_mask = stages.language_model.prepared_mask;
  const auto parts = std::make_shared<const ImageTextStages>(std::move(stages));
  stage.takes = [parts](std::string_view input) {
    return input == "input_ids" || input == "pixel_values" ||
           (input != "inputs_embeds" && parts->language_model.takes(input));
  };
  stage.run = [parts](NamedInputs inputs) { return run(*parts, std::move(inputs)); };
  return stage;
}

}  // namespace exporters
