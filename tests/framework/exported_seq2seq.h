#pragma once

#include "exporters/framework/exported_model.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/models/loading.h"
#include "exporters/models/registry.h"
#include "exporters/trace/trace.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace exporters::testing {

// Encoder-decoder models exported in one format, the way a generation needs them and as one forward, and run at other
// sizes than they were traced at; what the eager model computes is the truth.

// float32 sums of some tens of terms in another order, over a few layers.
constexpr double kSeq2SeqTolerance = 2e-5;

using Seq2SeqSource = std::shared_ptr<const models::PreTrainedModel>;
/// Exports a source in the format under test, saves it to the folder and opens it again.
using ExportTo = std::function<ExportedModel(const ExportSource& source, const NamedInputs& sample,
                                             const std::filesystem::path& folder)>;

/// The checkpoints of a family that generate, by name: one of each config whose tables hold the sizes below.
inline std::vector<Seq2SeqSource> seq2seq_models(const std::string& family) {
  std::set<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(reference_folder("seq2seq") / family)) {
    folders.insert(entry.path());
  }
  std::vector<Seq2SeqSource> found;
  for (const std::filesystem::path& folder : folders) {
    const std::string name = folder.filename().string();
    const bool generates =
        name.find("ForConditionalGeneration") != std::string::npos || name.find("MTModel") != std::string::npos;
    if (generates && name.ends_with("_0") && name.find("_short_") == std::string::npos) {
      found.push_back(models::load(folder));
    }
  }
  return found;
}

inline NamedInputs named_inputs(const models::ForwardArgs& args) { return {args.begin(), args.end()}; }

inline models::ForwardArgs forward_args(const NamedInputs& inputs) {
  models::ForwardArgs args;
  for (const auto& [name, value] : inputs) {
    args.set(name, value);
  }
  return args;
}

/// Sample inputs in which rows after the first end in padding.
inline models::ForwardArgs padded_sample(const models::PreTrainedModel& model, const models::SampleSize& size) {
  models::ForwardArgs args = model.sample_inputs(size);
  for (const char* name : {"attention_mask", "decoder_attention_mask"}) {
    if (!args.has(name)) {
      continue;
    }
    const at::Tensor mask = args.tensor(name).clone();
    for (int64_t row = 1; row < size.batch; ++row) {
      mask[row].slice(0, mask.size(1) - row % mask.size(1)).zero_();
    }
    args.set(name, mask);
  }
  return args;
}

inline void expect_close(const PyTree& actual, const PyTree& expected) {
  const auto ours = actual.tensors();
  const auto theirs = expected.tensors();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].first, theirs[i].first);
    ASSERT_EQ(ours[i].second.sizes(), theirs[i].second.sizes()) << ours[i].first;
    if (ours[i].second.numel() > 0) {
      const at::Tensor difference = at::abs(ours[i].second.to(at::kFloat) - theirs[i].second.to(at::kFloat));
      EXPECT_LE(at::max(difference).item().toDouble(), kSeq2SeqTolerance) << ours[i].first;
    }
  }
}

/// Exported once with `sample`, the model gives at each of `others` what the eager one gives.
inline void check_seq2seq_export(const ExportTo& export_to, const Seq2SeqSource& model,
                                 const models::ForwardArgs& sample, const std::vector<models::ForwardArgs>& others) {
  const TemporaryFolder folder;
  const ExportSource source = export_source(model, {}, /*with_cache=*/sample.has("cache"));
  const ExportedModel exported = export_to(source, named_inputs(sample), folder.path());
  for (const models::ForwardArgs& args : others) {
    SCOPED_TRACE(::testing::Message() << "rows " << args.begin()->second.tensors().front().second.sizes());
    // Each has a cache of its own: eager layers may write into theirs.
    expect_close(exported(named_inputs(args)), (*model)(args));
  }
}

/// The encoder alone, the whole forward, and a decode step with a cache, each from a sample of size 1 and another one.
inline void check_seq2seq_sizes(const ExportTo& export_to, const Seq2SeqSource& model) {
  const auto samples = [&](const models::PreTrainedModel& of, const std::vector<models::SampleSize>& sizes) {
    std::vector<models::ForwardArgs> result;
    for (const models::SampleSize& size : sizes) {
      result.push_back(padded_sample(of, size));
    }
    return result;
  };
  const Seq2SeqSource encoder(model, model->encoder());
  {
    SCOPED_TRACE("encoder");
    check_seq2seq_export(export_to, encoder, encoder->sample_inputs({.batch = 1, .source = 1}),
                         samples(*encoder, {{1, 1, 0, 1}, {3, 1, 0, 9}, {2, 1, 0, 20}}));
  }
  {
    SCOPED_TRACE("forward");
    check_seq2seq_export(export_to, model, model->sample_inputs({.batch = 2, .sequence = 3, .source = 5}),
                         samples(*model, {{1, 1, 0, 1}, {3, 7, 0, 9}, {2, 5, 0, 20}}));
  }
  {
    SCOPED_TRACE("decode");
    check_seq2seq_export(export_to, model, model->sample_inputs({.batch = 1, .sequence = 1, .past = 1, .source = 1}),
                         samples(*model, {{1, 1, 1, 1}, {3, 1, 7, 9}, {2, 4, 12, 5}}));
    check_seq2seq_export(export_to, model, model->sample_inputs({.batch = 2, .sequence = 1, .past = 4, .source = 6}),
                         samples(*model, {{1, 1, 15, 20}, {3, 3, 2, 1}}));
  }
}

/// An encoder's output goes to prefill and its cache through decode steps: each step is what the eager model computes
/// with its own.
inline void check_seq2seq_generation(const ExportTo& export_to, const Seq2SeqSource& model) {
  const auto exported = [&](const Seq2SeqSource& of, const models::ForwardArgs& sample, bool with_cache,
                            const TemporaryFolder& folder) {
    return export_to(export_source(of, {}, with_cache), named_inputs(sample), folder.path());
  };
  const Seq2SeqSource encoder(model, model->encoder());
  const models::ForwardArgs decode_sample = model->sample_inputs({.batch = 2, .sequence = 1, .past = 3, .source = 5});
  models::ForwardArgs prefill_sample;
  for (const auto& [name, value] : decode_sample) {
    if (name != "cache") {
      prefill_sample.set(name, value);
    }
  }
  const TemporaryFolder encode_folder;
  const TemporaryFolder prefill_folder;
  const TemporaryFolder decode_folder;
  const ExportedModel encode =
      exported(encoder, encoder->sample_inputs({.batch = 2, .source = 5}), false, encode_folder);
  const ExportedModel prefill = exported(model, prefill_sample, false, prefill_folder);
  const ExportedModel decode = exported(model, decode_sample, true, decode_folder);

  const models::ForwardArgs inputs = padded_sample(*encoder, {.batch = 3, .source = 8});
  const at::Tensor ids = model->sample_inputs({.batch = 3, .sequence = 6}).tensor("decoder_input_ids");
  PyTree encoded = encode(named_inputs(inputs));
  PyTree eager_encoded = (*encoder)(inputs);
  PyTree output;
  PyTree eager;
  for (int64_t length = 0; length < 6; ++length) {
    SCOPED_TRACE(length);
    const auto step = [&](const PyTree& encoder_outputs, const PyTree& before) {
      models::ForwardArgs args;
      if (decode_sample.has("attention_mask")) {
        args.set("attention_mask", *inputs.find("attention_mask"));
      }
      args.set("decoder_input_ids", ids.slice(1, length, length + 1).contiguous());
      // Router scores, which some configs ask for, go no further.
      args.set("encoder_outputs", PyTree::object(encoder_outputs.type(),
                                                 {{"last_hidden_state", encoder_outputs.at("last_hidden_state")}}));
      if (length > 0) {
        args.set("cache", *before.find("cache"));
      }
      return args;
    };
    output = (length == 0 ? prefill : decode)(named_inputs(step(encoded, output)));
    eager = (*model)(step(eager_encoded, eager));
    expect_close(output.at("logits"), eager.at("logits"));
  }
}

}  // namespace exporters::testing
