#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters {

/// How the next token is chosen and when generation ends: transformers' generation_config.json, with its names and
/// defaults. Read it with read_generation_config.
struct GenerationConfig {
  std::optional<int64_t> max_new_tokens;
  std::optional<int64_t> max_length;  ///< with the prompt; max_new_tokens has precedence
  std::optional<int64_t> min_new_tokens;
  int64_t min_length = 0;

  bool do_sample = false;  ///< else greedy: the token with the highest score
  double temperature = 1.0;
  int64_t top_k = 50;  ///< 0: all
  double top_p = 1.0;
  std::optional<double> min_p;
  /// Where sampling starts; the same seed gives the same tokens, those of the reference after torch.manual_seed(seed).
  /// Not a field of the reference. Nothing: another one each time.
  std::optional<uint64_t> seed;

  double repetition_penalty = 1.0;
  int64_t no_repeat_ngram_size = 0;  ///< 0: any
  std::vector<int64_t> suppress_tokens;
  std::vector<int64_t> begin_suppress_tokens;
  std::optional<int64_t> forced_bos_token_id;
  std::vector<int64_t> forced_eos_token_id;

  std::vector<int64_t> eos_token_id;
  std::optional<int64_t> pad_token_id;
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> decoder_start_token_id;

  bool use_cache = true;      ///< says nothing about the tokens: generation has a cache in any case
  bool static_cache = false;  ///< cache_implementation is "static"
  std::optional<int64_t> max_cache_len;

  /// Of the model's config: what the default length stays within.
  std::optional<int64_t> max_position_embeddings;

  /// The fields that were set, as a generation_config.json: JSON text, without `seed`.
  std::string json = "{}";

  /// The length, prompt included, at which generation ends: the reference's rules. Throws Error when the prompt fills
  /// it.
  int64_t end_length(int64_t prompt_length) const;
};

/// Field name → value as text: JSON, else a string.
using GenerationSettings = std::vector<std::pair<std::string, std::string>>;

/// `settings`, over the fields of `generation_config_json`, or where that is empty over those that config.json holds,
/// as the reference reads older checkpoints. Both are JSON texts; either may be empty. Throws Error for a setting that
/// there is not (with near ones), for a value of another type or out of range, and for a field of either file whose
/// value would change the tokens in a way that is not implemented.
GenerationConfig read_generation_config(const std::string& generation_config_json, const std::string& config_json,
                                        const GenerationSettings& settings = {});

/// The same of the files in a checkpoint or export folder. generation_config.json may be missing.
GenerationConfig load_generation_config(const std::filesystem::path& folder, const GenerationSettings& settings = {});

/// Whether a field of that name exists.
bool is_generation_field(std::string_view name);

}  // namespace exporters
