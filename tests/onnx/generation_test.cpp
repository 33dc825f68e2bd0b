// Generation by ONNX programs: exported once, saved, read back, and run by ONNX Runtime.
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/exporter.h"
#include "tests/reference/generation_export.h"
#include "tests/support/error_of.h"
#include "tests/support/exported_images.h"
#include "tests/support/exported_states.h"

#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <mutex>

namespace exporters::onnx {
namespace {

namespace fs = std::filesystem;
using exporters::testing::expect_reference_tokens;
using exporters::testing::exported_for_generation;
using exporters::testing::GenerationExportOptions;
using exporters::testing::language_models;
using exporters::testing::TemporaryFolder;
using ::testing::HasSubstr;

class OnnxGeneration : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_onnx_backend);
  }

  static ExportedModel exported(const fs::path& checkpoint, const TemporaryFolder& folder,
                                const GenerationExportOptions& options = {}) {
    OnnxConfig config;
    return exported_for_generation(OnnxExporter(), config, checkpoint, folder, options);
  }

  static fs::path llama() {
    return exporters::testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0";
  }
};

// Given a sample of one row and five tokens, when 32 tokens are generated greedily for a batch of two with left
// padding, past windows and the lengths at which ropes change, and for a row alone, then they are the reference's.
TEST_P(OnnxGeneration, GivesTheReferencesTokens) {
  for (const fs::path& checkpoint : language_models(GetParam())) {
    const TemporaryFolder folder;
    expect_reference_tokens(exported(checkpoint, folder), checkpoint, {"greedy", "alone", "stops"});
  }
}

// One graph for the prompt, from an empty cache, and for each token after it.
TEST_P(OnnxGeneration, OneComponentDoesBoth) {
  for (const fs::path& checkpoint : language_models(GetParam())) {
    const TemporaryFolder folder;
    const ExportedModel merged = exported(checkpoint, folder, {.merged = true});
    ASSERT_EQ(merged.components().size(), 1u);
    expect_reference_tokens(merged, checkpoint, {"greedy", "alone"});
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnnxGeneration, ::testing::ValuesIn(exporters::testing::kDecoderFamilies),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Encoders, OnnxGeneration, ::testing::ValuesIn(exporters::testing::kCausalEncoders),
                         exporters::testing::test_name);

class OnnxGenerationWithEncoder : public OnnxGeneration {};

// The folder alone generates: the encoder is one of its components, which the reference leaves out.
TEST_P(OnnxGenerationWithEncoder, GivesTheReferencesTokens) {
  for (const fs::path& checkpoint : exporters::testing::conditional_generators(GetParam())) {
    const TemporaryFolder folder;
    if (exporters::testing::outgrows_positions(checkpoint)) {
      EXPECT_THAT(exporters::testing::error_of([&] { OnnxGeneration::exported(checkpoint, folder); }),
                  HasSubstr("max_position_embeddings"));
      continue;
    }
    const ExportedModel exported = OnnxGeneration::exported(checkpoint, folder);
    EXPECT_NO_THROW(exported.component("encoder"));
    exporters::testing::expect_reference_tokens(exported, checkpoint, {"greedy"});
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnnxGenerationWithEncoder, ::testing::ValuesIn(exporters::testing::kSeq2SeqFamilies),
                         exporters::testing::test_name);

// ── Images and text ──

TEST_F(OnnxGeneration, AForwardWithImagesRunsAtOtherSizes) {
  exporters::testing::expect_exported_image_text<OnnxExporter, OnnxConfig>();
}

// The folder alone generates, with images and without: it has the image encoder and the embedding of tokens, which the
// reference leaves out.
TEST_F(OnnxGeneration, ImagesAndTextGiveTheReferencesTokens) {
  for (const fs::path& checkpoint : exporters::testing::image_text_generators()) {
    OnnxConfig config;
    const TemporaryFolder folder;
    const ExportedModel exported =
        exporters::testing::exported_for_generation(OnnxExporter(), config, checkpoint, folder);
    std::vector<std::string> names;
    for (const auto& [name, component] : exported.components()) {
      names.push_back(name);
    }
    EXPECT_THAT(names, ::testing::UnorderedElementsAre("image_encoder", "multi_modal_projector", "embed_tokens",
                                                       "language_model", "lm_head", "decode"));
    exporters::testing::expect_reference_tokens(exported, checkpoint, {"greedy", "alone", "text"});
    exporters::testing::GenerationCase wrong = exporters::testing::generation_case(checkpoint, "greedy");
    for (auto& [name, value] : wrong.inputs) {
      value = name == "pixel_values" ? PyTree(value.tensor().slice(0, 0, 1).contiguous()) : value;
    }
    EXPECT_THAT(exporters::testing::error_of([&] { exported.generate(wrong.inputs, wrong.settings); }),
                HasSubstr("image tokens, the images give"));
  }
}

// ── States ──

TEST_F(OnnxGeneration, RecurrentModelsRunAtOtherSizes) {
  OnnxConfig config;
  config.dynamic = true;
  exporters::testing::expect_exported_states<OnnxExporter>(config);
}

class OnnxGenerationOf : public OnnxGeneration {};

TEST_P(OnnxGenerationOf, AStaticCacheGivesTheSameTokens) {
  for (const bool merged : {false, true}) {
    for (const fs::path& checkpoint : language_models(GetParam())) {
      const TemporaryFolder folder;
      const ExportedModel model =
          exported(checkpoint, folder,
                   {.settings = {{"cache_implementation", "static"}, {"max_cache_len", "38"}}, .merged = merged});
      expect_reference_tokens(model, checkpoint, {"greedy", "alone", "sampled"});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Some, OnnxGenerationOf, ::testing::Values("llama", "gpt2", "mistral", "gemma3_text"),
                         [](const auto& info) { return std::string(info.param); });

class OnnxGenerationStaticCacheWithEncoder : public OnnxGeneration {};

// The decoder's keys have a room of their own; the encoder's are as many as they are.
TEST_P(OnnxGenerationStaticCacheWithEncoder, AStaticCacheGivesTheSameTokens) {
  for (const fs::path& checkpoint : exporters::testing::conditional_generators(GetParam())) {
    OnnxConfig config;
    const TemporaryFolder folder;
    const ExportedModel exported = exporters::testing::exported_for_generation(
        OnnxExporter(), config, checkpoint, folder,
        {.settings = {{"cache_implementation", "static"}, {"max_cache_len", "20"}}});
    exporters::testing::expect_reference_tokens(exported, checkpoint, {"greedy"});
    EXPECT_THAT(exporters::testing::error_of([&] {
                  const auto recorded = exporters::testing::generation_case(checkpoint, "greedy");
                  exported.generate(recorded.inputs, {{"max_new_tokens", "21"}});
                }),
                HasSubstr("has room for 20"));
  }
}

INSTANTIATE_TEST_SUITE_P(Some, OnnxGenerationStaticCacheWithEncoder, ::testing::Values("t5", "bart", "whisper"),
                         exporters::testing::test_name);

// Given one head for all queries, and as many as there are, when the components are exported, then caches have the
// reference's names on both sides, one rank and one order of axes, and only head counts and dimensions are numbers.
TEST_F(OnnxGeneration, CachesHaveTheReferencesNamesAndAxes) {
  struct Expected {
    const char* checkpoint;
    int layers;
    const char* heads;
  };
  for (const Expected& expected :
       {Expected{"llama/LlamaForCausalLM_three_0", 3, "1"}, Expected{"gpt2/GPT2LMHeadModel_plain_0", 2, "4"}}) {
    SCOPED_TRACE(expected.checkpoint);
    const TemporaryFolder folder;
    const ExportedModel model =
        exported(exporters::testing::reference_folder("decoders") / expected.checkpoint, folder);
    const auto names = [](const std::vector<ValueDescription>& values) {
      std::vector<std::string> result;
      for (const ValueDescription& value : values) {
        result.push_back(value.name);
      }
      return result;
    };
    const auto caches = [&](const std::string& prefix, std::vector<std::string> result = {}) {
      for (int layer = 0; layer < expected.layers; ++layer) {
        for (const char* states : {"keys", "values"}) {
          result.push_back(fmt::format("{}cache.layers.{}.{}", prefix, layer, states));
        }
      }
      return result;
    };
    const auto prefill = OnnxExporter().describe_program(*model.component("prefill").program);
    EXPECT_EQ(names(prefill.inputs), (std::vector<std::string>{"input_ids", "attention_mask", "position_ids"}));
    EXPECT_EQ(names(prefill.outputs), caches("", {"logits"}));
    const auto decode = OnnxExporter().describe_program(*model.component("decode").program);
    EXPECT_EQ(names(decode.inputs), caches("input.", {"input_ids", "attention_mask", "position_ids"}));
    EXPECT_EQ(names(decode.outputs), caches("output.", {"logits"}));
    EXPECT_EQ(decode.inputs[0].dims, (std::vector<std::string>{"batch", "sequence"}));
    // The mask comes first and names the length of both, past and new.
    EXPECT_EQ(decode.inputs[3].dims, (std::vector<std::string>{"batch", expected.heads, "past", "8"}));
    EXPECT_EQ(prefill.outputs[1].dims, (std::vector<std::string>{"batch", expected.heads, "sequence", "8"}));
  }
}

// Given two components of one checkpoint, when they are saved, then its weights are in one file.
TEST_F(OnnxGeneration, ComponentsShareTheirWeightsOnDisk) {
  const TemporaryFolder folder;
  exported(llama(), folder);
  const auto size = [&](const fs::path& file) { return fs::file_size(file); };
  const uint64_t weights = size(llama() / "model.safetensors");
  EXPECT_GT(size(folder / "prefill.onnx.data"), weights / 2);
  EXPECT_LT(size(folder / "prefill.onnx.data") + size(folder / "decode.onnx.data"), weights * 11 / 10 + 8192);
  const OnnxModel decode = read_model(folder / "decode.onnx");
  size_t shared = 0;
  for_each_tensor(decode.graph, [&](const OnnxTensor& tensor) {
    const auto* stored = std::get_if<StoredBytes>(&tensor.data);
    shared += stored != nullptr && stored->location == "prefill.onnx.data" ? 1 : 0;
  });
  EXPECT_GT(shared, 10u);
  // Saved again from the files, they still share.
  const TemporaryFolder again;
  ExportedModel::from_pretrained(folder.path()).save_pretrained(again.path());
  EXPECT_LT(size(again / "prefill.onnx.data") + size(again / "decode.onnx.data"), weights * 11 / 10 + 8192);
}

// The weights of another dtype than the checkpoint's are converted once, too.
TEST_F(OnnxGeneration, ConvertedWeightsAreWrittenOnce) {
  OnnxConfig config;
  config.dynamic = true;
  GenerationExport request;
  request.model = models::load_for_export(llama(), {.dtype = at::kHalf});
  request.sample_inputs = {{"input_ids", at::ones({1, 4}, at::kLong)}};
  request.config = &config;
  const TemporaryFolder folder;
  OnnxExporter().export_for_generation(request).save_pretrained(folder.path());
  EXPECT_LT(fs::file_size(folder / "decode.onnx.data"), 4096u);
}

// A cache of fixed length is written where it is, step by step.
TEST_F(OnnxGeneration, AStaticCacheStaysWhereItIs) {
  const TemporaryFolder folder;
  const ExportedModel model =
      exported(llama(), folder, {.settings = {{"cache_implementation", "static"}, {"max_cache_len", "16"}}});
  const ExportedComponent& decode = model.component("decode");
  std::vector<PyTree::Leaf> leaves;
  for (const std::string& path : decode.metadata.in_spec.children[1].children.back().leaf_paths()) {
    leaves.emplace_back(path.ends_with("cumulative_length") ? at::zeros({}, at::kLong) : at::zeros({2, 2, 16, 8}));
  }
  const PyTree cache = PyTree::unflatten(decode.metadata.in_spec.children[1].children.back(), std::move(leaves));
  at::Tensor mask = at::zeros({2, 1, 1, 16}, at::kBool);
  mask.select(3, 0).fill_(true);
  const NamedInputs inputs = {{"input_ids", at::ones({2, 1}, at::kLong)},
                              {"attention_mask", mask},
                              {"position_ids", at::zeros({2, 1}, at::kLong)},
                              {"cache", cache}};
  const PyTree apart = model.run("decode", inputs);
  EXPECT_EQ(cache.at("layers.0.keys").tensor().abs().max().item<double>(), 0.0);
  const PyTree over = model.run_in_place("decode", inputs);
  for (const char* path : {"layers.0.keys", "layers.1.values"}) {
    const at::Tensor& states = over.find("cache")->at(path).tensor();
    EXPECT_EQ(states.const_data_ptr(), cache.at(path).tensor().const_data_ptr()) << path;
    EXPECT_TRUE(at::equal(states, apart.find("cache")->at(path).tensor())) << path;
    EXPECT_GT(states.select(2, 0).abs().min().item<double>(), 0.0) << path;
  }
  EXPECT_EQ(over.find("cache")->at("layers.1.cumulative_length").tensor().item<int64_t>(), 1);
  EXPECT_TRUE(at::equal(over.at("logits").tensor(), apart.at("logits").tensor()));
}

TEST_F(OnnxGeneration, AnExportWithoutAMaskRefusesPaddedBatches) {
  const TemporaryFolder folder;
  const ExportedModel model = exported(llama(), folder, {.with_mask = false});
  expect_reference_tokens(model, llama(), {"alone"});
  const auto padded = exporters::testing::generation_case(llama(), "greedy");
  EXPECT_THAT(exporters::testing::error_of([&] { model.generate(padded.inputs, padded.settings); }),
              HasSubstr("takes no attention_mask"));
}

}  // namespace
}  // namespace exporters::onnx
