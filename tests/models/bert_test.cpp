#include "exporters/models/registry.h"
#include "exporters/weights/safetensors.h"
#include "tests/models/recorded.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>

namespace exporters::models {
namespace {

using testing::error_of;
using testing::expect_recorded;
using testing::Recorded;
using testing::recordings;
using testing::reference_models;

namespace fs = std::filesystem;

// The same kernels in the same order as the reference's, but sums may be split among threads in other ways, and the
// reference leaves out a mask of ones where we do not.
constexpr double kFloat32 = 1e-5;
// Two roundings of an activation of size 4: bfloat16 keeps 8 bits, float16 11.
constexpr double kBFloat16 = 2 * 4.0 / 256;
constexpr double kFloat16 = 2 * 4.0 / 2048;

ForwardArgs tokens(int64_t batch, int64_t sequence, int64_t id = 5) {
  return {{"input_ids", at::full({batch, sequence}, id, at::kLong)}};
}

std::unique_ptr<PreTrainedModel> tiny(const std::string& name = "BertModel_gelu_0") {
  return load(reference_models() / "cases" / name);
}

// Given random checkpoints of every head, three configs and three seeds, when they are loaded by their own architecture
// and run at three shapes with padding, with and without recorded layers, then class, fields and values are the
// reference's.
TEST(Bert, HeadsEqualTheReferenceOnRandomCheckpoints) {
  size_t count = 0;
  for (const auto& folder : fs::directory_iterator(reference_models() / "cases")) {
    const std::string name = folder.path().filename().string();
    if (name.find("float16") != std::string::npos) {
      continue;
    }
    SCOPED_TRACE(name);
    const auto model = load(folder.path());
    EXPECT_TRUE(name.starts_with(model->class_name() + "_"));
    for (const fs::path& file : recordings(folder.path())) {
      SCOPED_TRACE(file.filename().string());
      const Recorded recorded(file);
      expect_recorded((*model)(recorded.args), recorded, kFloat32);
      ++count;
    }
  }
  // Heads × (configs × seeds) × shapes × (plain and recorded), then the further ways to call one of them.
  EXPECT_EQ(count, (8 * 3 + 5 * 6) * 3 * 2 + 7);
}

TEST(Bert, HalfPrecisionCheckpointsKeepTheirDtype) {
  for (const auto& [name, dtype, tolerance] :
       {std::tuple("BertModel_bfloat16", at::kBFloat16, kBFloat16), {"BertForMaskedLM_float16", at::kHalf, kFloat16}}) {
    SCOPED_TRACE(name);
    const auto model = tiny(name);
    EXPECT_EQ(model->load_report().dtype, dtype);
    for (const fs::path& file : recordings(reference_models() / "cases" / name)) {
      SCOPED_TRACE(file.filename().string());
      const Recorded recorded(file);
      expect_recorded((*model)(recorded.args), recorded, tolerance);
    }
  }
}

TEST(Bert, MiniLMEqualsTheReference) {
  const char* given = std::getenv("EXPORTERS_MINILM_DIR");
  const auto model = load(given != nullptr ? given : ".deps/models/all-MiniLM-L6-v2");
  EXPECT_EQ(model->class_name(), "BertModel");
  EXPECT_TRUE(model->load_report().surplus_keys.empty());
  size_t count = 0;
  for (const fs::path& file : recordings(reference_models() / "minilm")) {
    SCOPED_TRACE(file.filename().string());
    const Recorded recorded(file);
    expect_recorded((*model)(recorded.args), recorded, kFloat32);
    ++count;
  }
  EXPECT_EQ(count, 5u);
}

TEST(Bert, StateHasTheReferencesNamesInItsOrder) {
  for (const auto& folder : fs::directory_iterator(reference_models() / "cases")) {
    SCOPED_TRACE(folder.path().filename().string());
    const auto expected = nlohmann::json::parse(std::ifstream(folder.path() / "state.json"));
    std::vector<std::string> parameters;
    std::vector<std::string> buffers;
    for (const StateEntry& entry : load(folder.path())->state()) {
      EXPECT_TRUE(entry.tensor.defined()) << entry.name;
      EXPECT_EQ(entry.persistent, !entry.is_buffer) << entry.name;
      (entry.is_buffer ? buffers : parameters).push_back(entry.name);
    }
    EXPECT_EQ(parameters, expected.at("state_dict").get<std::vector<std::string>>());
    EXPECT_EQ(parameters, expected.at("parameters").get<std::vector<std::string>>());
    EXPECT_EQ(buffers, expected.at("buffers").get<std::vector<std::string>>());
  }
}

TEST(Bert, SampleInputsRunAndStayInsideTheVocabulary) {
  for (const ModelEntry& entry : list()) {
    if (entry.model_type != "bert" || entry.architecture == "BertLMHeadModel") {  // which is a decoder
      continue;
    }
    SCOPED_TRACE(entry.architecture);
    const auto model = tiny(std::string(entry.architecture) + "_relu_0");
    const ForwardArgs sample = model->sample_inputs({.batch = 3, .sequence = 11});
    std::vector<std::string> names;
    for (const auto& [name, value] : sample) {
      names.push_back(name);
      EXPECT_EQ(model->axis_names().at(name).size(), static_cast<size_t>(value.tensor().dim()));
    }
    EXPECT_EQ(names, (std::vector<std::string>{"input_ids", "attention_mask", "token_type_ids"}));
    EXPECT_TRUE(sample.tensor("attention_mask").eq(1).all().item().toBool());
    const at::Tensor again = model->sample_inputs({.batch = 3, .sequence = 11}).tensor("input_ids");
    EXPECT_TRUE(again.equal(sample.tensor("input_ids")));
    EXPECT_GT(sample.tensor("input_ids").max().item().toLong(), sample.tensor("input_ids").min().item().toLong());
    EXPECT_NO_THROW((*model)(sample));  // which checks that ids lie inside the vocabulary
  }
}

TEST(Bert, AxisNamesCarryTheModelsLargestSequence) {
  const AxisNames names = tiny()->axis_names();
  EXPECT_EQ(names.at("input_ids").at(0).name, "batch");
  EXPECT_EQ(names.at("input_ids").at(0).max, Range::kMax);
  EXPECT_EQ(names.at("attention_mask").at(1).name, "sequence");
  EXPECT_EQ(names.at("attention_mask").at(1).max, 16);
}

TEST(Bert, ASequenceBeyondTheLastPositionIsAnErrorWithBothSizes) {
  const std::string message = error_of([] { (*tiny())(tokens(1, 17)); });
  EXPECT_NE(message.find("the sequence (axis 1) has 17 positions, the model has 16"), std::string::npos) << message;
  EXPECT_NE(message.find("embeddings"), std::string::npos) << message;
  EXPECT_NE(error_of([] { tiny()->sample_inputs({.batch = 1, .sequence = 17}); }).find("16"), std::string::npos);
}

TEST(Bert, UnknownArgumentsAreNamedWithThoseItTakes) {
  ForwardArgs args = tokens(1, 2);
  args.set("atention_mask", at::ones({1, 2}, at::kLong));
  const std::string message = error_of([&] { (*tiny())(args); });
  EXPECT_NE(message.find("\"atention_mask\""), std::string::npos) << message;
  EXPECT_NE(message.find("attention_mask, token_type_ids"), std::string::npos) << message;
}

TEST(Bert, ArgumentsOfDecodersAndLossesAreRefusedUnlessNone) {
  for (const char* name : {"labels", "encoder_hidden_states", "cache"}) {
    ForwardArgs args = tokens(1, 2);
    args.set(name, PyTree());
    EXPECT_NO_THROW((*tiny())(args)) << name;
    args.set(name, at::zeros({1, 2}, at::kLong));
    EXPECT_NE(error_of([&] { (*tiny())(args); }).find(name), std::string::npos);
  }
}

TEST(Bert, IndexValuesOutsideTheTableAreNamed) {
  const std::string message = error_of([] { (*tiny())(tokens(1, 2, 53)); });
  EXPECT_NE(message.find("contains 53, the model takes 0 to 52 (vocab_size)"), std::string::npos) << message;
  EXPECT_NE(error_of([] { (*tiny())(tokens(1, 2, -1)); }).find("contains -1"), std::string::npos);
}

TEST(Bert, RanksAndDtypesAreChecked) {
  const auto model = tiny();
  EXPECT_NE(error_of([&] {
              (*model)({{"input_ids", at::zeros({2}, at::kLong)}});
            }).find("1 dimensions, expected 2"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              (*model)({{"input_ids", at::zeros({1, 2})}});
            }).find("expected int64 or int32"),
            std::string::npos);
  EXPECT_NE(error_of([&] { (*model)(ForwardArgs{}); }).find("neither input_ids nor inputs_embeds"), std::string::npos);
  ForwardArgs both = tokens(1, 2);
  both.set("inputs_embeds", at::zeros({1, 2, 24}));
  EXPECT_NE(error_of([&] { (*model)(both); }).find("both input_ids and inputs_embeds"), std::string::npos);
}

TEST(Bert, AMaskThatDoesNotFitTheInputsIsAnError) {
  for (const auto& sizes : {std::vector<int64_t>{2, 4}, {1, 3}, {2, 1}}) {
    ForwardArgs args = tokens(2, 3);
    args.set("attention_mask", at::ones(sizes, at::kLong));
    const std::string message = error_of([&] { (*tiny())(args); });
    EXPECT_NE(message.find("the other inputs make it [2, 3]"), std::string::npos) << message;
  }
}

TEST(Bert, ChoicesMustAgreeAmongTheInputs) {
  const std::string message = error_of([] {
    (*tiny("BertForMultipleChoice_gelu_0"))(
        {{"input_ids", at::zeros({2, 3, 4}, at::kLong)}, {"attention_mask", at::ones({3, 2, 4}, at::kLong)}});
  });
  EXPECT_NE(message.find("make its first axes [2, 3]"), std::string::npos) << message;
}

TEST(Bert, EmptyBatchesAndSequencesOfOneGiveTheirShapes) {
  const auto model = tiny();
  ForwardArgs none = tokens(0, 3);
  none.set("attention_mask", at::ones({0, 3}, at::kLong));
  EXPECT_EQ((*model)(none).at("last_hidden_state").tensor().sizes(), (std::vector<int64_t>{0, 3, 24}));
  EXPECT_EQ((*model)(tokens(4, 1)).at("pooler_output").tensor().sizes(), (std::vector<int64_t>{4, 24}));
}

}  // namespace
}  // namespace exporters::models
