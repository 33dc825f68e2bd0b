// Encoder-decoder models, exported once and run on ExecuTorch's runtime at other sizes.
#include "exporters/executorch/exporter.h"
#include "tests/executorch/exported.h"
#include "tests/framework/exported_seq2seq.h"

#include <algorithm>

namespace exporters::executorch {
namespace {

// The largest size of every axis that has a name; the checkpoints' tables of positions end here.
constexpr int64_t kLargest = 24;

ExportedModel export_to(const ExportSource& source, const NamedInputs& sample, const std::filesystem::path& folder) {
  testing::use_executorch();
  ExecutorchConfig config;
  config.dynamic = true;
  config.max_dims = testing::largest_sizes(source, sample, kLargest);
  ExecutorchExporter().export_model(source, sample, config).save_pretrained(folder);
  return ExportedModel::from_pretrained(folder);
}

class Seq2SeqOnExecutorch : public ::testing::TestWithParam<const char*> {};

TEST_P(Seq2SeqOnExecutorch, RunsAtOtherSizesOfBatchSourceQueryAndCache) {
  // Of NLLB-MoE, one that does not sort tokens by their importance: ExecuTorch has no kernel for that.
  exporters::testing::check_seq2seq_sizes(export_to, exporters::testing::seq2seq_models(GetParam()).front());
}

TEST_P(Seq2SeqOnExecutorch, AnEncodersOutputGoesThroughPrefillAndDecodeSteps) {
  exporters::testing::check_seq2seq_generation(export_to, exporters::testing::seq2seq_models(GetParam()).front());
}

INSTANTIATE_TEST_SUITE_P(All, Seq2SeqOnExecutorch,
                         ::testing::Values("t5", "mt5", "bart", "mbart", "marian", "m2m_100", "nllb-moe", "whisper"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace exporters::executorch
