#pragma once

#include "exporters/models/encoder.h"
#include "exporters/models/layers/convolution.h"
#include "exporters/models/layers/pre_norm_layer.h"
#include "exporters/models/pretrained.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters::models {

// wav2vec 2.0 (Baevski et al., 2020), and HuBERT (Hsu et al., 2021), which has
// the same layers: convolutions over samples of sound make features, of which a
// transformer makes states.

struct SpeechSpec {
  std::string prefix;  ///< of the reference's classes: "Wav2Vec2"
  std::string base;    ///< the attribute that holds the bare model in the heads:
                       ///< "wav2vec2"
  int64_t hidden_size = 0;
  double eps = 0;
  std::vector<int64_t> conv_dim;
  std::vector<int64_t> conv_stride;
  std::vector<int64_t> conv_kernel;
  bool conv_bias = false;
  bool norms_each_convolution = false;  ///< a layer norm after each; else a group norm after the first
  Activation conv_activation = nullptr;
  bool norms_features = true;
  int64_t position_kernel = 0;
  int64_t position_groups = 0;
  bool norms_first = false;  ///< in layers before attention and feed-forward
                             ///< network, and after all of them
  int64_t num_layers = 0;
  PreNormLayerOptions layer;
  int64_t attention_adapter_dim = 0;  ///< 0: none
  bool has_mask_embedding = false;
  bool applies_mask = true;
  bool gives_features = false;  ///< the bare model returns the normalised features too

  /// Convolutions after the layers; 0: none.
  int64_t adapter_layers = 0;
  int64_t adapter_kernel = 0;
  int64_t adapter_stride = 0;
  int64_t output_hidden_size = 0;

  /// The fewest samples that make a feature.
  int64_t min_samples() const;
};

/// A list of positive sizes. Throws Error for others.
std::vector<int64_t> read_sizes(const ModelConfig& config, std::string_view name, std::vector<int64_t> fallback);
SpeechSpec read_wav2vec2(const ModelConfig& config);
SpeechSpec read_hubert(const ModelConfig& config);

/// A convolution with what follows it.
class SpeechConvLayer : public Module {
 public:
  SpeechConvLayer(Scope scope, const SpeechSpec& spec, size_t index);
  at::Tensor operator()(const at::Tensor& input) const;
  c10::ScalarType dtype() const { return conv_.dtype(); }

 private:
  struct Norm : Module {
    Norm(Scope scope, int64_t channels, bool by_channel);
    at::Tensor weight;
    at::Tensor bias;
  };

  int64_t channels_;
  bool by_channel_;
  Activation activation_;
  Convolution conv_;
  std::optional<Norm> norm_;
};

/// Positions from a convolution over time, whose weight is given by direction
/// and length (Salimans and Kingma, 2016).
class SpeechPositions : public Module {
 public:
  SpeechPositions(Scope scope, const SpeechSpec& spec);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  struct Parameters : Module {
    Parameters(Scope scope, const SpeechSpec& spec);
    at::Tensor bias;
    at::Tensor length;     // [1, 1, kernel]
    at::Tensor direction;  // [hidden, hidden / groups, kernel]
  };
  int64_t kernel_;
  int64_t groups_;
  Activation activation_;
  Parameters conv_;
};

/// A bottleneck beside the layer: norm, dense, relu, dense.
class SpeechAttentionAdapter : public Module {
 public:
  SpeechAttentionAdapter(Scope scope, const SpeechSpec& spec);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  LayerNorm norm_;
  Linear linear_1_;
  Linear linear_2_;
};

class SpeechModel : public PreTrainedModel {
 public:
  struct Output {
    at::Tensor last_hidden_state;           ///< [batch, frames, hidden]
    at::Tensor features;                    ///< [batch, frames of features, channels]
    std::vector<at::Tensor> hidden_states;  ///< of the layers, whether asked for or not
    PyTree recorded_states;                 ///< a tuple, or None
    PyTree attentions;                      ///< a tuple, or None
  };

  SpeechModel(Scope scope, const ModelConfig& config, const SpeechSpec& spec);
  Output operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();
  /// How many frames are made of so many samples: int64 [batch] → the same.
  at::Tensor frames_of(at::Tensor samples, bool with_adapter) const;
  /// Bool [batch, frames]: the frames that are made of samples which
  /// attention_mask shows.
  at::Tensor frame_mask(const at::Tensor& attention_mask, const c10::SymInt& frames, bool with_adapter) const;
  const SpeechSpec& spec() const { return spec_; }

  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return spec_.base; }
  KeyRules key_rules() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  at::Tensor extract(const at::Tensor& input_values) const;
  at::Tensor adapt(at::Tensor hidden) const;

  SpeechSpec spec_;
  at::Tensor masked_spec_embed_;  // [hidden]
  ModuleList<SpeechConvLayer> conv_layers_;
  std::optional<LayerNorm> feature_norm_;
  std::optional<Linear> projection_;
  std::optional<SpeechPositions> positions_;
  std::optional<LayerNorm> layer_norm_;
  ModuleList<PreNormLayer> layers_;
  ModuleList<SpeechAttentionAdapter> attention_adapters_;
  std::optional<Linear> adapter_projection_;
  std::optional<LayerNorm> adapter_norm_;
  ModuleList<Convolution> adapter_layers_;
};

/// What the heads share.
class SpeechHead : public PreTrainedModel {
 public:
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override { return model_.sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return model_.axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return model_.spec().base; }
  KeyRules key_rules() const override { return model_.key_rules(); }

 protected:
  SpeechHead(const ModelConfig& config, const SpeechSpec& spec, std::string_view class_name);
  /// For heads that may read a weighted sum of all layers. Declares the weights
  /// where the config has it so.
  void declare_layer_weights();
  at::Tensor states_of(const SpeechModel::Output& output) const;

  at::Tensor layer_weights_;  // [layers + 1]
  SpeechModel model_;
};

/// Scores of characters for each frame.
class SpeechForCTC : public SpeechHead {
 public:
  SpeechForCTC(const ModelConfig& config, const SpeechSpec& spec);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear lm_head_;
};

/// Scores of the whole sound.
class SpeechForSequenceClassification : public SpeechHead {
 public:
  SpeechForSequenceClassification(const ModelConfig& config, const SpeechSpec& spec);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear projector_;
  Linear classifier_;
};

/// Scores of each frame.
class SpeechForAudioFrameClassification : public SpeechHead {
 public:
  SpeechForAudioFrameClassification(const ModelConfig& config, const SpeechSpec& spec);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear classifier_;
};

/// A vector for the speaker: "x-vectors" (Snyder et al., 2018), from the mean and the deviation over time.
class SpeechForXVector : public SpeechHead {
 public:
  SpeechForXVector(const ModelConfig& config, const SpeechSpec& spec);
  ForwardArgs sample_inputs(const SampleSize& size) const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  /// A convolution over time whose weight is that of a dense layer over a window.
  class Tdnn : public Module {
   public:
    Tdnn(Scope scope, int64_t in_features, int64_t out_features, int64_t kernel, int64_t dilation);
    at::Tensor operator()(const at::Tensor& hidden) const;
    int64_t kernel() const { return kernel_; }
    int64_t reach() const { return (kernel_ - 1) * dilation_; }  ///< frames that it takes away

   private:
    int64_t in_features_;
    int64_t out_features_;
    int64_t kernel_;
    int64_t dilation_;
    Linear dense_;
  };
  /// The weights of the loss, which computes nothing here.
  struct Objective : Module {
    Objective(Scope scope, int64_t width, int64_t labels);
    at::Tensor weight;
  };
  at::Tensor pool(const at::Tensor& hidden, const at::Tensor& attention_mask) const;

  Linear projector_;
  ModuleList<Tdnn> tdnn_;
  std::optional<Linear> feature_extractor_;
  std::optional<Linear> classifier_;
  std::optional<Objective> objective_;
};

/// States and quantized features in one space, as pre-training compares them.
class SpeechForPreTraining : public SpeechHead {
 public:
  SpeechForPreTraining(const ModelConfig& config, const SpeechSpec& spec);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  struct Quantizer : Module {
    Quantizer(Scope scope, const ModelConfig& config, int64_t in_features);
    /// [batch, frames, channels] → [batch, frames, codevector_dim] and the perplexity of the code, a number.
    std::pair<at::Tensor, at::Tensor> operator()(const at::Tensor& features) const;

    int64_t groups;
    int64_t entries;         ///< in each group
    int64_t width;           ///< of an entry
    at::Tensor codevectors;  ///< [1, groups · entries, width]
    Linear weight_proj;
  };

  Quantizer quantizer_;
  Linear project_hid_;
  Linear project_q_;
};

}  // namespace exporters::models
