#pragma once

#include "exporters/models/cache.h"
#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/convolution.h"
#include "exporters/models/layers/layers.h"
#include "exporters/models/layers/norms.h"
#include "exporters/models/layers/scan.h"
#include "exporters/models/pretrained.h"

#include <memory>
#include <optional>

namespace exporters::models {

// Mamba: Linear-Time Sequence Modeling with Selective State Spaces (Gu and Dao, 2023). A layer mixes the tokens of a
// sequence by a short convolution and a recurrence; its cache is the state of both.

struct MambaSpec {
  explicit MambaSpec(const ModelConfig& config);

  int64_t vocab_size;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t state_size;
  int64_t num_layers;
  int64_t conv_kernel;
  int64_t time_step_rank;
  double norm_eps;
  Activation activation;
  bool bias;
  bool conv_bias;
  bool residual_in_float32;
  bool tie_word_embeddings;
  std::optional<int64_t> pad_token_id;
};

class MambaMixer : public Module {
 public:
  MambaMixer(Scope scope, const MambaSpec& spec);
  /// @param hidden [batch, length, hidden]
  /// @param mask [batch, length], 0 for padding; may be undefined
  /// @param cache read and written; null: none
  at::Tensor operator()(const at::Tensor& hidden, const at::Tensor& mask, LinearAttentionLayer* cache,
                        const LinearScan& scan) const;

 private:
  at::Tensor convolve(const at::Tensor& inputs, LinearAttentionLayer* cache, at::Tensor& conv_states) const;
  at::Tensor recur(const at::Tensor& inputs, const at::Tensor& gate, LinearAttentionLayer* cache,
                   const at::Tensor& conv_states, const LinearScan& scan) const;

  int64_t intermediate_size_;
  int64_t state_size_;
  int64_t conv_kernel_;
  int64_t time_step_rank_;
  Activation activation_;
  at::Tensor a_log_;  // [intermediate, state]
  at::Tensor d_;      // [intermediate]
  Convolution conv1d_;
  Linear in_proj_;
  Linear x_proj_;
  Linear dt_proj_;
  Linear out_proj_;
};

class MambaBlock : public Module {
 public:
  MambaBlock(Scope scope, const MambaSpec& spec);
  at::Tensor operator()(const at::Tensor& hidden, const at::Tensor& mask, LinearAttentionLayer* cache,
                        const LinearScan& scan) const;

 private:
  bool residual_in_float32_;
  RmsNorm norm_;
  MambaMixer mixer_;
};

/// The bare model, by itself or within the head. With earlier tokens in the cache, new ones go on from their state
/// however many they are; the reference begins anew when they are several.
class MambaModel : public PreTrainedModel {
 public:
  struct Output {
    at::Tensor last_hidden_state;  ///< [batch, length, hidden]
    PyTree cache;                  ///< or None
    PyTree hidden_states;          ///< a tuple of what each layer gives and the last norm, or None
  };

  MambaModel(Scope scope, const ModelConfig& config);
  Output operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();
  const MambaSpec& spec() const { return spec_; }
  c10::ScalarType dtype() const { return embeddings_.weight().scalar_type(); }

  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return "backbone"; }
  KeyRules key_rules() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  std::unique_ptr<LayeredCache> cache_for(const ForwardArgs& args, bool use_cache) const;
  LinearAttentionLayer& layer_of(LayeredCache& cache, size_t index) const;

  MambaSpec spec_;
  Embedding embeddings_;
  ModuleList<MambaBlock> layers_;
  std::optional<RmsNorm> norm_f_;
};

/// Scores of the next token, in float32.
class MambaForCausalLM : public PreTrainedModel {
 public:
  explicit MambaForCausalLM(const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override { return backbone_.sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return backbone_.axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return "backbone"; }
  KeyRules key_rules() const override { return backbone_.key_rules(); }
  std::vector<TiedWeights> tied_weights() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  MambaModel backbone_;
  Linear lm_head_;
};

}  // namespace exporters::models
