// Generation by ExecuTorch programs: exported once, saved, read back, and run by ExecuTorch's runtime.
#include "exporters/executorch/exporter.h"
#include "tests/executorch/exported.h"
#include "tests/reference/generation_export.h"
#include "tests/support/exported_images.h"
#include "tests/support/exported_states.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;
using exporters::testing::expect_reference_tokens;
using exporters::testing::TemporaryFolder;

// Prompts have up to 26 tokens, of which 20 stand for images, and 32 follow.
constexpr int64_t kLargest = 64;

class ExecutorchGeneration : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { testing::use_executorch(); }

  // One config says how large the axes of all components get.
  static ExportedModel exported(const fs::path& checkpoint, const TemporaryFolder& folder) {
    GenerationExport request;
    request.model = models::load_for_export(checkpoint);
    request.sample_inputs = exporters::testing::named(request.model->sample_inputs({.batch = 1, .sequence = 5}));
    request.generation_config = load_generation_config(checkpoint);
    ExecutorchConfig config;
    config.dynamic = true;
    request.config = &config;
    for (const GenerationComponent& part :
         decompose_for_generation(request.model, request.sample_inputs, request.generation_config)) {
      config.max_dims.merge(testing::largest_sizes(export_source(part), part.inputs, kLargest));
    }
    ExecutorchExporter().export_for_generation(request).save_pretrained(folder.path());
    return ExportedModel::from_pretrained(folder.path());
  }
};

// Given a sample of one row and five tokens, when 32 tokens are generated greedily for a batch of two with left
// padding, past windows and the lengths at which ropes change, and for a row alone, then they are the reference's.
TEST_P(ExecutorchGeneration, GivesTheReferencesTokens) {
  for (const fs::path& checkpoint : exporters::testing::language_models(GetParam())) {
    const TemporaryFolder folder;
    expect_reference_tokens(exported(checkpoint, folder), checkpoint, {"greedy", "alone"});
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExecutorchGeneration, ::testing::ValuesIn(exporters::testing::kDecoderFamilies),
                         exporters::testing::test_name);
INSTANTIATE_TEST_SUITE_P(Encoders, ExecutorchGeneration, ::testing::ValuesIn(exporters::testing::kCausalEncoders),
                         exporters::testing::test_name);

class ExecutorchGenerationWithEncoder : public ExecutorchGeneration {};

TEST_P(ExecutorchGenerationWithEncoder, GivesTheReferencesTokens) {
  size_t count = 0;
  for (const fs::path& checkpoint : exporters::testing::conditional_generators(GetParam())) {
    const std::string name = checkpoint.filename();
    // Of NLLB-MoE, the one that neither sorts tokens by their importance, for which ExecuTorch has no kernel, nor hands
    // router logits on, whose axes have no names.
    const bool is_special =
        name.find("_dropping_") != std::string::npos || name.find("_capacity_") != std::string::npos;
    if (is_special || exporters::testing::outgrows_positions(checkpoint)) {
      continue;
    }
    const TemporaryFolder folder;
    expect_reference_tokens(exported(checkpoint, folder), checkpoint, {"greedy"});
    ++count;
  }
  EXPECT_GE(count, 1u);
}

INSTANTIATE_TEST_SUITE_P(All, ExecutorchGenerationWithEncoder,
                         ::testing::ValuesIn(exporters::testing::kSeq2SeqFamilies), exporters::testing::test_name);

TEST_F(ExecutorchGeneration, ImagesAndTextGiveTheReferencesTokens) {
  for (const fs::path& checkpoint : exporters::testing::image_text_generators()) {
    const TemporaryFolder folder;
    expect_reference_tokens(exported(checkpoint, folder), checkpoint, {"greedy", "alone", "text"});
  }
}

TEST_F(ExecutorchGeneration, RecurrentModelsRunAtOtherSizes) {
  ExecutorchConfig config;
  config.dynamic = true;
  config.max_dims = {{"batch", 3}, {"sequence", kLargest}};
  exporters::testing::expect_exported_states<ExecutorchExporter>(config);
}

}  // namespace
}  // namespace exporters::executorch
