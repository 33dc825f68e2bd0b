#include "exporters/models/seq2seq.h"

#include "exporters/models/registry.h"
#include "exporters/weights/safetensors.h"
#include "tests/models/decoder_recorded.h"
#include "tests/models/recorded.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <set>

namespace exporters::models {
namespace {

using testing::checkpoints;
using testing::DecoderCall;
using testing::error_of;
using testing::recordings;

namespace fs = std::filesystem;

// The same kernels as the reference's, but norms are one operator here, and masks are always spelled out.
constexpr double kFloat32 = 1e-5;
// Two roundings of an activation of size 4: bfloat16 keeps 8 bits, float16 keeps 11.
constexpr double kBFloat16 = 2 * 4.0 / 256;
constexpr double kFloat16 = 2 * 4.0 / 2048;

double tolerance_for(c10::ScalarType dtype) {
  return dtype == at::kBFloat16 ? kBFloat16 : dtype == at::kHalf ? kFloat16 : kFloat32;
}

fs::path reference() { return testing::reference_folder("seq2seq"); }

class Seq2SeqFamilies : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<fs::path> folders() { return checkpoints(reference() / GetParam()); }
};

// Given random checkpoints of every head, several configs and seeds, when they are loaded and called as generate calls
// them (an encoder's output, then prefill and decode, padded left and right) and in other ways, then the output's
// class, fields, caches and values are the reference's.
TEST_P(Seq2SeqFamilies, EqualTheReference) {
  size_t count = 0;
  for (const fs::path& folder : folders()) {
    SCOPED_TRACE(folder.filename().string());
    const auto model = load(folder);
    EXPECT_TRUE(folder.filename().string().starts_with(model->class_name() + "_"));
    for (const fs::path& file : recordings(folder)) {
      SCOPED_TRACE(file.filename().string());
      const DecoderCall call(file);
      call.expect((*model)(call.args), tolerance_for(model->load_report().dtype));
      ++count;
    }
  }
  EXPECT_GT(count, 50u);
}

TEST_P(Seq2SeqFamilies, HaveAnEncoderThatRunsByItself) {
  size_t count = 0;
  for (const fs::path& folder : folders()) {
    for (const fs::path& file : recordings(folder, "encoder_")) {
      SCOPED_TRACE(file.string());
      const auto model = load(folder);
      const DecoderCall call(file);
      ASSERT_NE(model->encoder(), nullptr);
      call.expect((*model->encoder())(call.args), tolerance_for(model->load_report().dtype));
      ++count;
    }
  }
  EXPECT_GE(count, 4u);
}

TEST_P(Seq2SeqFamilies, HaveTheReferencesStateInItsOrder) {
  for (const fs::path& folder : folders()) {
    SCOPED_TRACE(folder.filename().string());
    testing::expect_state(*load(folder), folder);
  }
}

// An encoder's parameters are the model's, at the same place of the same file.
TEST_P(Seq2SeqFamilies, ShareTheEncodersWeights) {
  std::unique_ptr<PreTrainedModel> model;
  for (const fs::path& folder : folders()) {
    model = load(folder);
    if (model->encoder() != nullptr) {
      break;
    }
  }
  ASSERT_NE(model->encoder(), nullptr);
  std::map<const void*, StateEntry> whole;
  for (const StateEntry& entry : model->state()) {
    whole.emplace(entry.tensor.unsafeGetTensorImpl(), entry);
  }
  for (const StateEntry& entry : model->encoder()->state()) {
    const auto found = whole.find(entry.tensor.unsafeGetTensorImpl());
    ASSERT_NE(found, whole.end()) << entry.name;
    EXPECT_EQ(entry.source, found->second.source) << entry.name;
  }
}

// Every head that the registry lists is among the checkpoints, and the other way round.
TEST_P(Seq2SeqFamilies, AreListedWithEveryHead) {
  EXPECT_EQ(testing::heads_listed(GetParam()), testing::heads_made(reference() / GetParam()));
}

TEST_P(Seq2SeqFamilies, SamplesRunWithAndWithoutACache) {
  std::set<std::string> seen;
  for (const fs::path& folder : folders()) {
    const auto model = load(folder);
    if (!seen.insert(model->class_name()).second) {
      continue;
    }
    SCOPED_TRACE(folder.filename().string());
    testing::expect_sample_runs(*model, {.batch = 1, .sequence = 3, .source = 4});
    const std::vector<ArgumentSpec> specs = model->arguments();
    if (std::any_of(specs.begin(), specs.end(), [](const ArgumentSpec& spec) { return spec.name == "cache"; })) {
      testing::expect_sample_runs(*model, {.batch = 1, .sequence = 3, .past = 5, .source = 4});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Seq2SeqFamilies,
                         ::testing::Values("t5", "mt5", "bart", "mbart", "marian", "m2m_100", "nllb-moe", "whisper"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

fs::path plain_t5(const std::string& head = "ForConditionalGeneration") {
  return reference() / "t5" / ("T5" + head + "_plain_0");
}

// A copy of a checkpoint with other tensors.
void save_changed(const fs::path& source, const fs::path& target,
                  const std::function<void(std::map<std::string, at::Tensor>&)>& change) {
  const auto file = SafetensorsFile::open(source / "model.safetensors");
  std::map<std::string, at::Tensor> tensors;
  for (const SafetensorsEntry& entry : file->entries()) {
    tensors.emplace(entry.name, file->tensor(entry).clone());
  }
  change(tensors);
  fs::copy_file(source / "config.json", target / "config.json");
  save_safetensors(target / "model.safetensors", {tensors.begin(), tensors.end()});
}

// Given that one table is stored under any of its four names, then all four are that table.
TEST(Seq2Seq, OneStoredEmbeddingStandsForAllThatAreTied) {
  const auto expected = load(plain_t5());
  const ForwardArgs sample = expected->sample_inputs({.batch = 2, .sequence = 3, .source = 5});
  const at::Tensor logits = (*expected)(sample).at("logits").tensor();
  for (const char* name :
       {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}) {
    SCOPED_TRACE(name);
    const testing::TemporaryFolder folder;
    save_changed(plain_t5(), folder.path(), [name](std::map<std::string, at::Tensor>& tensors) {
      const auto shared = tensors.extract("shared.weight");
      ASSERT_FALSE(shared.empty());
      tensors.emplace(name, shared.mapped());
    });
    const auto model = load(folder.path());
    EXPECT_TRUE((*model)(sample).at("logits").tensor().equal(logits));
    EXPECT_TRUE(model->load_report().untied.empty());
  }
}

// Given a head and an embedding that are stored and differ though the config ties them, then both are used, and said to
// be; with none of the tied weights stored, the missing ones are named.
TEST(Seq2Seq, TiedWeightsThatDifferAreBothUsedAndMissingOnesNamed) {
  const testing::TemporaryFolder folder;
  save_changed(plain_t5(), folder.path(), [](std::map<std::string, at::Tensor>& tensors) {
    tensors["lm_head.weight"] = at::zeros_like(tensors.at("shared.weight"));
  });
  const auto model = load(folder.path());
  EXPECT_EQ(model->load_report().untied, (std::vector<std::string>{"lm_head.weight"}));
  const PyTree output = (*model)(model->sample_inputs({.batch = 1, .sequence = 2}));
  EXPECT_EQ(at::max(at::abs(output.at("logits").tensor())).item<float>(), 0);

  const testing::TemporaryFolder none;
  save_changed(plain_t5(), none.path(), [](auto& tensors) { tensors.erase("shared.weight"); });
  const std::string message = error_of([&] { load(none.path()); });
  for (const char* name : {"shared.weight", "encoder.embed_tokens.weight", "lm_head.weight"}) {
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

// The encoder of a whole checkpoint can be loaded alone; what belongs to the decoder is no surprise.
TEST(Seq2Seq, AnEncoderIsLoadedFromAWholeCheckpoint) {
  const auto encoder = load(plain_t5(), {.architecture = "T5EncoderModel"});
  EXPECT_EQ(encoder->load_report().surplus_keys, std::vector<std::string>{});
  const auto whole = load(plain_t5());
  const ForwardArgs sample = encoder->sample_inputs({.batch = 2, .source = 6});
  EXPECT_TRUE((*encoder)(sample)
                  .at("last_hidden_state")
                  .tensor()
                  .equal((*whole->encoder())(sample).at("last_hidden_state").tensor()));
}

TEST(Seq2Seq, ACacheThatDoesNotFitIsAnError) {
  const auto model = load(plain_t5());
  ForwardArgs sample = model->sample_inputs({.batch = 2, .sequence = 1, .past = 3, .source = 5});
  const auto message = [&](const std::function<void(ForwardArgs&)>& change) {
    ForwardArgs args = sample;
    change(args);
    return error_of([&] { (*model)(args); });
  };
  const auto cache_of = [&](int64_t source) {
    return *model->sample_inputs({.batch = 2, .sequence = 1, .past = 3, .source = source}).find("cache");
  };
  EXPECT_NE(message([&](ForwardArgs& args) { args.set("cache", cache_of(4)); }).find("keys of the encoder"),
            std::string::npos);
  EXPECT_NE(message([&](ForwardArgs& args) {
              args.set("cache", DynamicCache().to_tree());
            }).find("takes an EncoderDecoderCache"),
            std::string::npos);
  EXPECT_NE(message([&](ForwardArgs& args) {
              args.set("encoder_outputs", at::zeros({2, 5, 32}));
            }).find("expected the outputs of an encoder"),
            std::string::npos);
  EXPECT_NE(message([&](ForwardArgs& args) {
              args.set("decoder_inputs_embeds", at::zeros({2, 1, 32}));
            }).find("both decoder_input_ids and decoder_inputs_embeds"),
            std::string::npos);
  EXPECT_NE(message([&](ForwardArgs& args) {
              args.set("attention_mask", at::ones({2, 4}, at::kLong));
            }).find("attention_mask is [2, 4]"),
            std::string::npos);
}

TEST(Seq2Seq, RowsAreClassifiedAtTheirEndOfSequence) {
  const auto model = load(plain_t5("ForSequenceClassification"));
  const at::Tensor ids = at::full({2, 4}, 5, at::kLong);
  EXPECT_NE(error_of([&] {
              (*model)({{"input_ids", ids}});
            }).find("from 0 to 0 end-of-sequence tokens"),
            std::string::npos);
  ids[0][1] = 1;
  EXPECT_NE(error_of([&] {
              (*model)({{"input_ids", ids}});
            }).find("from 0 to 1 end-of-sequence tokens"),
            std::string::npos);
  ids[1][3] = 1;
  EXPECT_NO_THROW((*model)({{"input_ids", ids}}));
}

TEST(Seq2Seq, ConfigValuesThatAreNotImplementedOrMakeNoSenseAreErrors) {
  struct BadConfig {
    const char* changes;
    const char* message;
  };
  const auto base = nlohmann::json::parse(std::ifstream(plain_t5() / "config.json"));
  for (const BadConfig& bad : {
           BadConfig{R"({"is_decoder": true})", "is_decoder"},
           {R"({"feed_forward_proj": "gated-gelu-new"})", "feed_forward_proj"},
           {R"({"feed_forward_proj": "gated-reluu"})", "relu"},
           {R"({"relative_attention_num_buckets": 2})", "too few"},
           {R"({"relative_attention_max_distance": 1})", "largest relative distance"},
           {R"({"num_layers": 0})", "num_layers"},
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
