#pragma once

#include "exporters/models/seq2seq.h"

#include <memory>
#include <string_view>
#include <vector>

namespace exporters::models {

/// Scores of the labels from the mean of the encoder's positions, or of all its layers' where the config weighs them.
class WhisperForAudioClassification : public PreTrainedModel {
 public:
  explicit WhisperForAudioClassification(const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override { return encoder_->sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return encoder_->axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return "model"; }
  KeyRules key_rules() const override;
  const PreTrainedModel* encoder() const override { return encoder_.get(); }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  std::unique_ptr<EncoderStack> encoder_;
  Linear projector_;
  Linear classifier_;
  bool weighs_layers_;
  at::Tensor layer_weights_;  // [layers + 1]
};

}  // namespace exporters::models
