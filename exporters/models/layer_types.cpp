#include "exporters/models/layer_types.h"

#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <string>

namespace exporters::models {

std::vector<bool> sliding_layers(const ModelConfig& config, size_t layers,
                                 const std::function<bool(size_t)>& otherwise) {
  std::vector<bool> sliding(layers);
  for (size_t i = 0; i < layers; ++i) {
    sliding[i] = otherwise(i);
  }
  const auto field = JsonField(config.json(), config.where()).find("layer_types");
  if (!field) {
    return sliding;
  }
  const std::vector<std::string> types = field->as_strings();
  if (types.size() != layers) {
    field->fail_here(fmt::format("has {} entries, the model has {} layers", types.size(), layers));
  }
  for (size_t i = 0; i < layers; ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention") {
      field->fail_here(fmt::format("names {} for layer {}", quote(types[i]), i),
                       "Supported are: full_attention, sliding_attention");
    }
    sliding[i] = types[i] == "sliding_attention";
  }
  return sliding;
}

}  // namespace exporters::models
