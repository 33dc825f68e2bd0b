#pragma once

#include "exporters/graph/pytree.h"
#include "exporters/models/forward.h"

#include <filesystem>
#include <string>
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
};

/// reference_folder("decoders").
std::filesystem::path reference_decoders();
/// The checkpoints in a folder, sorted.
std::vector<std::filesystem::path> checkpoints(const std::filesystem::path& folder);

}  // namespace exporters::testing
