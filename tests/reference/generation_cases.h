#pragma once

#include "exporters/generation/config.h"
#include "exporters/trace/trace.h"
#include "exporters/weights/safetensors.h"
#include "tests/reference/folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace exporters::testing {

/// One call of transformers' generate, as tests/reference/make_generation.py records it.
struct GenerationCase {
  std::string name;  ///< "greedy"
  GenerationSettings settings;
  NamedInputs inputs;
  at::Tensor sequences;
};

inline GenerationSettings settings_of(const nlohmann::json& fields) {
  GenerationSettings settings;
  for (const auto& [name, value] : fields.items()) {
    settings.emplace_back(name, value.dump());
  }
  return settings;
}

/// Of one checkpoint: those in its folder, or those that make_generation.py wrote for it.
inline std::vector<GenerationCase> generation_cases(const std::filesystem::path& checkpoint) {
  const auto family = checkpoint.parent_path().filename();
  const std::filesystem::path own = checkpoint / "generation.safetensors";
  const auto file =
      SafetensorsFile::open(std::filesystem::exists(own) ? own
                                                         : reference_folder("generation") / family /
                                                               (checkpoint.filename().string() + ".safetensors"));
  std::vector<GenerationCase> cases;
  const auto settings_by_case = nlohmann::json::parse(file->metadata().at("cases"));
  for (const auto& [name, settings] : settings_by_case.items()) {
    GenerationCase recorded{name, settings_of(settings), {}, file->tensor(name + ".sequences")};
    for (const SafetensorsEntry& entry : file->entries()) {
      if (entry.name.starts_with(name + ".") && !entry.name.ends_with(".sequences")) {
        recorded.inputs.emplace_back(entry.name.substr(name.size() + 1), file->tensor(entry));
      }
    }
    cases.push_back(std::move(recorded));
  }
  return cases;
}

inline GenerationCase generation_case(const std::filesystem::path& checkpoint, const std::string& name) {
  for (GenerationCase& each : generation_cases(checkpoint)) {
    if (each.name == name) {
      return each;
    }
  }
  throw std::runtime_error("no case " + name);
}

/// The float32 checkpoints of a family whose class has one of these words, one for each of its configs, sorted.
inline std::vector<std::filesystem::path> first_checkpoints(const std::filesystem::path& folder,
                                                            const std::vector<std::string>& words) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool wanted = std::any_of(words.begin(), words.end(),
                                    [&](const std::string& word) { return name.find(word) != std::string::npos; });
    if (wanted && name.ends_with("_0")) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The encoders that make_causal_encoders.py writes as decoders.
inline constexpr const char* kCausalEncoders[] = {"bert", "roberta", "xlm-roberta", "camembert", "electra"};

/// Language models of a decoder-only family, or of an encoder's as a decoder.
inline std::vector<std::filesystem::path> language_models(const std::string& family) {
  const bool is_encoder =
      std::find(std::begin(kCausalEncoders), std::end(kCausalEncoders), family) != std::end(kCausalEncoders);
  return first_checkpoints(family == "mamba" ? reference_folder(family)
                                             : reference_folder(is_encoder ? "causal_encoders" : "decoders") / family,
                           {"ForCausalLM", "LMHead"});
}

/// Encoder-decoder models that generate.
inline std::vector<std::filesystem::path> conditional_generators(const std::string& family) {
  return first_checkpoints(reference_folder("seq2seq") / family, {"ForConditionalGeneration", "MTModel"});
}

/// Models of images and text that generate.
inline std::vector<std::filesystem::path> image_text_generators() {
  return first_checkpoints(reference_folder("llava"), {"ForConditionalGeneration"});
}

/// Whether its tables of positions are shorter than the tests' prompts: eagerly such a table grows (m2m_100), an export
/// has the table of the checkpoint and refuses longer prompts.
inline bool outgrows_positions(const std::filesystem::path& checkpoint) {
  return checkpoint.filename().string().find("_short_") != std::string::npos;
}

/// The families that make_seq2seq.py writes.
inline constexpr const char* kSeq2SeqFamilies[] = {"t5",     "mt5",     "bart",     "mbart",
                                                   "marian", "m2m_100", "nllb-moe", "whisper"};

/// The decoder-only families that generate: those that make_decoders.py writes, and mamba.
inline constexpr const char* kDecoderFamilies[] = {
    "llama",       "mistral", "qwen2",   "qwen3",     "phi3",       "gemma",   "gemma2",
    "gemma3_text", "olmo2",   "granite", "smollm3",   "starcoder2", "gpt2",    "gpt_neox",
    "opt",         "phi",     "mixtral", "qwen2_moe", "qwen3_moe",  "gpt_oss", "mamba"};

/// The family of a test as gtest takes it.
inline std::string test_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace exporters::testing
