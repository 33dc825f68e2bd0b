#pragma once

#include "exporters/framework/exported_model.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/models/pretrained.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/warnings.h"

#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace exporters::testing {

/// A sample in which rows after the first are padded, in turn on the right and on the left, where the model takes
/// attention_mask.
inline models::ForwardArgs padded_sample(const models::PreTrainedModel& model, const models::SampleSize& size) {
  models::ForwardArgs args = model.sample_inputs(size);
  if (!args.has("attention_mask")) {
    return args;
  }
  const at::Tensor mask = args.tensor("attention_mask").clone();
  const at::Tensor rows = mask.flatten(0, -2);
  const int64_t length = rows.size(1);
  for (int64_t row = 1; row < rows.size(0); ++row) {
    const int64_t hidden = (row + 1) % length;
    const int64_t begin = row % 2 == 1 ? length - hidden : 0;
    rows[row].slice(0, begin, begin + hidden).zero_();
  }
  args.set("attention_mask", mask);
  return args;
}

/// Every leaf of `actual` is there with its shape and within `tolerance` of `expected`.
inline void expect_close(const PyTree& actual, const PyTree& expected, double tolerance) {
  const auto ours = actual.tensors();
  const auto theirs = expected.tensors();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].first, theirs[i].first);
    ASSERT_EQ(ours[i].second.sizes(), theirs[i].second.sizes()) << ours[i].first;
    EXPECT_LE(ours[i].second.sub(theirs[i].second).abs().max().item().toDouble(), tolerance) << ours[i].first;
  }
}

/// The longest sequence of tokens that a model takes, or 33, whichever is less.
inline int64_t long_sequence(const models::PreTrainedModel& model) {
  const models::AxisNames names = model.axis_names();
  const auto ids = names.find("input_ids");
  const int64_t axis = ids != names.end() ? ids->second.rbegin()->first : 0;
  return ids != names.end() ? std::min<int64_t>(33, ids->second.at(axis).max) : 33;
}

inline NamedInputs named_inputs(const models::ForwardArgs& args) { return {args.begin(), args.end()}; }

/// What an export's config needs beyond dynamic axes: bounds, a target.
template <typename Config>
using Prepare = std::function<void(Config& config, const ExportSource& source, const NamedInputs& inputs)>;

/// `model` exported for `sample` with every axis dynamic, saved to `folder` and loaded. The export has nothing to warn
/// of.
template <typename Exporter, typename Config>
ExportedModel export_and_load(const std::shared_ptr<const models::PreTrainedModel>& model,
                              const models::SampleSize& sample, const TemporaryFolder& folder,
                              const Prepare<Config>& prepare = {}) {
  Config config;
  config.dynamic = true;
  const ExportSource source = export_source(model);
  const NamedInputs inputs = named_inputs(model->sample_inputs(sample));
  if (prepare) {
    prepare(config, source, inputs);
  }
  const Warnings warnings;
  Exporter().export_model(source, inputs, config).save_pretrained(folder.path());
  EXPECT_EQ(warnings.texts, std::vector<std::string>());
  return ExportedModel::from_pretrained(folder.path());
}

/// A model of images of any size, exported once and compared at other heights and widths.
template <typename Exporter, typename Config>
void expect_exported_images(const std::shared_ptr<const models::PreTrainedModel>& model, double tolerance,
                            const Prepare<Config>& prepare = {}) {
  const TemporaryFolder folder;
  const ExportedModel exported = export_and_load<Exporter, Config>(model, {.batch = 1}, folder, prepare);
  const int64_t channels = model->sample_inputs({}).tensor("pixel_values").size(1);
  for (const auto& [batch, height, width] : {std::tuple<int64_t, int64_t, int64_t>(2, 8, 21), {1, 20, 20}, {3, 4, 9}}) {
    SCOPED_TRACE(fmt::format("{}x{}", height, width));
    const models::ForwardArgs args{{"pixel_values", at::rand({batch, channels, height, width})}};
    expect_close(exported(named_inputs(args)), (*model)(args), tolerance);
  }
}

/// Exports `model` for `sample` with every axis dynamic, saves and loads it, and compares it with the model at other
/// sizes: batches of 1 to 3, sequences of 1 to long_sequence(). The export has nothing to warn of.
template <typename Exporter, typename Config>
void expect_exported(const std::shared_ptr<const models::PreTrainedModel>& model, const models::SampleSize& sample,
                     double tolerance, const Prepare<Config>& prepare = {}) {
  const models::SampleSize sizes[] = {{1, 1}, {3, 9}, {2, long_sequence(*model)}};
  const TemporaryFolder folder;
  const ExportedModel exported = export_and_load<Exporter, Config>(model, sample, folder, prepare);
  for (const models::SampleSize& size : sizes) {
    SCOPED_TRACE(fmt::format("{}: sample ({}, {}) at ({}, {})", model->class_name(), sample.batch, sample.sequence,
                             size.batch, size.sequence));
    const models::ForwardArgs args = padded_sample(*model, size);
    expect_close(exported(named_inputs(args)), (*model)(args), tolerance);
  }
}

}  // namespace exporters::testing
