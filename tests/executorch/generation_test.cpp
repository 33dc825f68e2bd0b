// Generation by ExecuTorch programs: exported once, saved, read back, and run by ExecuTorch's runtime.
#include "exporters/executorch/exporter.h"
#include "tests/executorch/exported.h"
#include "tests/reference/generation_export.h"
#include "tests/support/error_of.h"
#include "tests/support/exported_images.h"
#include "tests/support/exported_states.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;
using exporters::testing::expect_reference_tokens;
using exporters::testing::exported_for_generation;
using exporters::testing::TemporaryFolder;
using ::testing::HasSubstr;

// Prompts have up to 26 tokens, of which 20 stand for images, and 32 follow.
constexpr int64_t kLargest = 64;

ExecutorchConfig bounded() {
  ExecutorchConfig config;
  config.dynamic = true;
  for (const char* axis : {"sequence", "total", "past", "source", "source_sequence", "encoder_sequence"}) {
    config.max_dims[axis] = kLargest;
  }
  config.max_dims["batch"] = 3;
  config.max_dims["images"] = 3;
  config.max_dims["patches"] = 16;
  return config;
}

// ExecuTorch has kernels for batched products of experts only.
fs::path with_batched_experts(const fs::path& checkpoint, const TemporaryFolder& folder) {
  auto json = nlohmann::json::parse(std::ifstream(checkpoint / "config.json"));
  json["experts_implementation"] = "batched_mm";
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().filename() != "config.json") {
      fs::copy_file(entry.path(), folder / entry.path().filename().string());
    }
  }
  std::ofstream(folder / "config.json") << json;
  return folder.path();
}

class ExecutorchGeneration : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { testing::use_executorch(); }

  static ExportedModel exported(const fs::path& checkpoint, const TemporaryFolder& folder) {
    const TemporaryFolder changed;
    ExecutorchConfig config = bounded();
    return exported_for_generation(ExecutorchExporter(), config, with_batched_experts(checkpoint, changed), folder);
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

class ExecutorchGenerationWithEncoder : public ExecutorchGeneration {};

TEST_P(ExecutorchGenerationWithEncoder, GivesTheReferencesTokens) {
  const fs::path checkpoint = exporters::testing::conditional_generators(GetParam()).front();
  const TemporaryFolder folder;
  expect_reference_tokens(exported(checkpoint, folder), checkpoint, {"greedy"});
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
  exporters::testing::expect_exported_states<ExecutorchExporter>(bounded());
}

}  // namespace
}  // namespace exporters::executorch
