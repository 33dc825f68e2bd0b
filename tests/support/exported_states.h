#pragma once

#include "exporters/framework/exported_model.h"
#include "exporters/framework/pretrained_source.h"
#include "tests/reference/generation_cases.h"
#include "tests/support/decoder_calls.h"
#include "tests/support/exported_sizes.h"

#include <memory>

// Recurrent models, exported once with all sizes free and called at others.

namespace exporters::testing {

/// Every checkpoint: a prompt, and tokens after states, at batches and lengths that were not traced, short and longer
/// than the kernel of the convolution; the program goes over all places at once where the eager model takes steps.
template <typename Exporter, typename Config>
void expect_exported_states(Config config) {
  for (const auto& folder : language_models("mamba")) {
    const std::shared_ptr<const PreTrainedModel> model = models::load(folder);
    for (const SampleSize& sample : {SampleSize{1, 1}, {2, 5}, {1, 1, 1}, {2, 3, 1}}) {
      SCOPED_TRACE(fmt::format("{} sample ({}, {}, {})", folder.filename().string(), sample.batch, sample.sequence,
                               sample.past));
      Config own = config;
      const TemporaryFolder target;
      {
        const Warnings warnings;
        Exporter()
            .export_model(export_source(model, {}, /*with_cache=*/sample.past > 0), named(model->sample_inputs(sample)),
                          own)
            .save_pretrained(target.path());
        EXPECT_EQ(warnings.texts, std::vector<std::string>());
      }
      const ExportedModel exported = ExportedModel::from_pretrained(target.path());
      for (const auto& [batch, sequence] : {std::pair(1, 1), {3, 2}, {2, 37}}) {
        SCOPED_TRACE(fmt::format("at ({}, {})", batch, sequence));
        const SampleSize size{batch, sequence, sample.past};
        const ForwardArgs args = sample.past > 0 ? model->sample_inputs(size) : padded_sample(*model, size);
        expect_close(exported(named(args)), (*model)(args), kDecoderTolerance);
      }
    }
  }
}

}  // namespace exporters::testing
