#include "exporters/models/decoder.h"

#include "exporters/models/registry.h"
#include "exporters/weights/safetensors.h"
#include "tests/models/decoder_recorded.h"
#include "tests/models/recorded.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <set>

namespace exporters::models {
namespace {

using testing::checkpoints;
using testing::DecoderCall;
using testing::error_of;
using testing::expect_recorded_calls;
using testing::recordings;
using testing::reference_decoders;

namespace fs = std::filesystem;

// The same kernels as the reference's, but norms are one operator here, and masks are always spelled out.
constexpr double kFloat32 = 1e-5;

class DecoderFamilies : public ::testing::TestWithParam<const char*> {};

// Given random checkpoints of every head, several configs and seeds, when they are loaded and called as generate calls
// them (prefill and decode, padded left and right) and in other ways, then the output's class, fields, cache and values
// are the reference's.
TEST_P(DecoderFamilies, EqualTheReference) { EXPECT_GT(expect_recorded_calls(reference_decoders() / GetParam()), 50u); }

TEST_P(DecoderFamilies, HaveTheReferencesStateInItsOrder) {
  for (const fs::path& folder : checkpoints(reference_decoders() / GetParam())) {
    SCOPED_TRACE(folder.filename().string());
    testing::expect_state(*load(folder), folder);
  }
}

// Every head that the registry lists is among the checkpoints, and the other way round.
TEST_P(DecoderFamilies, AreListedWithEveryHead) {
  EXPECT_EQ(testing::heads_listed(GetParam()), testing::heads_made(reference_decoders() / GetParam()));
}

TEST_P(DecoderFamilies, SamplesRunWithAndWithoutACache) {
  std::set<std::string> seen;
  for (const fs::path& folder : checkpoints(reference_decoders() / GetParam())) {
    const auto model = load(folder);
    if (!seen.insert(model->class_name()).second) {
      continue;
    }
    SCOPED_TRACE(folder.filename().string());
    for (const int64_t past : {0, 5}) {
      testing::expect_sample_runs(*model, {.batch = 1, .sequence = 3, .past = past});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecoderFamilies,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2",
                                           "gemma3_text", "olmo2", "granite", "smollm3", "starcoder2", "gpt2",
                                           "gpt_neox", "opt", "phi", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Rope, EveryTypeEqualsTheReferenceOnBothSidesOfItsBoundaries) {
  size_t count = 0;
  for (const fs::path& folder : checkpoints(reference_decoders() / "ropes")) {
    SCOPED_TRACE(folder.filename().string());
    const auto model = load(folder);
    for (const fs::path& file : recordings(folder)) {
      SCOPED_TRACE(file.filename().string());
      const DecoderCall call(file);
      call.expect((*model)(call.args), kFloat32);
      ++count;
    }
  }
  EXPECT_EQ(count, 10 * 7u);
}

TEST(Decoder, OlderConfigsAreReadAsTheReferenceReadsThem) {
  size_t count = 0;
  for (const fs::path& folder : checkpoints(reference_decoders() / "old_configs")) {
    SCOPED_TRACE(folder.filename().string());
    const auto model = load(folder);
    for (const fs::path& file : recordings(folder)) {
      const DecoderCall call(file);
      call.expect((*model)(call.args), kFloat32);
      ++count;
    }
  }
  EXPECT_EQ(count, 7u);
}

fs::path plain_llama(const std::string& head = "ForCausalLM") {
  return reference_decoders() / "llama" / ("Llama" + head + "_plain_0");
}

TEST(Decoder, TheOlderNameOfTheCacheIsTaken) {
  const auto model = load(plain_llama());
  const ForwardArgs sample = model->sample_inputs({.batch = 2, .sequence = 1, .past = 4});
  ForwardArgs renamed;
  for (const auto& [name, value] : sample) {
    renamed.set(name == "cache" ? "past_key_values" : name, value);
  }
  EXPECT_TRUE((*model)(renamed).at("logits").tensor().equal((*model)(sample).at("logits").tensor()));
  renamed.set("cache", *sample.find("cache"));
  EXPECT_NE(error_of([&] { (*model)(renamed); }).find("both cache and past_key_values"), std::string::npos);
}

TEST(Decoder, ACacheThatDoesNotFitIsAnErrorWithBothSizes) {
  const auto model = load(plain_llama());
  const auto with = [&](DynamicCache cache) {
    return error_of([&] { (*model)({{"input_ids", at::full({1, 1}, 5, at::kLong)}, {"cache", cache.to_tree()}}); });
  };
  const auto layers = [](size_t count, int64_t heads, int64_t head_dim) {
    LayeredCache::Layers result;
    for (size_t i = 0; i < count; ++i) {
      result.push_back(
          std::make_unique<DynamicLayer>(at::zeros({1, heads, 3, head_dim}), at::zeros({1, heads, 3, head_dim})));
    }
    return result;
  };
  EXPECT_NE(with(DynamicCache(layers(3, 2, 8))).find("3 layers, the model has 2"), std::string::npos);
  EXPECT_NE(with(DynamicCache(layers(2, 4, 8))).find("2 key/value heads"), std::string::npos);
  EXPECT_NE(with(DynamicCache(layers(2, 2, 16))).find("8 dimensions"), std::string::npos);
  EXPECT_NE(error_of([&] {
              (*model)({{"input_ids", at::full({1, 1}, 5, at::kLong)}, {"cache", PyTree(at::zeros({1}))}});
            }).find("expected a cache"),
            std::string::npos);
}

TEST(Decoder, AMaskMustCoverTheCacheToo) {
  const auto model = load(plain_llama());
  ForwardArgs sample = model->sample_inputs({.batch = 2, .sequence = 1, .past = 4});
  sample.set("attention_mask", at::ones({2, 1}, at::kLong));
  const std::string message = error_of([&] { (*model)(sample); });
  EXPECT_NE(message.find("attention_mask is [2, 1], the other inputs make it [2, 5]"), std::string::npos) << message;
}

TEST(Decoder, ABatchNeedsAnIdForPaddingToClassify) {
  const fs::path source = plain_llama("ForSequenceClassification");
  auto json = nlohmann::json::parse(std::ifstream(source / "config.json"));
  json["pad_token_id"] = nullptr;
  const auto folder = fs::path(::testing::TempDir()) / "no_padding_id";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << json;
  fs::copy_file(source / "model.safetensors", folder / "model.safetensors", fs::copy_options::overwrite_existing);
  const auto model = load(folder);
  EXPECT_NO_THROW((*model)({{"input_ids", at::full({1, 3}, 5, at::kLong)}}));
  EXPECT_NE(error_of([&] {
              (*model)({{"input_ids", at::full({2, 3}, 5, at::kLong)}});
            }).find("pad_token_id"),
            std::string::npos);
}

TEST(Decoder, BuffersThatOlderVersionsStoredArePassedOver) {
  const fs::path source = reference_decoders() / "gpt2" / "GPT2LMHeadModel_plain_0";
  const auto file = SafetensorsFile::open(source / "model.safetensors");
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const SafetensorsEntry& entry : file->entries()) {
    tensors.emplace_back(entry.name, file->tensor(entry));
  }
  tensors.emplace_back("transformer.h.0.attn.bias", at::ones({1, 1, 4, 4}));
  tensors.emplace_back("transformer.h.0.attn.rotary_emb.inv_freq", at::ones({4}));
  tensors.emplace_back("transformer.h.0.attn.other", at::ones({4}));
  const auto folder = fs::path(::testing::TempDir()) / "former_buffers";
  fs::create_directories(folder);
  fs::copy_file(source / "config.json", folder / "config.json", fs::copy_options::overwrite_existing);
  save_safetensors(folder / "model.safetensors", tensors);
  EXPECT_EQ(load(folder)->load_report().surplus_keys, (std::vector<std::string>{"transformer.h.0.attn.other"}));
}

// Given a checkpoint with experts, when their products are computed by token instead of by expert, then the scores are
// the same; and so are those of a checkpoint that stores each parameter of all experts in one piece.
TEST(Experts, EveryWayToComputeAndToStoreThemIsTheSame) {
  const fs::path source = reference_decoders() / "mixtral" / "MixtralForCausalLM_plain_0";
  const auto model = load(source);
  const ForwardArgs sample = model->sample_inputs({.batch = 3, .sequence = 5});
  const at::Tensor expected = (*model)(sample).at("logits").tensor();

  const testing::TemporaryFolder folder;
  auto json = nlohmann::json::parse(std::ifstream(source / "config.json"));
  json["experts_implementation"] = "batched_mm";
  std::ofstream(folder / "config.json") << json;
  std::vector<std::pair<std::string, at::Tensor>> whole;
  for (const StateEntry& entry : model->state()) {
    if (entry.persistent) {
      whole.emplace_back(entry.name, entry.tensor);
    }
  }
  save_safetensors(folder / "model.safetensors", whole);
  const auto other = load(folder.path());
  EXPECT_EQ(other->load_report().surplus_keys, std::vector<std::string>{});
  const at::Tensor actual = (*other)(sample).at("logits").tensor();
  EXPECT_LE(testing::largest_difference(actual, expected), kFloat32);
}

TEST(Experts, PartsThatAreMissingOrDoNotFitAreErrors) {
  const fs::path source = reference_decoders() / "mixtral" / "MixtralForCausalLM_plain_0";
  const auto file = SafetensorsFile::open(source / "model.safetensors");
  const auto loaded = [&](const std::function<void(std::map<std::string, at::Tensor>&)>& change) {
    std::map<std::string, at::Tensor> tensors;
    for (const SafetensorsEntry& entry : file->entries()) {
      tensors.emplace(entry.name, file->tensor(entry));
    }
    change(tensors);
    const testing::TemporaryFolder folder;
    fs::copy_file(source / "config.json", folder / "config.json");
    save_safetensors(folder / "model.safetensors", {tensors.begin(), tensors.end()});
    return error_of([&] { load(folder.path()); });
  };
  const std::string expert = "model.layers.0.block_sparse_moe.experts.3.";
  EXPECT_NE(loaded([&](auto& tensors) {
              ASSERT_EQ(tensors.erase(expert + "w3.weight"), 1u);
            }).find("stored by expert in 7 matrices, the config makes it 8"),
            std::string::npos);
  EXPECT_NE(loaded([&](auto& tensors) {
              tensors[expert + "w2.weight"] = at::zeros({32, 40});
            }).find("w2.weight is"),
            std::string::npos);
}

struct BadConfig {
  const char* changes;
  const char* message;
};

TEST(Decoder, ConfigValuesThatAreNotImplementedOrMakeNoSenseAreErrors) {
  const auto base = nlohmann::json::parse(std::ifstream(plain_llama() / "config.json"));
  for (const BadConfig& bad : {
           BadConfig{R"({"rope_parameters": {"rope_type": "lnear", "factor": 2.0}})", "linear"},
           {R"({"rope_parameters": {"rope_type": "linear"}})", "has no factor"},
           {R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}})",
            "partial_rotary_factor"},
           {R"({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}})",
            "expected 4"},
           {R"({"rope_parameters": {"rope_type": "default", "rope_theta": -1}})", "positive"},
           {R"({"head_dim": 7})", "7 of a head's 7 dimensions rotate"},
           {R"({"head_dim": 1})", "1 of a head's 1 dimensions rotate"},
           {R"({"num_key_value_heads": 3})", "not a multiple"},
           {R"({"hidden_act": "xielu"})", "parameters of its own"},
           {R"({"is_causal": false})", "is_causal"},
           {R"({"quantization_config": {"bits": 4}})", "quantized"},
       }) {
    SCOPED_TRACE(bad.changes);
    auto json = base;
    json.update(nlohmann::json::parse(bad.changes));
    const std::string message = error_of([&] {
      const ModelConfig config = ModelConfig::parse(json.dump());
      find(config).make(config);
    });
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace exporters::models
