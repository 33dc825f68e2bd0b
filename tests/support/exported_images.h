#pragma once

#include "exporters/framework/exported_model.h"
#include "exporters/framework/pretrained_source.h"
#include "tests/reference/generation_cases.h"
#include "tests/support/decoder_calls.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/warnings.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

// Models of images and text, exported once and called with other numbers of rows, tokens and images.

namespace exporters::testing {

/// Rows, tokens of text, and how the images of the rows are dealt out: all of them in the first row, or one in each.
struct ImageTextSize {
  int64_t batch;
  int64_t text;
  bool in_one_row = false;
};

inline ForwardArgs image_text_args(const PreTrainedModel& model, const ImageTextSize& size) {
  ForwardArgs args = padded(model, {.batch = size.batch, .sequence = size.text});
  if (size.in_one_row) {
    const at::Tensor ids = args.tensor("input_ids").reshape({1, -1});
    args.set("input_ids", ids);
    args.set("attention_mask", at::ones_like(ids));
  }
  return args;
}

/// One tensor of what the reference lists by image.
inline at::Tensor image_features(const PyTree& output) {
  const PyTree& features = output.at("image_outputs.pooler_output");
  if (features.is_tensor()) {
    return features.tensor();
  }
  std::vector<at::Tensor> images;
  for (const PyTree& image : features.children()) {
    images.push_back(image.tensor());
  }
  return at::stack(images);
}

/// Every checkpoint with a head, exported for one row of one image with all sizes free: at others it gives what the
/// model does; images that do not fit their tokens are refused.
template <typename Exporter, typename Config>
void expect_exported_image_text() {
  for (const auto& folder : image_text_generators()) {
    SCOPED_TRACE(folder.filename().string());
    const std::shared_ptr<const PreTrainedModel> model = models::load(folder);
    Config config;
    config.dynamic = true;
    const TemporaryFolder target;
    {
      const Warnings warnings;
      Exporter()
          .export_model(export_source(model), named(model->sample_inputs({.batch = 1, .sequence = 3})), config)
          .save_pretrained(target.path());
      EXPECT_EQ(warnings.texts, std::vector<std::string>());
    }
    const ExportedModel exported = ExportedModel::from_pretrained(target.path());
    for (const ImageTextSize& size :
         {ImageTextSize{1, 1}, {3, 4}, {2, 9}, {.batch = 2, .text = 3, .in_one_row = true}}) {
      SCOPED_TRACE(fmt::format("{} rows of {} words, {}", size.batch, size.text, size.in_one_row));
      const ForwardArgs args = image_text_args(*model, size);
      const PyTree actual = exported(named(args));
      const PyTree expected = (*model)(args);
      expect_same(actual, expected, args.tensor("attention_mask"));
      const at::Tensor difference = at::abs(image_features(actual) - image_features(expected));
      EXPECT_LE(at::max(difference).item().toDouble(), kDecoderTolerance);
    }
    for (const int64_t images : {1, 3}) {
      ForwardArgs args = image_text_args(*model, {2, 3});
      const at::Tensor pixels = args.tensor("pixel_values");
      args.set("pixel_values",
               images == 1 ? pixels.slice(0, 0, 1).contiguous() : at::cat({pixels, pixels.slice(0, 0, 1)}));
      EXPECT_ANY_THROW(exported(named(args))) << images << " images for the tokens of 2";
    }
  }
}

}  // namespace exporters::testing
