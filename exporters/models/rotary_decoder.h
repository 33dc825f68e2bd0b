#pragma once

#include "exporters/models/decoder.h"

#include <optional>

namespace exporters::models {

/// A decoder of the plainest build: token embeddings, layers that share one rotary embedding, and a LayerNorm. A
/// family derives, and its constructor fills the members in the order of its checkpoint.
/// @tparam Layer called with (hidden, rotary positions, mask, cache layer, attention kind)
template <typename Layer>
class RotaryDecoder : public DecoderModel {
 protected:
  using DecoderModel::DecoderModel;

  at::Tensor embed(const at::Tensor& input_ids) const override { return (*embeddings_)(input_ids); }
  at::Tensor begin(const at::Tensor& embeddings, Pass& pass) const override {
    pass.rotary.push_back((*rotary_)(pass.position_ids, embeddings.scalar_type()));
    return embeddings;
  }
  AttentionResult run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const override {
    return layers_[index](hidden, inputs.pass->rotary.front(), inputs.mask, inputs.cache, inputs.pass->kind);
  }
  at::Tensor finish(const at::Tensor& hidden) const override { return (*final_norm_)(hidden); }

  std::optional<Embedding> embeddings_;
  ModuleList<Layer> layers_;
  std::optional<RotaryEmbedding> rotary_;
  std::optional<LayerNorm> final_norm_;
};

}  // namespace exporters::models
