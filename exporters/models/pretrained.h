#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/pytree.h"
#include "exporters/models/config.h"
#include "exporters/models/forward.h"
#include "exporters/models/layers/attention.h"
#include "exporters/models/module.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters::models {

struct ImageTextParts;

/// A tensor of a model by its full name, as the tracer lifts it.
struct StateEntry {
  std::string name;  ///< as in the reference's state_dict: "bert.embeddings.word_embeddings.weight"
  at::Tensor tensor;
  bool is_buffer = false;
  bool persistent = true;
  /// Where the bytes lie, when the tensor is a view of the checkpoint (it is not when its dtype was converted).
  std::optional<WeightSource> source;
  /// The earlier entry that this one shares its tensor with; else empty.
  std::string tied_to;
};

/// Two parameters that are one when the config says `tie_word_embeddings`.
struct TiedWeights {
  std::string target;
  std::string source;
};

/// How a checkpoint's keys differ from the names of a model's parameters, besides the base model's prefix.
struct KeyRules {
  /// Beginnings of keys and what they are now: {"embed_out.", "lm_head."}.
  std::vector<std::pair<std::string, std::string>> renamed;
  /// Endings of keys of buffers that older versions of the reference stored; it passes them over too.
  std::vector<std::string> former_buffers;
  /// Beginnings of keys of the parts of a checkpoint that this model does without; they are passed over too.
  std::vector<std::string> unused;
  /// Parts of names of parameters that stay float32 in a float16 model.
  std::vector<std::string> kept_in_float32;
};

/// What loading found that a person may want to know.
struct LoadReport {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<std::string> surplus_keys;  ///< in the checkpoint, not in the model
  std::vector<std::string> untied;        ///< tied by the config, but stored with different values: both are used
};

/// An axis of an input: its name (none: the architecture fixes its size) and the largest size it takes (kMax: any).
struct AxisName {
  std::string name;
  int64_t max = Range::kMax;
};
/// Input name → axis → name.
using AxisNames = std::map<std::string, std::map<int64_t, AxisName>>;

struct SampleSize {
  int64_t batch = 1;
  int64_t sequence = 8;  ///< new tokens; those of the decoder where there is one
  /// Models with a cache: how many tokens it holds. 0: no cache among the inputs.
  int64_t past = 0;
  /// Models with an encoder: how many tokens it gets. 0: as many as the decoder with its cache.
  int64_t source = 0;
};

/// A transformers architecture with its weights: forward from named arguments to the reference's output class.
class PreTrainedModel : public Module {
 public:
  const ModelConfig& config() const { return config_; }

  /// Runs the model on real or traced tensors. Arguments may come in any order; those that are None count as absent.
  /// The result is a ModelOutput of the reference's class, with its fields in its order, or a tuple of them when
  /// `return_dict` is false. Throws Error for arguments that the model does not have (with those it has), of another
  /// kind, dtype or rank, and for sizes beyond the model's.
  PyTree forward(const ForwardArgs& args) const;
  /// forward on real tensors, in inference mode; checks index values too. Errors of libtorch come as Error.
  PyTree operator()(const ForwardArgs& args) const;

  /// What forward takes, in the reference's order.
  virtual std::vector<ArgumentSpec> arguments() const = 0;
  /// What a user of this model would feed, made from the config: the same sizes give the same values. Throws Error for
  /// sizes that the model cannot take.
  virtual ForwardArgs sample_inputs(const SampleSize& size) const = 0;
  /// Of every input that sample_inputs may give. @param with_cache a cache with keys is among the inputs: axes that
  /// count its tokens too have names of their own
  virtual AxisNames axis_names(bool with_cache) const = 0;
  AxisNames axis_names() const { return axis_names(/*with_cache=*/false); }

  /// The encoder of an encoder-decoder model, to be run or exported by itself; else null. It lives as long as this
  /// does, and its parameters are this one's.
  virtual const PreTrainedModel* encoder() const { return nullptr; }
  /// The parts of a model of images and text that generates (model_parts.h), each to be run or exported by itself; else
  /// null.
  virtual const ImageTextParts* image_text_parts() const { return nullptr; }

  /// The attribute under which a model with a head keeps the bare model: "bert". Checkpoint keys match with or
  /// without it.
  virtual std::string_view base_model_prefix() const = 0;
  virtual std::vector<TiedWeights> tied_weights() const { return {}; }
  virtual KeyRules key_rules() const { return {}; }

  void set_attention(AttentionKind kind) { attention_ = kind; }

  /// Every parameter in the order of the reference's state_dict, then every buffer. Tensors are those that forward
  /// uses. Empty tensors before loading.
  std::vector<StateEntry> state() const;
  const LoadReport& load_report() const { return report_; }

 protected:
  /// Of the first parameter; float32 before loading.
  c10::ScalarType parameter_dtype() const;

  struct Flags {
    bool hidden_states = false;
    bool attentions = false;
    bool use_cache = false;
    bool router_logits = false;
    AttentionKind attention = AttentionKind::kSdpa;  ///< kEager when attentions are asked for
  };

  PreTrainedModel(Scope scope, std::string class_name, ModelConfig config);
  /// The architecture itself; arguments are checked.
  virtual PyTree run(const ForwardArgs& args, const Flags& flags) const = 0;
  /// Whose parameters and buffers state() lists: this one's, unless it stands for a part of another model.
  virtual const Module& declared() const { return *this; }
  /// Throws Error where the values of real tensors are such that nothing is computed from them.
  virtual void check_values(const ForwardArgs&) const {}

 private:
  friend class StateLoader;
  void check_arguments(const ForwardArgs& args) const;
  const PreTrainedModel& root() const;

  ModelConfig config_;
  AttentionKind attention_ = AttentionKind::kSdpa;
  std::map<const at::Tensor*, WeightSource> sources_;  ///< by the slots' tensors; a root's only
  LoadReport report_;
};

struct LoadOptions {
  std::string task = {};                        ///< "fill-mask"; empty: from the config's architectures
  std::string architecture = {};                ///< "BertForMaskedLM"; empty: from the task
  std::optional<c10::ScalarType> dtype = {};    ///< empty: the config's, else that of the first stored floating tensor
  std::optional<AttentionKind> attention = {};  ///< empty: the config's, else sdpa
};

/// Loads a checkpoint folder: config.json and safetensors. Parameters whose dtype need not change are views of the
/// mapped files. Throws Error for unknown model types, tasks and architectures, for config values that are not
/// supported, and for parameters that are missing or have another shape, all of them named.
std::unique_ptr<PreTrainedModel> load(const std::filesystem::path& folder, const LoadOptions& options = {});

}  // namespace exporters::models
