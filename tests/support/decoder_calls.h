#pragma once

#include "exporters/models/pretrained.h"
#include "exporters/trace/trace.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

// Calls of decoders with padding and caches, for tests of exports.

namespace exporters::testing {

using models::ForwardArgs;
using models::PreTrainedModel;
using models::SampleSize;

// float32 sums of some tens of terms in another order, over a few layers.
inline constexpr double kDecoderTolerance = 2e-5;

inline NamedInputs named(const ForwardArgs& args) { return {args.begin(), args.end()}; }

inline ForwardArgs arguments(const NamedInputs& inputs) {
  ForwardArgs args;
  for (const auto& [name, value] : inputs) {
    args.set(name, value);
  }
  return args;
}

// Rows after the first are padded on the left, as generate pads.
inline ForwardArgs padded(const PreTrainedModel& model, const SampleSize& size) {
  ForwardArgs args = model.sample_inputs(size);
  const at::Tensor mask = args.tensor("attention_mask").clone();
  for (int64_t row = 1; row < size.batch; ++row) {
    mask[row].slice(0, 0, row % mask.size(1)).zero_();
  }
  args.set("attention_mask", mask);
  if (args.has("position_ids")) {
    const at::Tensor positions = (at::cumsum(mask, -1) - 1).clamp_min(0);
    args.set("position_ids", positions.slice(1, mask.size(1) - size.sequence).contiguous());
  }
  return args;
}

// Logits where the mask shows them, and of the caches what the last tokens left: eager sliding layers keep their
// window, traced ones all.
inline void expect_same(const PyTree& actual, const PyTree& expected, const at::Tensor& mask) {
  const auto compare = [&](const at::Tensor& a, const at::Tensor& b, int64_t axis, const std::string& what) {
    const int64_t tokens = std::min(a.size(axis), b.size(axis));
    ASSERT_GT(tokens, 0) << what;
    std::vector<int64_t> shape(static_cast<size_t>(a.dim()), 1);
    shape[0] = mask.size(0);
    shape[static_cast<size_t>(axis)] = tokens;
    const at::Tensor visible = mask.slice(1, mask.size(1) - tokens).reshape(shape);
    const auto last = [&](const at::Tensor& t) { return t.slice(axis, t.size(axis) - tokens) * visible; };
    ASSERT_EQ(last(a).sizes(), last(b).sizes()) << what;
    EXPECT_LE(at::max(at::abs(last(a) - last(b))).item().toDouble(), kDecoderTolerance) << what;
  };
  compare(actual.at("logits").tensor(), expected.at("logits").tensor(), 1, "logits");
  ASSERT_NE(actual.find("cache"), nullptr);
  const auto ours = actual.find("cache")->tensors();
  const auto theirs = expected.find("cache")->tensors();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].second.dim() == 4) {
      compare(ours[i].second, theirs[i].second, 2, ours[i].first);
    }
  }
}

}  // namespace exporters::testing
