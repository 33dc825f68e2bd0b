#pragma once

#include "exporters/models/contrastive.h"
#include "exporters/models/model_parts.h"

#include <memory>
#include <optional>
#include <vector>

namespace exporters::models {

/// The tower of images, which gives the hidden states that are features only.
class LlavaImageEncoder : public ImageTower {
 public:
  LlavaImageEncoder(Scope scope, const ModelConfig& config, const ImageTowerSpec& spec, ImageFeatureTraits features);
  /// @param flags with hidden_states: all of them
  PooledOutput operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();
  /// Of each image.
  int64_t feature_count() const { return feature_count_; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override { return (*this)(args, flags).tree(); }

 private:
  ImageFeatureTraits features_;
  int64_t feature_count_;
};

/// Two dense layers: image_features [images, tokens, hidden of the features] → [images, tokens, hidden of the text].
class LlavaMultiModalProjector : public PreTrainedModel {
 public:
  LlavaMultiModalProjector(Scope scope, const ModelConfig& config, int64_t in_features, int64_t out_features);
  at::Tensor operator()(const at::Tensor& image_features) const;
  using PreTrainedModel::operator();
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return {}; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  int64_t in_features_;
  Linear linear_1_;
  Activation activation_;
  Linear linear_2_;
};

/// A tower of images before a decoder, by itself or within the head.
class LlavaModel : public PreTrainedModel {
 public:
  struct Output {
    DecoderModel::Output text;
    PyTree images;  ///< what the encoder gave, with the projected features as its pooler_output; or None
  };

  LlavaModel(Scope scope, const ModelConfig& config);
  Output operator()(const ForwardArgs& args, Flags flags) const;
  using PreTrainedModel::operator();

  const DecoderModel& language_model() const { return *language_model_; }
  /// All but the head.
  const ImageTextParts& parts() const { return parts_; }

  std::vector<ArgumentSpec> arguments() const override;
  /// One image for each row, then `size.sequence` tokens of text. With earlier tokens, text alone.
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return "model"; }
  KeyRules key_rules() const override;
  void check_values(const ForwardArgs& args) const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  at::Tensor image_mask(const at::Tensor& input_ids, const at::Tensor& embeddings) const;

  ImageFeatureTraits features_;
  std::optional<LlavaImageEncoder> vision_tower_;
  std::optional<LlavaMultiModalProjector> multi_modal_projector_;
  std::unique_ptr<DecoderModel> language_model_;
  std::optional<TokenEmbedding> embed_tokens_;
  ImageTextParts parts_;
};

/// Scores of the next token.
class LlavaForConditionalGeneration : public PreTrainedModel {
 public:
  explicit LlavaForConditionalGeneration(const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override { return model_.sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return model_.axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return "model"; }
  std::vector<TiedWeights> tied_weights() const override;
  KeyRules key_rules() const override { return model_.key_rules(); }
  const ImageTextParts* image_text_parts() const override { return &parts_; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;
  void check_values(const ForwardArgs& args) const override { model_.check_values(args); }

 private:
  LlavaModel model_;
  LmHead lm_head_;
  ImageTextParts parts_;
};

}  // namespace exporters::models
