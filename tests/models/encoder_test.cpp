#include "exporters/models/encoder.h"

#include "exporters/models/registry.h"
#include "tests/models/decoder_recorded.h"
#include "tests/models/recorded.h"
#include "tests/reference/encoder_families.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>

namespace exporters::models {
namespace {

using testing::checkpoints;
using testing::error_of;
using testing::expect_recorded;
using testing::Recorded;
using testing::recordings;
using testing::reference_folder;

namespace fs = std::filesystem;

// The same kernels as the reference's, which leaves out a mask of ones where we do not.
constexpr double kFloat32 = 1e-5;
// Two roundings of an activation of size 4: bfloat16 keeps 8 bits.
constexpr double kBFloat16 = 2 * 4.0 / 256;

fs::path reference_encoders() { return reference_folder("encoders"); }

class EncoderFamilies : public testing::EncoderFamily {};

// Given random checkpoints of every head, several configs and seeds, when they are loaded by their own architecture and
// called at three shapes with padding on either side, with and without recorded layers, and in other ways, then class,
// fields and values are the reference's.
TEST_P(EncoderFamilies, EqualTheReference) {
  size_t count = 0;
  for (const fs::path& folder : cases()) {
    SCOPED_TRACE(folder.filename().string());
    const auto model = load(folder);
    EXPECT_TRUE(folder.filename().string().starts_with(model->class_name() + "_"));
    EXPECT_TRUE(model->load_report().surplus_keys.empty());
    const bool is_half = model->load_report().dtype == at::kBFloat16;
    for (const fs::path& file : recordings(folder)) {
      SCOPED_TRACE(file.filename().string());
      const Recorded recorded(file);
      expect_recorded((*model)(recorded.args), recorded, is_half ? kBFloat16 : kFloat32);
      ++count;
    }
  }
  EXPECT_GT(count, 16u);
}

// Where checkpoints keep two matrices in one, so do we; the reference takes them apart.
std::vector<std::string> as_stored(const std::vector<std::string>& names) {
  std::vector<std::string> stored;
  for (std::string name : names) {
    if (name.find("mlp.up_proj") != std::string::npos) {
      continue;
    }
    for (const auto& [theirs, ours] : {std::pair<std::string, std::string>("mlp.gate_proj", "mlp.weights_in"),
                                       {"mlp.down_proj", "mlp.weights_out"}}) {
      if (const size_t at = name.find(theirs); at != std::string::npos) {
        name.replace(at, theirs.size(), ours);
      }
    }
    stored.push_back(std::move(name));
  }
  return stored;
}

TEST_P(EncoderFamilies, HaveTheReferencesStateInItsOrder) {
  for (const fs::path& folder : cases()) {
    SCOPED_TRACE(folder.filename().string());
    const auto expected = nlohmann::json::parse(std::ifstream(folder / "state.json"));
    std::vector<std::string> parameters;
    std::vector<std::string> buffers;
    for (const StateEntry& entry : load(folder)->state()) {
      EXPECT_TRUE(entry.tensor.defined()) << entry.name;
      (entry.is_buffer ? buffers : parameters).push_back(entry.name);
    }
    EXPECT_EQ(parameters, as_stored(expected.at("parameters").get<std::vector<std::string>>()));
    EXPECT_EQ(buffers, expected.at("buffers").get<std::vector<std::string>>());
  }
}

// Every head that the registry lists is among the checkpoints, and the other way round. Those that generate are
// decoders: causal_encoder_test.cpp.
TEST_P(EncoderFamilies, AreListedWithEveryHead) {
  std::set<std::string> listed;
  for (const ModelEntry& entry : list()) {
    if (entry.model_type == model_type() && entry.task != "text-generation") {
      listed.emplace(entry.architecture);
    }
  }
  std::set<std::string> made;
  for (const fs::path& folder : cases()) {
    const std::string name = folder.filename().string();
    made.insert(name.substr(0, name.find('_')));
  }
  EXPECT_EQ(listed, made);
}

TEST_P(EncoderFamilies, SamplesRunAndTheirAxesHaveNames) {
  for (const fs::path& folder : cases()) {
    SCOPED_TRACE(folder.filename().string());
    const auto model = load(folder);
    const ForwardArgs sample = model->sample_inputs({.batch = 2, .sequence = 3});
    const AxisNames names = model->axis_names();
    for (const auto& [name, value] : sample) {
      for (int64_t axis = 0; axis < value.tensor().dim(); ++axis) {
        EXPECT_TRUE(names.at(name).contains(axis)) << name << " " << axis;
      }
    }
    EXPECT_NO_THROW((*model)(sample));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EncoderFamilies, testing::encoder_families(), testing::family_name);

TEST(Encoder, OlderConfigsAreReadAsTheReferenceReadsThem) {
  size_t count = 0;
  for (const fs::path& folder : checkpoints(reference_encoders() / "old_configs")) {
    SCOPED_TRACE(folder.filename().string());
    const auto model = load(folder);
    for (const fs::path& file : recordings(folder)) {
      const Recorded recorded(file);
      expect_recorded((*model)(recorded.args), recorded, kFloat32);
      ++count;
    }
  }
  EXPECT_EQ(count, 5u);
}

TEST(Encoder, TheLongestSequenceCountsFromThePadding) {
  // 40 rows, of which 0 and 1 are not for tokens.
  const auto roberta = load(reference_encoders() / "roberta" / "RobertaModel_plain_0");
  EXPECT_EQ(roberta->axis_names().at("input_ids").at(1).max, 38);
  const auto tokens = [](int64_t length) { return ForwardArgs{{"input_ids", at::full({1, length}, 7, at::kLong)}}; };
  EXPECT_NO_THROW((*roberta)(tokens(38)));
  EXPECT_NE(error_of([&] { (*roberta)(tokens(39)); }).find("39 positions, the model has 38"), std::string::npos);
  // Without a table of positions, the length is free.
  const auto deberta = load(reference_encoders() / "deberta-v2" / "DebertaV2Model_plain_0");
  EXPECT_EQ(deberta->axis_names().at("input_ids").at(1).max, Range::kMax);
  EXPECT_NO_THROW((*deberta)(tokens(39)));
}

TEST(Encoder, TiedWeightsAreOneTensorInEveryFamily) {
  for (const auto& [family, name, decoder] :
       {std::tuple("roberta", "RobertaForMaskedLM_plain_0", "lm_head.decoder.weight"),
        {"distilbert", "DistilBertForMaskedLM_plain_0", "vocab_projector.weight"},
        {"electra", "ElectraForMaskedLM_plain_0", "generator_lm_head.weight"},
        {"albert", "AlbertForPreTraining_plain_0", "predictions.decoder.weight"},
        {"deberta-v2", "DebertaV2ForMaskedLM_plain_0", "cls.predictions.decoder.weight"},
        {"modernbert", "ModernBertForMaskedLM_plain_0", "decoder.weight"}}) {
    SCOPED_TRACE(name);
    const auto state = load(reference_encoders() / family / name)->state();
    const auto tied = std::find_if(state.begin(), state.end(), [weight = std::string(decoder)](const StateEntry& entry) {
      return entry.name == weight;
    });
    ASSERT_NE(tied, state.end());
    EXPECT_NE(tied->tied_to.find("embeddings.weight"), std::string::npos) << tied->tied_to;
  }
}

struct BadConfig {
  const char* model_type;
  const char* architecture;
  const char* changes;
  const char* message;
};

TEST(Encoder, ConfigValuesThatAreNotImplementedOrMakeNoSenseAreErrors) {
  for (const BadConfig& bad : {
           BadConfig{"roberta", "RobertaModel", R"({"is_decoder": true})", "is_decoder"},
           {"roberta", "RobertaModel", R"({"pad_token_id": null})", "pad_token_id"},
           {"xlm-roberta", "XLMRobertaModel", R"({"position_embedding_type": "relative_key"})", "position_embedding"},
           {"camembert", "CamembertModel", R"({"hidden_size": 30})", "not a multiple"},
           {"distilbert", "DistilBertModel", R"({"n_heads": 5})", "not a multiple"},
           {"electra", "ElectraForMultipleChoice", R"({"summary_type": "attn"})", "summary_type"},
           {"electra", "ElectraModel", R"({"summary_proj_to_labels": true})", "summary_proj_to_labels"},
           {"mpnet", "MPNetModel", R"({"relative_attention_num_buckets": 16})", "relative_attention_num_buckets"},
           {"albert", "AlbertModel", R"({"num_hidden_groups": 13})", "num_hidden_groups"},
           {"deberta-v2", "DebertaV2Model", R"({"conv_kernel_size": 2})", "conv_kernel_size"},
           {"deberta-v2", "DebertaV2Model", R"({"attention_head_size": 5})", "attention_head_size"},
           {"deberta-v2", "DebertaV2Model", R"({"pooler_hidden_size": 7})", "pooler_hidden_size"},
           {"deberta-v2", "DebertaV2Model", R"({"relative_attention": true, "position_buckets": 1})", "buckets"},
           {"modernbert", "ModernBertModel", R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})",
            "rope_scaling"},
           {"modernbert", "ModernBertModel", R"({"layer_types": ["full_attention"]})", "has 1 entries"},
           {"modernbert", "ModernBertForSequenceClassification", R"({"classifier_pooling": "max"})",
            "classifier_pooling"},
           {"modernbert", "ModernBertForQuestionAnswering", R"({"num_labels": 3})", "3 labels"},
           {"albert", "AlbertModel", R"({"hidden_act": "geluu"})", "gelu"},
       }) {
    SCOPED_TRACE(std::string(bad.architecture) + bad.changes);
    auto json = nlohmann::json::parse(bad.changes);
    json["model_type"] = bad.model_type;
    const std::string message = error_of([&] {
      const ModelConfig config = ModelConfig::parse(json.dump());
      find(config, {}, bad.architecture).make(config);
    });
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
}

TEST(Encoder, AMaskThatAHeadOrFamilyCannotReadIsAnError) {
  const ForwardArgs args{{"input_ids", at::full({2, 3}, 7, at::kLong)}, {"attention_mask", at::ones({2, 1, 3, 3})}};
  const auto mean = load(reference_encoders() / "modernbert" / "ModernBertForSequenceClassification_biased_0");
  EXPECT_NE(error_of([&] { (*mean)(args); }).find("[batch, sequence]"), std::string::npos);
  const auto deberta = load(reference_encoders() / "deberta-v2" / "DebertaV2Model_plain_0");
  EXPECT_NE(error_of([&] { (*deberta)(args); }).find("expected 2"), std::string::npos);
}

}  // namespace
}  // namespace exporters::models
