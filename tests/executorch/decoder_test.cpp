// Decoder-only models with and without a cache, exported once and run on ExecuTorch at other sizes.
#include "exporters/framework/pretrained_source.h"
#include "exporters/models/registry.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"
#include "tests/reference/folder.h"
#include "tests/support/decoder_calls.h"

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <tuple>

namespace exporters::executorch {
namespace {

using exporters::testing::arguments;
using exporters::testing::expect_same;
using exporters::testing::named;
using exporters::testing::padded;
using models::ForwardArgs;
using models::PreTrainedModel;
using models::SampleSize;

class ExecutorchDecoder : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  static void SetUpTestSuite() { testing::use_executorch(); }

  void SetUp() override {
    const auto folder = exporters::testing::reference_folder("decoders") / std::get<0>(GetParam());
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with("_0") &&
          (name.find("ForCausalLM") != std::string::npos || name.find("LMHead") != std::string::npos)) {
        models_.push_back(models::load(entry.path()));
      }
    }
    ASSERT_FALSE(models_.empty());
  }

  ExportedModel exported(const std::shared_ptr<const PreTrainedModel>& model, const SampleSize& sample) {
    ExecutorchConfig config;
    config.dynamic = true;
    config.backend = std::get<1>(GetParam());
    config.max_dims = {{"batch", 3}};
    const auto folder = testing::scratch_folder();
    ExecutorchExporter()
        .export_model(export_source(model, {}, sample.past > 0), named(model->sample_inputs(sample)), config)
        .save_pretrained(folder);
    return ExportedModel::from_pretrained(folder);
  }

  // Exports once for `sample` and runs at each of `sizes`.
  void check(const std::shared_ptr<const PreTrainedModel>& model, const SampleSize& sample,
             const std::vector<SampleSize>& sizes) {
    const ExportedModel program = exported(model, sample);
    for (const SampleSize& size : sizes) {
      SCOPED_TRACE(fmt::format("sample ({}, {}, {}) at ({}, {}, {})", sample.batch, sample.sequence, sample.past,
                               size.batch, size.sequence, size.past));
      const ForwardArgs args = padded(*model, size);
      expect_same(program(named(args)), (*model)(args), args.tensor("attention_mask"));
    }
  }

  std::vector<std::shared_ptr<const PreTrainedModel>> models_;
};

TEST_P(ExecutorchDecoder, PrefillRunsAtOtherSizes) {
  for (const auto& model : models_) {
    check(model, {.batch = 1, .sequence = 1}, {{1, 1}, {3, 9}, {2, 20}});
  }
}

TEST_P(ExecutorchDecoder, DecodeRunsAtOtherSizesOfBatchQueryAndCache) {
  for (const auto& model : models_) {
    check(model, {.batch = 2, .sequence = 1, .past = 4}, {{1, 1, 1}, {3, 1, 7}, {2, 4, 12}});
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ExecutorchDecoder,
    ::testing::Combine(::testing::Values("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3_text",
                                         "olmo2", "granite", "smollm3", "starcoder2", "gpt2", "gpt_neox", "opt", "phi"),
                       ::testing::Values("xnnpack", "portable")),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

}  // namespace
}  // namespace exporters::executorch
