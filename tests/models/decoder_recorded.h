#pragma once

#include "exporters/graph/pytree.h"
#include "exporters/models/forward.h"
#include "exporters/models/pretrained.h"

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::testing {

/// One forward of a decoder in the reference, as tests/reference/make_decoders.py records it: with caches among the
/// arguments and in the output.
struct DecoderCall {
  explicit DecoderCall(const std::filesystem::path& file);

  models::ForwardArgs args;        ///< tensors, caches and flags
  std::string out_spec;            ///< the output's tree spec
  std::vector<at::Tensor> leaves;  ///< the output's

  /// Class and fields, cache included, text for text; and every leaf within `tolerance` where attention_mask is 1:
  /// nothing is defined elsewhere.
  void expect(const PyTree& output, double tolerance) const;

 private:
  /// Of the leaf at that path; undefined where there is none.
  at::Tensor mask_of(const std::string& path, const PyTree& output) const;
};

/// reference_folder("decoders").
std::filesystem::path reference_decoders();
/// The checkpoints in a folder, sorted.
std::vector<std::filesystem::path> checkpoints(const std::filesystem::path& folder);
/// The classes of the checkpoints in a folder, and those that the registry lists for a model type.
std::set<std::string> heads_made(const std::filesystem::path& folder);
std::set<std::string> heads_listed(std::string_view model_type);

/// Every checkpoint in the folder, loaded and called as recorded, gives what the reference does: float32 within 1e-5
/// (the same kernels, but norms are one operator here, masks are spelled out, and sums are in another order), bfloat16
/// within two roundings of an activation of size 4. Gives how many calls there were.
size_t expect_recorded_calls(const std::filesystem::path& folder);
/// Parameters and buffers are the reference's, in its order, as the checkpoint's state.json has them.
void expect_state(const models::PreTrainedModel& model, const std::filesystem::path& folder);
/// A sample of that size runs; it has a cache where it has earlier tokens, and every axis of it has a name.
void expect_sample_runs(const models::PreTrainedModel& model, const models::SampleSize& size);

}  // namespace exporters::testing
