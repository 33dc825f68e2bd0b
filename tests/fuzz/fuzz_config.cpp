// Any bytes as a config.json: an Error that names the file, or a config whose getters give values within their bounds.
#include "exporters/models/config.h"
#include "exporters/support/error.h"
#include "tests/fuzz/check.h"

#include <nlohmann/json.hpp>

namespace {

using exporters::models::ModelConfig;

template <typename Getter>
void get(Getter&& getter) {
  try {
    getter();
  } catch (const exporters::Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).find("fuzzed.json") != std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  get([&] {
    const ModelConfig config = ModelConfig::parse(text, "fuzzed.json");
    get([&] {
      const int64_t layers = config.size("num_hidden_layers", 12);
      FUZZ_CHECK(layers >= 1 && layers <= ModelConfig::kMaxSize);
    });
    get([&] { config.number("layer_norm_eps", 1e-12); });
    get([&] { config.flag("tie_word_embeddings", true); });
    get([&] { config.string("hidden_act", "gelu"); });
    get([&] { config.optional_integer("pad_token_id", 0); });
    get([&] { FUZZ_CHECK(config.num_labels() >= 0); });
    get([&] { config.id2label(); });
    get([&] { config.dtype(); });
    get([&] { config.check({}); });
  });
  return 0;
}
