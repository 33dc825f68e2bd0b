// Generation by one method for prompt and tokens, with a static cache, and by methods of one file.
#include "exporters/executorch/exporter.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"
#include "tests/reference/generation_export.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>

#include <utility>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;
using exporters::testing::expect_reference_tokens;
using exporters::testing::exported_for_generation;
using exporters::testing::GenerationExportOptions;
using exporters::testing::language_models;
using exporters::testing::TemporaryFolder;
using ::testing::HasSubstr;

class OneMethodGeneration : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { testing::use_executorch(); }

  static ExportedModel exported(const fs::path& checkpoint, const TemporaryFolder& folder,
                                const GenerationExportOptions& options = {}) {
    ExecutorchConfig config;
    config.max_dims = {{"batch", 3}};
    return exported_for_generation(ExecutorchExporter(), config, checkpoint, folder, options);
  }
};

// One method for the prompt, from an empty cache, and for each token after it.
TEST_P(OneMethodGeneration, OneComponentDoesBoth) {
  for (const fs::path& checkpoint : language_models(GetParam())) {
    const TemporaryFolder folder;
    const ExportedModel merged = exported(checkpoint, folder, {.merged = true});
    ASSERT_EQ(merged.components().size(), 1u);
    expect_reference_tokens(merged, checkpoint, {"greedy", "alone"});
  }
}

INSTANTIATE_TEST_SUITE_P(Some, OneMethodGeneration, ::testing::Values("llama", "mistral", "gemma3_text", "gpt2", "opt"),
                         [](const auto& info) { return std::string(info.param); });

class StaticCacheGeneration : public OneMethodGeneration {};

TEST_P(StaticCacheGeneration, AStaticCacheGivesTheSameTokens) {
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

INSTANTIATE_TEST_SUITE_P(Some, StaticCacheGeneration, ::testing::Values("llama", "gpt2", "gemma"),
                         [](const auto& info) { return std::string(info.param); });

// ── One file ──

class CombinedMethods : public OneMethodGeneration {
 protected:
  static fs::path llama() {
    return exporters::testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0";
  }

  static ExportedModel combined(const fs::path& checkpoint, const TemporaryFolder& folder, bool keeps_cache,
                                int64_t batch = 1) {
    ExecutorchConfig config;
    config.combined = true;
    config.keeps_cache = keeps_cache;
    GenerationExportOptions options;
    options.sample.batch = batch;
    if (keeps_cache) {
      options.settings = {{"cache_implementation", "static"}, {"max_cache_len", "38"}};
    } else {
      config.max_dims = {{"batch", 3}};
    }
    return exported_for_generation(ExecutorchExporter(), config, checkpoint, folder, options);
  }
};

TEST_P(CombinedMethods, GiveTheReferencesTokens) {
  for (const fs::path& checkpoint : language_models(GetParam())) {
    const TemporaryFolder folder;
    expect_reference_tokens(combined(checkpoint, folder, false), checkpoint, {"greedy", "alone", "stops"});
  }
}

// The cache is neither an input nor an output: prefill leaves it in the program, and each prompt begins anew.
TEST_P(CombinedMethods, KeepTheCacheFromOneToTheOther) {
  for (const fs::path& checkpoint : language_models(GetParam())) {
    const TemporaryFolder one;
    const ExportedModel alone = combined(checkpoint, one, true);
    for (const char* component : {"prefill", "decode"}) {
      EXPECT_FALSE(alone.component(component).metadata.takes("cache"));
    }
    expect_reference_tokens(alone, checkpoint, {"alone", "alone"});
    const TemporaryFolder two;
    expect_reference_tokens(combined(checkpoint, two, true, 2), checkpoint, {"greedy", "greedy"});
  }
}

INSTANTIATE_TEST_SUITE_P(Some, CombinedMethods, ::testing::Values("llama", "qwen3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

class CombinedFile : public CombinedMethods {};

TEST_F(CombinedFile, HoldsTheWeightsOnce) {
  const TemporaryFolder apart;
  exported(llama(), apart);
  const TemporaryFolder folder;
  combined(llama(), folder, false);
  EXPECT_FALSE(fs::exists(folder / "prefill.pte"));
  EXPECT_FALSE(fs::exists(folder / "decode.pte"));
  const uint64_t weights = fs::file_size(llama() / "model.safetensors");
  const uint64_t both = fs::file_size(apart / "prefill.pte") + fs::file_size(apart / "decode.pte");
  EXPECT_GT(both, 2 * weights);
  EXPECT_LT(fs::file_size(folder / "model.pte"), both - weights * 9 / 10);
}

// Two exports of one file, each with a cache of its own: what one generates the other does not see.
TEST_F(CombinedFile, EachOpenedExportHasItsOwnState) {
  const TemporaryFolder folder;
  const ExportedModel first = combined(llama(), folder, true);
  const ExportedModel second = ExportedModel::from_pretrained(folder.path());
  const auto recorded = exporters::testing::generation_case(llama(), "alone");
  bool is_nested = false;
  const at::Tensor tokens = first.generate(recorded.inputs, recorded.settings, [&](const at::Tensor&) {
    if (!std::exchange(is_nested, true)) {
      EXPECT_TRUE(at::equal(second.generate(recorded.inputs, recorded.settings), recorded.sequences));
    }
    return true;
  });
  EXPECT_TRUE(is_nested);
  EXPECT_TRUE(at::equal(tokens, recorded.sequences));
}

TEST_F(CombinedFile, WhatCannotBeKeptIsRefused) {
  const TemporaryFolder folder;
  ExecutorchConfig config;
  config.keeps_cache = true;
  EXPECT_THAT(exporters::testing::error_of([&] { config.validate(); }), HasSubstr("Set combined"));
  config.combined = true;
  const auto export_with = [&](GenerationExportOptions options) {
    return exporters::testing::error_of(
        [&] { exported_for_generation(ExecutorchExporter(), config, llama(), folder, options); });
  };
  EXPECT_THAT(export_with({}), HasSubstr("cache_implementation=static"));
  EXPECT_THAT(export_with({.settings = {{"cache_implementation", "static"}, {"max_cache_len", "38"}}, .merged = true}),
              HasSubstr("prefill empties the cache"));
}

}  // namespace
}  // namespace exporters::executorch
