#pragma once

#include "exporters/weights/checkpoint.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters {

/// A parameter or buffer that a model wants to load.
struct ExpectedParameter {
  std::string name;
  std::vector<int64_t> shape;
  /// It may be absent: the model ties it to another one or computes it.
  bool optional = false;
};

/// How the keys of a checkpoint may differ from a model's parameter names, as transformers allows it.
struct MatchRules {
  /// "bert": a model with a head finds its base's weights without the prefix (in a checkpoint of the base alone), and a
  /// base model finds its own with the prefix (in a checkpoint of a model with a head).
  std::string base_prefix;
  /// Ends of keys in old checkpoints, and the parameter names' ends that they stand for.
  std::vector<std::pair<std::string, std::string>> old_ends = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                                               {"LayerNorm.beta", "LayerNorm.bias"}};
  /// Keys with these ends are no surplus: old checkpoints hold buffers that models now compute.
  std::vector<std::string> ignored_ends = {"position_ids", "rotary_emb.inv_freq", "attn.masked_bias"};
};

struct ShapeMismatch {
  std::string name;  ///< the parameter
  std::string key;   ///< of the checkpoint
  std::vector<int64_t> expected;
  std::vector<int64_t> found;
};

/// Which tensor of a checkpoint each parameter gets.
struct ParameterMatch {
  std::map<std::string, std::string> keys;  ///< parameter → key of the checkpoint; right shapes only
  std::vector<std::string> missing;         ///< not optional, in the model's order
  std::vector<std::string> absent;          ///< optional ones that the checkpoint does not have
  std::vector<ShapeMismatch> mismatched;
  std::vector<std::string> surplus;  ///< keys that no parameter takes, sorted
};

/// Looks up every parameter: by its name, by the names that `rules` allow, in that order. Shapes must be equal. No
/// weight is touched.
ParameterMatch match_parameters(std::span<const ExpectedParameter> parameters, const Checkpoint& checkpoint,
                                const MatchRules& rules = {});

/// Throws Error that names what is missing (with near keys) or of another shape (with both shapes): a model never runs
/// with parameters that nothing loaded. Surplus keys are one line of the log. `model` is the class's name.
void require_complete(const ParameterMatch& match, const Checkpoint& checkpoint, std::string_view model);

/// The two tensors have the same dtype, shape and bytes. For a model whose config ties two weights that the checkpoint
/// stores both. Reads at most to the first difference, and leaves no pages resident.
bool same_bytes(const CheckpointEntry& a, const CheckpointEntry& b);

}  // namespace exporters
