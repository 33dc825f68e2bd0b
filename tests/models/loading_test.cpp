#include "exporters/models/pretrained.h"

#include "exporters/models/registry.h"
#include "tests/models/recorded.h"
#include "tests/support/temporary_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace exporters::models {
namespace {

using testing::error_of;
using testing::expect_recorded;
using testing::Recorded;
using testing::reference_models;
using testing::TemporaryFolder;

namespace fs = std::filesystem;

constexpr double kFloat32 = 1e-5;  // as in bert_test.cpp

const std::string kWords = "bert.embeddings.word_embeddings.weight";
const std::string kDecoder = "cls.predictions.decoder.weight";

fs::path variant(const std::string& name) { return reference_models() / "variants" / name; }

StateEntry entry_of(const PreTrainedModel& model, const std::string& name) {
  for (StateEntry& entry : model.state()) {
    if (entry.name == name) {
      return entry;
    }
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

using Fields = std::map<std::string, nlohmann::json>;

/// A copy of a tiny checkpoint with some config fields replaced.
class EditedCheckpoint {
 public:
  explicit EditedCheckpoint(const Fields& fields, const std::string& source = "BertModel_gelu_0") {
    const fs::path folder = reference_models() / "cases" / source;
    auto config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
    for (const auto& [name, value] : fields) {
      config[name] = value;
    }
    std::ofstream(folder_ / "config.json") << config;
    fs::copy_file(folder / "model.safetensors", folder_ / "model.safetensors");
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

void expect_recorded_outputs(const std::string& name, const LoadOptions& options = {}) {
  const Recorded recorded(variant(name) / "io_b2s7.safetensors");
  expect_recorded((*load(variant(name), options))(recorded.args), recorded, kFloat32);
}

TEST(Loading, EqualTiedWeightsAreOneTensor) {
  for (const char* name : {"tied_two_equal", "tied_only_decoder"}) {
    SCOPED_TRACE(name);
    expect_recorded_outputs(name);
    const auto model = load(variant(name));
    EXPECT_TRUE(entry_of(*model, kDecoder).tensor.is_same(entry_of(*model, kWords).tensor));
    EXPECT_EQ(entry_of(*model, kDecoder).tied_to, kWords);
    EXPECT_EQ(entry_of(*model, kDecoder).source, entry_of(*model, kWords).source);
    EXPECT_EQ(entry_of(*model, "cls.predictions.decoder.bias").tied_to, "cls.predictions.bias");
    EXPECT_TRUE(model->load_report().untied.empty());
  }
}

TEST(Loading, TiedByTheConfigButStoredDifferentlyUsesBothAndSaysSo) {
  expect_recorded_outputs("tied_two_different");
  const auto model = load(variant("tied_two_different"));
  EXPECT_FALSE(entry_of(*model, kDecoder).tensor.is_same(entry_of(*model, kWords).tensor));
  EXPECT_EQ(model->load_report().untied, std::vector<std::string>{kDecoder});
  expect_recorded_outputs("tied_other_bias");
  EXPECT_EQ(load(variant("tied_other_bias"))->load_report().untied,
            std::vector<std::string>{"cls.predictions.decoder.bias"});
}

TEST(Loading, UntiedByTheConfigUsesBoth) {
  expect_recorded_outputs("untied_two");
  const auto model = load(variant("untied_two"));
  EXPECT_TRUE(entry_of(*model, kDecoder).tied_to.empty());
  EXPECT_TRUE(model->load_report().untied.empty());
}

TEST(Loading, AMissingTiedWeightIsRefusedNeverInvented) {
  const std::string untied = error_of([] { load(variant("untied_no_decoder")); });
  EXPECT_NE(untied.find("cls.predictions.decoder.weight, cls.predictions.decoder.bias"), std::string::npos) << untied;
  const std::string neither = error_of([] { load(variant("tied_neither")); });
  EXPECT_NE(neither.find(kWords), std::string::npos) << neither;
  EXPECT_NE(neither.find(kDecoder), std::string::npos) << neither;
}

TEST(Loading, OlderNamesAndPrefixesAreUnderstood) {
  expect_recorded_outputs("legacy_names");
  expect_recorded_outputs("without_prefix");
  expect_recorded_outputs("old_buffer");
  EXPECT_TRUE(load(variant("old_buffer"))->load_report().surplus_keys.empty());
}

TEST(Loading, TheBareModelOfAHeadsCheckpointLeavesTheHeadOver) {
  const LoadOptions options{.task = "feature-extraction"};
  expect_recorded_outputs("bare_of_classifier", options);
  const auto model = load(variant("bare_of_classifier"), options);
  EXPECT_EQ(model->load_report().surplus_keys, (std::vector<std::string>{"classifier.bias", "classifier.weight"}));
}

TEST(Loading, AHeadThatTheCheckpointLacksIsNamed) {
  const std::string message =
      error_of([] { load(reference_models() / "cases" / "BertModel_gelu_0", {.task = "text-classification"}); });
  EXPECT_NE(message.find("lacks parameters of BertForSequenceClassification: classifier.weight, classifier.bias"),
            std::string::npos)
      << message;
  const std::string pooler =
      error_of([] { load(reference_models() / "cases" / "BertForMaskedLM_gelu_0", {.task = "feature-extraction"}); });
  EXPECT_NE(pooler.find("pooler.dense.weight, pooler.dense.bias"), std::string::npos) << pooler;
}

TEST(Loading, AShapeThatTheConfigDoesNotMakeIsNamedWithBoth) {
  const EditedCheckpoint checkpoint(Fields{{"vocab_size", 54}});
  const std::string message = error_of([&] { load(checkpoint.path()); });
  EXPECT_NE(message.find("embeddings.word_embeddings.weight is [53, 24], the config makes it [54, 24]"),
            std::string::npos)
      << message;
}

TEST(Loading, ParametersAreViewsOfTheFile) {
  const fs::path folder = reference_models() / "cases" / "BertModel_gelu_0";
  const auto model = load(folder);
  for (const StateEntry& entry : model->state()) {
    ASSERT_EQ(entry.source.has_value(), !entry.is_buffer) << entry.name;
    if (entry.source) {
      EXPECT_EQ(entry.source->key, entry.name);
      EXPECT_EQ(entry.source->nbytes, entry.tensor.nbytes());
      EXPECT_TRUE(fs::equivalent(entry.source->file, folder / "model.safetensors"));
    }
  }
}

TEST(Loading, TheDtypeIsTheReferences) {
  const auto expected = nlohmann::json::parse(std::ifstream(reference_models() / "dtype.json"));
  ASSERT_EQ(expected.size(), 6u);
  for (const auto& [name, dtype] : expected.items()) {
    SCOPED_TRACE(name);
    const auto model = load(variant(name));
    EXPECT_EQ(model->load_report().dtype, parse_dtype(dtype.get<std::string>()));
    for (const StateEntry& entry : model->state()) {
      EXPECT_EQ(entry.tensor.scalar_type(), entry.is_buffer ? at::kLong : model->load_report().dtype) << entry.name;
    }
  }
}

TEST(Loading, TheDtypeOptionOverridesEverythingAndConvertedTensorsHaveNoSource) {
  const auto model = load(variant("dtype_half_with_key"), {.dtype = at::kBFloat16});
  EXPECT_EQ(model->load_report().dtype, at::kBFloat16);
  for (const StateEntry& entry : model->state()) {
    EXPECT_FALSE(entry.source) << entry.name;
    EXPECT_EQ(entry.tensor.scalar_type(), entry.is_buffer ? at::kLong : at::kBFloat16) << entry.name;
  }
}

TEST(Loading, ConfigValuesThatComputeSomethingElseAreRefused) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"position_embedding_type", "relative_key"},
                                                           {"is_decoder", true},
                                                           {"add_cross_attention", true},
                                                           {"is_causal", true},
                                                           {"quantization_config", {{"bits", 4}}},
                                                           {"pruned_heads", {{"0", {1}}}},
                                                           {"per_layer_config", {{"0", {{"hidden_act", "relu"}}}}}}) {
    const EditedCheckpoint checkpoint(Fields{{field, value}});
    const std::string message = error_of([&] { load(checkpoint.path()); });
    EXPECT_NE(message.find("\"" + field + "\""), std::string::npos) << message;
  }
}

TEST(Loading, ConfigValuesThatChangeNothingAreAccepted) {
  const EditedCheckpoint checkpoint(Fields{{"position_embedding_type", "absolute"},
                                           {"is_decoder", false},
                                           {"pruned_heads", nlohmann::json::object()},
                                           {"quantization_config", nullptr},
                                           {"gradient_checkpointing", false},
                                           {"chunk_size_feed_forward", 3},
                                           {"use_cache", true}});
  const Recorded recorded(reference_models() / "cases" / "BertModel_gelu_0" / "io_b2s7.safetensors");
  expect_recorded((*load(checkpoint.path()))(recorded.args), recorded, kFloat32);
}

TEST(Loading, HeadsThatDoNotDivideTheHiddenSizeAreRefused) {
  const EditedCheckpoint checkpoint(Fields{{"num_attention_heads", 5}});
  EXPECT_NE(error_of([&] { load(checkpoint.path()); }).find("\"hidden_size\" is 24"), std::string::npos);
}

TEST(Loading, OutputFlagsOfTheConfigAreDefaults) {
  const EditedCheckpoint checkpoint(Fields{{"output_hidden_states", true}, {"output_attentions", true}});
  Recorded recorded(reference_models() / "cases" / "BertModel_gelu_0" / "io_b2s7_recorded.safetensors");
  for (const char* flag : {"output_hidden_states", "output_attentions"}) {
    recorded.args.set(flag, PyTree());
  }
  expect_recorded((*load(checkpoint.path()))(recorded.args), recorded, kFloat32);
}

TEST(Loading, EagerAttentionWithoutRecordingGivesTheSameHiddenStates) {
  const fs::path folder = reference_models() / "cases" / "BertModel_relu_1";
  const Recorded recorded(folder / "io_b3s12.safetensors");
  expect_recorded((*load(folder, {.attention = AttentionKind::kEager}))(recorded.args), recorded, kFloat32);
}

TEST(Registry, UnknownNamesGetNearOnes) {
  const auto hint_for = [](const Fields& fields, const LoadOptions& options) {
    const EditedCheckpoint checkpoint(fields);
    return error_of([&] { load(checkpoint.path(), options); });
  };
  EXPECT_NE(hint_for({{"model_type", "brt"}}, {}).find("'bert'"), std::string::npos);
  EXPECT_NE(hint_for({{"model_type", "resnet"}}, {}).find("Known are: bert"), std::string::npos);
  EXPECT_NE(hint_for({{"model_type", nullptr}}, {}).find("\"model_type\" is missing"), std::string::npos);
  EXPECT_NE(hint_for({}, {.task = "fil-mask"}).find("'fill-mask'"), std::string::npos);
  EXPECT_NE(hint_for({}, {.architecture = "BertForMaskdLM"}).find("'BertForMaskedLM'"), std::string::npos);
  EXPECT_NE(
      hint_for({{"architectures", {"BertGenerationDecoder"}}}, {}).find("\"BertGenerationDecoder\" is not supported"),
      std::string::npos);
  EXPECT_NE(hint_for({{"hidden_act", "geluu"}}, {}).find("'gelu'"), std::string::npos);
  EXPECT_NE(hint_for({}, {.task = "fill-mask", .architecture = "BertModel"}).find("is for task"), std::string::npos);
}

TEST(Registry, TheArchitectureComesFromTaskElseConfigElseBareModel) {
  const auto with = [](const char* architectures) {
    return ModelConfig::parse(std::string(R"({"model_type": "bert")") + architectures + "}");
  };
  EXPECT_EQ(find(with("")).architecture, "BertModel");
  EXPECT_EQ(find(with(R"(, "architectures": ["BertForMaskedLM"])")).architecture, "BertForMaskedLM");
  EXPECT_EQ(find(with(R"(, "architectures": ["BertForMaskedLM"])"), "question-answering").architecture,
            "BertForQuestionAnswering");
  EXPECT_EQ(find(with(""), {}, "BertForPreTraining").architecture, "BertForPreTraining");
}

}  // namespace
}  // namespace exporters::models
