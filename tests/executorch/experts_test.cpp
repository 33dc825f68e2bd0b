// Decoders with experts on ExecuTorch's runtime, which multiplies each token with copies of the matrices it chose.
#include "exporters/executorch/exporter.h"
#include "tests/executorch/exported.h"
#include "tests/framework/exported_seq2seq.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;

class ExpertsOnExecutorch : public ::testing::TestWithParam<const char*> {};

// The config asks for products of groups of rows, or for nothing.
TEST_P(ExpertsOnExecutorch, RunAtOtherSizes) {
  testing::use_executorch();
  const fs::path source = exporters::testing::reference_folder("decoders") / GetParam();
  const exporters::testing::Seq2SeqSource model = models::load(source);

  ExecutorchConfig config;
  config.dynamic = true;
  config.max_dims = {{"batch", 4}, {"sequence", 20}};
  const exporters::testing::TemporaryFolder folder;
  ExecutorchExporter()
      .export_model(export_source(model), exporters::testing::named_inputs(model->sample_inputs({2, 5})), config)
      .save_pretrained(folder.path());
  const ExportedModel exported = ExportedModel::from_pretrained(folder.path());
  for (const auto& [batch, sequence] : {std::pair(1, 1), {3, 9}, {4, 20}}) {
    const models::ForwardArgs args = model->sample_inputs({batch, sequence});
    exporters::testing::expect_close(exported(exporters::testing::named_inputs(args)).at("logits"),
                                     (*model)(args).at("logits"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExpertsOnExecutorch,
                         ::testing::Values("mixtral/MixtralForCausalLM_plain_0",
                                           "qwen2_moe/Qwen2MoeForCausalLM_mixed_0",
                                           "qwen3_moe/Qwen3MoeForCausalLM_plain_0",
                                           "gpt_oss/GptOssForCausalLM_plain_0"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('/'));
                         });

}  // namespace
}  // namespace exporters::executorch
