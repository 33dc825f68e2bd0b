#pragma once

#include "exporters/models/decoder.h"
#include "exporters/models/image_features.h"
#include "exporters/models/pretrained.h"

namespace exporters::models {

// Parts of models that are run, or exported, by themselves. Their parameters are the whole model's.

/// The embeddings of a decoder's tokens: input_ids [batch, sequence] → [batch, sequence, hidden]. It declares nothing:
/// its parameters are those of the decoder's embedding.
class TokenEmbedding : public PreTrainedModel {
 public:
  /// @param decoder lives as long as this does
  TokenEmbedding(Scope scope, const DecoderModel& decoder);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return {}; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;
  const Module& declared() const override { return decoder_.embedding(); }

 private:
  const DecoderModel& decoder_;
};

/// Scores of tokens from hidden states: "input" [batch, sequence, hidden] → [batch, sequence, vocabulary], without
/// bias.
class LmHead : public PreTrainedModel {
 public:
  LmHead(Scope scope, const ModelConfig& config, int64_t hidden_size, int64_t vocab_size);
  at::Tensor operator()(const at::Tensor& hidden) const;
  using PreTrainedModel::operator();
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return {}; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  int64_t hidden_size_;
  at::Tensor weight_;  // [vocabulary, hidden]
};

/// What a model of images and text is made of; the parts live as long as the model.
struct ImageTextParts {
  const PreTrainedModel* image_encoder = nullptr;   ///< pixel_values → hidden_states with those that are features
  const PreTrainedModel* projector = nullptr;       ///< image_features → features of the text's width
  const PreTrainedModel* embed_tokens = nullptr;    ///< input_ids → embeddings
  const PreTrainedModel* language_model = nullptr;  ///< inputs_embeds → last_hidden_state, cache
  const PreTrainedModel* lm_head = nullptr;         ///< input → scores
  ImageFeatureTraits features;
};

}  // namespace exporters::models
