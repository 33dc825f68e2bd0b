#pragma once

#include "exporters/models/cache.h"
#include "exporters/models/layers/attention.h"
#include "exporters/models/layers/layers.h"

#include <array>
#include <optional>
#include <string>

namespace exporters::models {

/// Where one layer of a decoder keeps its keys and values.
struct LayerCaches {
  CacheLayer* self = nullptr;   ///< null: nowhere
  CacheLayer* cross = nullptr;  ///< of attention to an encoder; null: nowhere
  bool cross_is_filled = false;
};

struct ProjectedAttentionOptions {
  std::string class_name;
  int64_t hidden_size = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  double scale = 1.0;
  /// The projected query is multiplied by the scale, not the scores: in half precision the order shows.
  bool scales_query = false;
  bool bias = true;
  bool key_bias = true;
  std::optional<bool> output_bias = {};  ///< nothing: as the query's
  /// Of the projections of query, key, value and output.
  std::array<std::string, 4> names = {"q_proj", "k_proj", "v_proj", "out_proj"};
  /// Their order as parameters: indices into `names`.
  std::array<size_t, 4> order = {1, 2, 0, 3};
};

/// Attention with a matrix each for queries, keys, values and output: of a layer to itself, or to an encoder's output.
class ProjectedAttention : public Module {
 public:
  ProjectedAttention(Scope scope, const ProjectedAttentionOptions& options);

  /// @param hidden [batch, queries, hidden_size]
  /// @param encoder_hidden [batch, source, hidden_size]; undefined: attention to itself. Not read where the caches hold
  ///        its keys and values already
  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& encoder_hidden, const at::Tensor& mask,
                             bool is_causal, AttentionKind kind, const LayerCaches& caches) const;

 private:
  std::pair<at::Tensor, at::Tensor> keys_and_values(const at::Tensor& hidden, const at::Tensor& encoder_hidden,
                                                    const LayerCaches& caches) const;
  const Linear& projection(size_t which) const { return projections_[place_[which]]; }

  int64_t heads_;
  int64_t head_dim_;
  double scale_;
  bool scales_query_;
  std::array<size_t, 4> place_{};
  ModuleList<Linear> projections_;
};

}  // namespace exporters::models
