// Generation by traced programs: exported once, saved, read back, and run by the interpreter.
#include "exporters/dynamo/exporter.h"
#include "exporters/framework/pretrained_source.h"
#include "tests/reference/generation_export.h"
#include "tests/support/error_of.h"
#include "tests/support/exported_images.h"
#include "tests/support/exported_states.h"

#include <gmock/gmock.h>

#include <mutex>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using testing::exported_for_generation;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

fs::path decoder(const std::string& family, const std::string& name) {
  return testing::reference_folder("decoders") / family / name;
}

class DynamoGeneration : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_dynamo_backend);
  }
};

// Given a sample of one row and five tokens, when 32 tokens are generated greedily for a batch of two with left
// padding, past windows and the lengths at which ropes change, and for a row alone, then they are the reference's.
TEST_P(DynamoGeneration, GivesTheReferencesTokens) {
  for (const fs::path& checkpoint : testing::language_models(GetParam())) {
    DynamoConfig config;
    const TemporaryFolder folder;
    const ExportedModel exported = exported_for_generation(DynamoExporter(), config, checkpoint, folder);
    testing::expect_reference_tokens(exported, checkpoint, {"greedy", "alone", "stops"});
  }
}

INSTANTIATE_TEST_SUITE_P(All, DynamoGeneration, ::testing::ValuesIn(testing::kDecoderFamilies),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Encoders, DynamoGeneration, ::testing::ValuesIn(testing::kCausalEncoders), testing::test_name);

class DynamoGenerationWithEncoder : public DynamoGeneration {};

// The folder alone generates: the encoder is one of its components, which the reference leaves out.
TEST_P(DynamoGenerationWithEncoder, GivesTheReferencesTokens) {
  for (const fs::path& checkpoint : testing::conditional_generators(GetParam())) {
    DynamoConfig config;
    const TemporaryFolder folder;
    if (testing::outgrows_positions(checkpoint)) {
      EXPECT_THAT(testing::error_of([&] { exported_for_generation(DynamoExporter(), config, checkpoint, folder); }),
                  HasSubstr("max_position_embeddings"));
      continue;
    }
    const ExportedModel exported = exported_for_generation(DynamoExporter(), config, checkpoint, folder);
    EXPECT_NO_THROW(exported.component("encoder"));
    testing::expect_reference_tokens(exported, checkpoint, {"greedy"});
  }
}

INSTANTIATE_TEST_SUITE_P(All, DynamoGenerationWithEncoder, ::testing::ValuesIn(testing::kSeq2SeqFamilies),
                         testing::test_name);

// ── Images and text ──

TEST_F(DynamoGeneration, AForwardWithImagesRunsAtOtherSizes) {
  testing::expect_exported_image_text<DynamoExporter, DynamoConfig>();
}

// The folder alone generates, with images and without: it has the image encoder and the embedding of tokens, which the
// reference leaves out.
TEST_F(DynamoGeneration, ImagesAndTextGiveTheReferencesTokens) {
  for (const fs::path& checkpoint : testing::image_text_generators()) {
    DynamoConfig config;
    const TemporaryFolder folder;
    const ExportedModel exported = testing::exported_for_generation(DynamoExporter(), config, checkpoint, folder);
    std::vector<std::string> names;
    for (const auto& [name, component] : exported.components()) {
      names.push_back(name);
    }
    EXPECT_THAT(names, ::testing::UnorderedElementsAre("image_encoder", "multi_modal_projector", "embed_tokens",
                                                       "language_model", "lm_head", "decode"));
    testing::expect_reference_tokens(exported, checkpoint, {"greedy", "alone", "text"});
    testing::GenerationCase wrong = testing::generation_case(checkpoint, "greedy");
    for (auto& [name, value] : wrong.inputs) {
      value = name == "pixel_values" ? PyTree(value.tensor().slice(0, 0, 1).contiguous()) : value;
    }
    EXPECT_THAT(testing::error_of([&] { exported.generate(wrong.inputs, wrong.settings); }),
                HasSubstr("image tokens, the images give"));
  }
}

// ── States ──

TEST_F(DynamoGeneration, RecurrentModelsRunAtOtherSizes) {
  DynamoConfig config;
  config.dynamic = true;
  testing::expect_exported_states<DynamoExporter>(config);
}

class DynamoGenerationOf : public DynamoGeneration {};

TEST_P(DynamoGenerationOf, AStaticCacheGivesTheSameTokens) {
  for (const fs::path& checkpoint : testing::language_models(GetParam())) {
    DynamoConfig config;
    const TemporaryFolder folder;
    const ExportedModel exported =
        exported_for_generation(DynamoExporter(), config, checkpoint, folder,
                                {.settings = {{"cache_implementation", "static"}, {"max_cache_len", "38"}}});
    testing::expect_reference_tokens(exported, checkpoint, {"greedy", "alone", "sampled"});
  }
}

TEST_P(DynamoGenerationOf, OneComponentDoesBoth) {
  for (const fs::path& checkpoint : testing::language_models(GetParam())) {
    DynamoConfig config;
    const TemporaryFolder folder;
    const ExportedModel exported =
        exported_for_generation(DynamoExporter(), config, checkpoint, folder, {.merged = true});
    ASSERT_EQ(exported.components().size(), 1u);
    testing::expect_reference_tokens(exported, checkpoint, {"greedy", "held", "sampled"});
  }
}

INSTANTIATE_TEST_SUITE_P(Some, DynamoGenerationOf, ::testing::Values("llama", "gpt2", "mistral", "gemma3_text"),
                         [](const auto& info) { return std::string(info.param); });

class DynamoGenerationStaticCacheWithEncoder : public DynamoGeneration {};

// The decoder's keys have a room of their own; the encoder's are as many as they are.
TEST_P(DynamoGenerationStaticCacheWithEncoder, AStaticCacheGivesTheSameTokens) {
  for (const fs::path& checkpoint : testing::conditional_generators(GetParam())) {
    DynamoConfig config;
    const TemporaryFolder folder;
    const ExportedModel exported =
        testing::exported_for_generation(DynamoExporter(), config, checkpoint, folder,
                                         {.settings = {{"cache_implementation", "static"}, {"max_cache_len", "20"}}});
    testing::expect_reference_tokens(exported, checkpoint, {"greedy"});
    EXPECT_THAT(testing::error_of([&] {
                  const auto recorded = testing::generation_case(checkpoint, "greedy");
                  exported.generate(recorded.inputs, {{"max_new_tokens", "21"}});
                }),
                HasSubstr("has room for 20"));
  }
}

INSTANTIATE_TEST_SUITE_P(Some, DynamoGenerationStaticCacheWithEncoder, ::testing::Values("t5", "bart", "whisper"),
                         testing::test_name);

TEST_F(DynamoGeneration, ConfigsMayBeGivenByComponentAndMissingOnesAreNamed) {
  DynamoConfig dynamic;
  dynamic.dynamic = true;
  GenerationExport request;
  request.model = models::load(decoder("llama", "LlamaForCausalLM_plain_0"));
  for (const auto& [name, value] : request.model->sample_inputs({.batch = 2, .sequence = 4})) {
    request.sample_inputs.emplace_back(name, value);
  }
  request.component_configs = {{"prefill", &dynamic}};
  EXPECT_THAT(testing::error_of([&] { DynamoExporter().export_for_generation(request); }),
              HasSubstr("configs by component lack decode"));

  DynamoConfig ranged;
  ranged.dynamic = true;
  ranged.dynamic_shapes = {{"input_ids", {{0, Dim::named("batch", 1, 7)}}}};
  request.component_configs["decode"] = &ranged;
  const ExportedModel exported = DynamoExporter().export_for_generation(request);
  EXPECT_THAT(exported.component("decode").metadata.export_config, HasSubstr("max=7"));
  EXPECT_THAT(exported.component("prefill").metadata.export_config, Not(HasSubstr("max=7")));
}

TEST_F(DynamoGeneration, AComponentThatFailsIsNamed) {
  DynamoConfig config;
  config.dynamic = true;
  config.dynamic_shapes = {{"cache.layers.0.keys", {{0, Dim::named("batch", 1, 7)}}}};
  GenerationExport request;
  request.model = models::load(decoder("llama", "LlamaForCausalLM_plain_0"));
  for (const auto& [name, value] : request.model->sample_inputs({.batch = 2, .sequence = 4})) {
    request.sample_inputs.emplace_back(name, value);
  }
  request.config = &config;
  EXPECT_THAT(testing::error_of([&] { DynamoExporter().export_for_generation(request); }),
              HasSubstr("component 'prefill'"));
}

// A static export fixes the sizes: prefill and decode of the sample's, one token of generation.
TEST_F(DynamoGeneration, FixedSizesKeepTheWindowsOfCaches) {
  const fs::path checkpoint = decoder("mistral", "MistralForCausalLM_window_0");
  const testing::GenerationCase recorded = testing::generation_case(checkpoint, "greedy");
  DynamoConfig config;
  GenerationExport request;
  request.model = models::load(checkpoint);
  request.sample_inputs = recorded.inputs;
  request.config = &config;
  request.generation_config = load_generation_config(checkpoint, recorded.settings);
  const ExportedModel exported = DynamoExporter().export_for_generation(request);
  EXPECT_EQ(exported.component("decode").metadata.kwargs.back().sample.tensors()[0].second.size(2), 3);
  const at::Tensor sequences = exported.generate(recorded.inputs, {{"max_new_tokens", "2"}});
  EXPECT_TRUE(at::equal(sequences, recorded.sequences.slice(1, 0, sequences.size(1)))) << sequences;
  EXPECT_THAT(testing::error_of([&] {
                exported.generate(recorded.inputs, {{"max_new_tokens", "3"}});
              }),
              HasSubstr("takes 8 only"));
}

TEST_F(DynamoGeneration, AnExportOfOneForwardSaysWhatGenerationNeeds) {
  DynamoConfig config;
  const std::shared_ptr<const models::PreTrainedModel> model =
      models::load(decoder("llama", "LlamaForCausalLM_plain_0"));
  NamedInputs inputs;
  for (const auto& [name, value] : model->sample_inputs({})) {
    inputs.emplace_back(name, value);
  }
  const ExportedModel exported = DynamoExporter().export_model(export_source(model), inputs, config);
  EXPECT_THAT(testing::error_of([&] { exported.generate(inputs); }), HasSubstr("no component 'decode'"));
}

}  // namespace
}  // namespace exporters
