#include "exporters/generation/config.h"

#include "exporters/models/config.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace exporters {
namespace {

using models::FieldRule;
using models::ModelConfig;

constexpr int64_t kDefaultNewTokens = 20;
constexpr std::string_view kSeed = "seed";

constexpr std::array kSupported{
    "max_new_tokens",
    "max_length",
    "min_new_tokens",
    "min_length",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "suppress_tokens",
    "bos_token_id",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "cache_implementation",
    "max_cache_len",
    "use_cache",
};

// What has no part in which tokens come out: outputs beside them, speed, methods that other fields would switch on.
constexpr std::array kWithoutEffect{
    "early_stopping",
    "length_penalty",
    "renormalize_logits",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "output_logits",
    "return_dict_in_generate",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "max_matching_ngram_size",
    "assistant_early_exit",
    "assistant_lookbehind",
    "target_lookbehind",
    "assistant_ensemble_weight",
    "speculation_type",
    "compile_config",
    "disable_compile",
    "prefill_chunk_size",
    "transformers_version",
    "diversity_penalty",
};

constexpr std::array kRules{
    FieldRule{"num_beams", "1", "beam search is"},
    FieldRule{"num_beam_groups", "1", "beam search in groups is"},
    FieldRule{"num_return_sequences", "1", "several sequences for one prompt are"},
    FieldRule{"guidance_scale", "1|1.0", "classifier-free guidance is"},
    FieldRule{"sequence_bias", "[]|{}", "a bias for token sequences is"},
    FieldRule{"encoder_repetition_penalty", "1|1.0", "a penalty for the encoder's tokens is"},
    FieldRule{"encoder_no_repeat_ngram_size", "0", "a ban of the encoder's n-grams is"},
    FieldRule{"bad_words_ids", "[]", "a list of banned words is"},
    FieldRule{"exponential_decay_length_penalty", "", "a growing score of the end is"},
    FieldRule{"remove_invalid_values", "false", "the replacement of NaN scores is"},
    FieldRule{"token_healing", "false", "token healing is"},
    FieldRule{"watermarking_config", "", "watermarks are"},
    FieldRule{"penalty_alpha", "0|0.0", "contrastive search is"},
    FieldRule{"dola_layers", "", "decoding by contrasting layers is"},
    FieldRule{"constraints", "[]", "constrained beam search is"},
    FieldRule{"force_words_ids", "[]", "constrained beam search is"},
    FieldRule{"max_time", "", "a time limit is"},
    FieldRule{"stop_strings", "[]", "stopping at strings, which needs a tokenizer, is"},
    FieldRule{"prompt_lookup_num_tokens", "0", "assisted generation is"},
    FieldRule{"use_mtp", "false", "prediction of several tokens at once is"},
    FieldRule{"low_memory", "false", "contrastive search is"},
    FieldRule{"cache_implementation", R"("dynamic"|"static"|"hybrid")", "this kind of cache is"},
    FieldRule{"cache_config", "{}", "a quantized cache is"},
};
// Those that count when tokens are drawn.
constexpr std::array kSamplingRules{
    FieldRule{"typical_p", "1|1.0", "locally typical sampling is"},
    FieldRule{"epsilon_cutoff", "0|0.0", "epsilon sampling is"},
    FieldRule{"eta_cutoff", "0|0.0", "eta sampling is"},
    FieldRule{"top_h", "", "top-h sampling is"},
};

std::vector<std::string> field_names() {
  std::vector<std::string> names(kSupported.begin(), kSupported.end());
  names.insert(names.end(), kWithoutEffect.begin(), kWithoutEffect.end());
  for (const FieldRule& rule : kRules) {
    names.emplace_back(rule.name);
  }
  for (const FieldRule& rule : kSamplingRules) {
    names.emplace_back(rule.name);
  }
  return names;
}

nlohmann::json object_of(const std::string& text, const std::string& where) {
  nlohmann::json value = text.empty() ? nlohmann::json::object() : parse_json(text, where);
  ensure(value.is_object(), "{} is no JSON object", where);
  return value;
}

// Older checkpoints hold the fields in config.json.
nlohmann::json fields_of_model_config(const std::string& text) {
  nlohmann::json fields = nlohmann::json::object();
  const nlohmann::json config = object_of(text, "config.json");
  for (const std::string& name : field_names()) {
    if (const auto field = config.find(name); name != kSeed && field != config.end() && !field->is_null()) {
      fields[name] = *field;
    }
  }
  return fields;
}

void apply(const GenerationSettings& settings, nlohmann::json& fields) {
  for (const auto& [name, text] : settings) {
    if (!is_generation_field(name)) {
      const std::string near = did_you_mean(name, field_names());
      throw Error(fmt::format("generation has no setting {}", quote(name)), {},
                  near.empty() ? fmt::format("Settings are: {}.", fmt::join(kSupported, ", ")) : near);
    }
    nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    fields[name] = value.is_discarded() ? nlohmann::json(text) : std::move(value);
  }
}

// One number or a list of them.
std::vector<int64_t> ids(const ModelConfig& fields, std::string_view name) {
  const JsonField field = JsonField(fields.json(), fields.where());
  const auto value = field.find(name);
  if (!value) {
    return {};
  }
  return value->is_array() ? value->as_ints() : std::vector<int64_t>{value->as_int()};
}

std::optional<int64_t> at_least(const ModelConfig& fields, std::string_view name, int64_t min) {
  const std::optional<int64_t> value = fields.optional_integer(name, std::nullopt);
  ensure(!value || *value >= min, "{} is {} in {}: it is at least {}", name, value.value_or(0), fields.where(), min);
  return value;
}

double between(const ModelConfig& fields, std::string_view name, double fallback, double min, double max) {
  const double value = fields.number(name, fallback);
  ensure(value >= min && value <= max, "{} is {} in {}: it is a number from {} to {}", name, value, fields.where(), min,
         max);
  return value;
}

double positive(const ModelConfig& fields, std::string_view name, std::string_view hint = {}) {
  const double value = fields.number(name, 1.0);
  if (!(value > 0)) {
    throw Error(fmt::format("{} is {} in {}: it is above 0", name, value, fields.where()), {}, std::string(hint));
  }
  return value;
}

void read_lengths(const ModelConfig& fields, GenerationConfig& config) {
  config.max_new_tokens = at_least(fields, "max_new_tokens", 1);
  config.max_length = at_least(fields, "max_length", 1);
  config.min_new_tokens = at_least(fields, "min_new_tokens", 0);
  config.min_length = at_least(fields, "min_length", 0).value_or(0);
}

void read_sampling(const ModelConfig& fields, GenerationConfig& config) {
  config.do_sample = fields.flag("do_sample", false);
  if (!config.do_sample) {
    return;
  }
  config.temperature = positive(fields, "temperature", "For the most likely token, set do_sample=false.");
  config.top_k = at_least(fields, "top_k", 0).value_or(config.top_k);
  config.top_p = between(fields, "top_p", 1.0, 0.0, 1.0);
  if (fields.has("min_p")) {
    config.min_p = between(fields, "min_p", 0.0, 0.0, 1.0);
  }
  if (const auto seed = at_least(fields, kSeed, 0)) {
    config.seed = static_cast<uint64_t>(*seed);
  }
}

void read_processors(const ModelConfig& fields, GenerationConfig& config) {
  config.repetition_penalty = positive(fields, "repetition_penalty");
  config.no_repeat_ngram_size = at_least(fields, "no_repeat_ngram_size", 0).value_or(0);
  config.suppress_tokens = ids(fields, "suppress_tokens");
  config.begin_suppress_tokens = ids(fields, "begin_suppress_tokens");
  config.forced_bos_token_id = at_least(fields, "forced_bos_token_id", 0);
  config.forced_eos_token_id = ids(fields, "forced_eos_token_id");
}

void read_special_tokens(const ModelConfig& fields, GenerationConfig& config) {
  config.eos_token_id = ids(fields, "eos_token_id");
  config.pad_token_id = fields.optional_integer("pad_token_id", std::nullopt);
  config.bos_token_id = fields.optional_integer("bos_token_id", std::nullopt);
  config.decoder_start_token_id = fields.optional_integer("decoder_start_token_id", std::nullopt);
}

void read_cache(const ModelConfig& fields, GenerationConfig& config) {
  config.use_cache = fields.flag("use_cache", true);
  config.static_cache = fields.string("cache_implementation", "dynamic") == "static";
  config.max_cache_len = at_least(fields, "max_cache_len", 1);
}

}  // namespace

bool is_generation_field(std::string_view name) {
  const std::vector<std::string> names = field_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

GenerationConfig read_generation_config(const std::string& generation_config_json, const std::string& config_json,
                                        const GenerationSettings& settings) {
  nlohmann::json values = generation_config_json.empty() ? fields_of_model_config(config_json)
                                                         : object_of(generation_config_json, "generation_config.json");
  apply(settings, values);
  const ModelConfig fields =
      ModelConfig::parse(values.dump(), settings.empty() ? "generation_config.json" : "the generation config");
  GenerationConfig config;
  read_lengths(fields, config);
  read_sampling(fields, config);
  read_processors(fields, config);
  read_special_tokens(fields, config);
  fields.check(kRules);
  if (config.do_sample) {
    fields.check(kSamplingRules);
  }
  read_cache(fields, config);
  if (!config_json.empty()) {
    const ModelConfig model = ModelConfig::parse(config_json);
    config.max_position_embeddings = model.optional_integer("max_position_embeddings", std::nullopt);
  }
  values.erase(std::string(kSeed));
  config.json = values.dump();
  return config;
}

GenerationConfig load_generation_config(const std::filesystem::path& folder, const GenerationSettings& settings) {
  const auto text = [&](const char* name) {
    return std::filesystem::exists(folder / name) ? read_json(folder / name).dump() : std::string();
  };
  return read_generation_config(text("generation_config.json"), text("config.json"), settings);
}

int64_t GenerationConfig::end_length(int64_t prompt_length) const {
  int64_t end = prompt_length + kDefaultNewTokens;
  if (max_new_tokens) {
    end = prompt_length + *max_new_tokens;
  } else if (max_length) {
    end = *max_length;
  } else if (max_position_embeddings) {
    end = std::min(end, *max_position_embeddings);
  }
  if (prompt_length >= end) {
    throw Error(fmt::format("the prompt has {} tokens, and generation ends at {} (max_length)", prompt_length, end), {},
                "Set max_new_tokens: it counts new tokens only.");
  }
  return end;
}

}  // namespace exporters
