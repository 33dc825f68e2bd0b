#pragma once

#include "exporters/models/config.h"
#include "exporters/models/module.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters::models {

// Rotary position embeddings (Su et al., 2021) with every rope_type of transformers' modeling_rope_utils. Types whose
// frequencies depend on the length of the sequence (dynamic, longrope) take it from the largest position of the call,
// as a tensor: one traced program serves both sides of the boundary. The reference's "dynamic" remembers the longest
// sequence it saw; here each call stands for itself, which is the same for a growing sequence.

/// What a family adds to the fields that read_rope_parameters reads.
struct RopeDefaults {
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double theta = 10000.0;
  /// The family rotates a part of each head only, where partial_rotary_factor says so.
  bool partial = false;
  double partial_rotary_factor = 1.0;
  /// The family's config class has this field at its top level, with this default.
  std::optional<int64_t> original_max_position_embeddings = {};
  /// Further names of rope types, and the types they are.
  std::vector<std::pair<std::string_view, std::string_view>> aliases = {};
};

/// The reference's `rope_parameters` of a config, complete.
struct RopeParameters {
  std::string type = "default";
  double theta = 10000.0;
  int64_t head_dim = 0;
  double partial_rotary_factor = 1.0;
  int64_t max_position_embeddings = 0;
  int64_t original_max_position_embeddings = 0;
  std::optional<double> factor;
  std::optional<double> attention_factor;
  double beta_fast = 32;
  double beta_slow = 1;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  bool truncate = true;
  double low_freq_factor = 0;
  double high_freq_factor = 0;
  std::vector<double> short_factor;
  std::vector<double> long_factor;

  /// Extent of the part of a head that is rotated.
  int64_t rotary_dim() const;
};

/// From `rope_parameters` (v5), or the older `rope_scaling`, `rope_theta` and `partial_rotary_factor` beside each
/// other, with "type" for "rope_type". Throws Error for unknown types (with the known ones), for fields that a type
/// needs and lacks, and for values that make no sense.
RopeParameters read_rope_parameters(const ModelConfig& config, const RopeDefaults& defaults);
/// One object of rope parameters alone: of a config that has several, by layer type. No further field is looked up, but
/// `theta` stands for a missing rope_theta.
RopeParameters read_rope_parameters(const ModelConfig& config, std::string_view layer_type,
                                    const RopeDefaults& defaults);

/// Cosines and sines of the angles at some positions: [batch or 1, length, rotary_dim] each.
struct RotaryPositions {
  at::Tensor cos;
  at::Tensor sin;
};

class RotaryEmbedding : public Module {
 public:
  RotaryEmbedding(Scope scope, std::string class_name, RopeParameters parameters);
  /// One set of frequencies for each layer type, whose name begins those of its buffers.
  RotaryEmbedding(Scope scope, std::string class_name, std::vector<std::pair<std::string, RopeParameters>> by_type);

  /// @param position_ids integers [batch or 1, length]
  /// @param dtype of the result; the angles are float32
  /// @param index which set of frequencies, in the order given
  RotaryPositions operator()(const at::Tensor& position_ids, c10::ScalarType dtype, size_t index = 0) const;

 private:
  struct Frequencies {
    RopeParameters parameters;
    double attention_scaling = 1.0;
    at::Tensor long_inv_freq;  // longrope beyond the original length
    at::Tensor inv_freq;
    at::Tensor original_inv_freq;
  };
  void add(const std::string& prefix, RopeParameters parameters);
  static at::Tensor inv_freq_at(const Frequencies& frequencies, const at::Tensor& position_ids);

  std::deque<Frequencies> frequencies_;
};

/// Rotates the first rotary_dim entries of each head; pairs are (i, i + rotary_dim / 2). The result has the dtype of
/// `states`. @param states [batch, heads, length, head_dim]
at::Tensor apply_rotary(const at::Tensor& states, const RotaryPositions& positions);

}  // namespace exporters::models
