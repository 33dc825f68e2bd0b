#include "exporters/generation/generator.h"

#include "exporters/generation/empty_cache.h"
#include "exporters/generation/logits.h"
#include "exporters/generation/positions.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/quote.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <random>

namespace exporters {
namespace {

const PyTree* find(const NamedInputs& inputs, std::string_view name) {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& each) { return each.first == name; });
  return found == inputs.end() || found->second.is_none() ? nullptr : &found->second;
}

/// Undefined where there is none. Throws Error for one that is no matrix of whole numbers.
at::Tensor integers(const NamedInputs& inputs, std::string_view name) {
  const PyTree* value = find(inputs, name);
  if (value == nullptr) {
    return {};
  }
  const at::Tensor& tensor = value->tensor();
  ensure(tensor.dim() == 2 && !c10::isFloatingType(tensor.scalar_type()),
         "'{}' is a tensor of {} dimensions and dtype {}: generation takes whole numbers [batch, length]", name,
         tensor.dim(), c10::toString(tensor.scalar_type()));
  return tensor.to(at::kLong);
}

bool contains(const std::vector<int64_t>& values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Padding is told by its id where that ends no sequence.
at::Tensor mask_of(const at::Tensor& ids, const GenerationConfig& config) {
  const bool tells = config.pad_token_id && !contains(config.eos_token_id, *config.pad_token_id);
  return tells ? ids.ne(*config.pad_token_id).to(at::kLong) : at::ones(ids.sizes(), at::kLong);
}

// Inputs of a prompt, and of nothing that follows it, beside those of a decoder.
constexpr std::array kPromptInputs{"pixel_values"};

const GenerationStage& first_stage(const GenerationStages& stages) {
  return stages.prefill ? *stages.prefill : stages.decode;
}

std::optional<at::Generator> generator_of(const GenerationConfig& config) {
  if (!config.do_sample) {
    return std::nullopt;
  }
  return at::make_generator<at::CPUGeneratorImpl>(config.seed ? *config.seed : std::random_device()());
}

}  // namespace

/// One generation: the tokens so far, with what the stages take beside them.
class Generator::Run {
 public:
  Run(const Generator& generator, const NamedInputs& inputs, at::Tensor prompt, at::Tensor sequences)
      : stages_(generator.stages_),
        config_(generator.config_),
        inputs_(inputs),
        sequences_(std::move(sequences)),
        batch_(prompt.size(0)),
        length_(prompt.size(1)),
        end_(sequences_.size(1)) {
    sequences_.slice(1, 0, length_).copy_(prompt);
    if (!stages_.is_encoder_decoder) {
      read_mask(prompt);
    }
    check_room();
  }

  /// The length that came out.
  int64_t operator()(const TokenCallback& on_tokens) {
    const LogitsProcessors processors(config_, facts());
    const std::optional<at::Generator> random = generator_of(config_);
    const at::Tensor ends = at::tensor(config_.eos_token_id, at::kLong);
    const int64_t pad = config_.pad_token_id.value_or(config_.eos_token_id.empty() ? 0 : config_.eos_token_id.front());
    at::Tensor open = at::ones({batch_}, at::kBool);
    run_encoder();
    at::Tensor logits = first();
    while (true) {
      const at::Tensor scores = processors(sequences_.slice(1, 0, length_), logits.to(at::kFloat));
      const at::Tensor tokens = at::where(open, choose_tokens(scores, config_.do_sample, random), pad);
      append(tokens);
      open = open.logical_and(at::isin(tokens, ends).logical_not());
      const bool goes_on = !on_tokens || on_tokens(tokens);
      if (!goes_on || length_ == end_ || !open.any().item<bool>()) {
        return length_;
      }
      logits = must_restart() ? first() : next();
    }
  }

 private:
  void read_mask(const at::Tensor& prompt) {
    at::Tensor mask = integers(inputs_, "attention_mask");
    if (!mask.defined()) {
      mask = mask_of(prompt, config_);
    }
    ensure(mask.sizes() == prompt.sizes(), "'attention_mask' is {}, 'input_ids' {}: they have one shape",
           shape_text(mask.sizes().vec()), shape_text(prompt.sizes().vec()));
    at::Tensor positions = integers(inputs_, "position_ids");
    ensure(!positions.defined() || positions.sizes() == prompt.sizes(),
           "'position_ids' has another shape than 'input_ids'");
    if (mask.select(1, -1).eq(0).any().item<bool>()) {
      warn_once("the batch is padded on the right: tokens that follow padding are not what the model would say");
    }
    is_padded_ = mask.eq(0).any().item<bool>();
    const auto takes_mask = [](const GenerationStage& stage) { return stage.takes("attention_mask"); };
    if (is_padded_ && !(takes_mask(first_stage(stages_)) && (stages_.keeps_state || takes_mask(stages_.decode)))) {
      throw Error("the batch is padded, and this export takes no attention_mask to tell padding from text", {},
                  "Generate each prompt by itself, or export with an attention_mask among the sample inputs.");
    }
    first_token_ = mask.ne(0).to(at::kInt).argmax(1);
    mask_ = at::ones({batch_, end_}, at::kLong);
    mask_.slice(1, 0, length_).copy_(mask);
    positions_ = at::zeros({batch_, end_}, at::kLong);
    positions_.slice(1, 0, length_).copy_(positions.defined() ? positions : positions_of(mask));
    positions_.slice(1, length_)
        .copy_(positions_.slice(1, length_ - 1, length_) + at::arange(1, end_ - length_ + 1, at::kLong));
  }

  // The last token is never fed.
  void check_room() const {
    if (stages_.max_cache_len && end_ - 1 > *stages_.max_cache_len) {
      throw Error(fmt::format("generation up to {} tokens needs a cache for {}, this one has room for {}", end_,
                              end_ - 1, *stages_.max_cache_len),
                  {}, "Ask for fewer tokens, or export with a larger max_cache_len.");
    }
  }

  PromptFacts facts() const { return {length_, end_, first_token_}; }

  // What the encoder takes is what is neither the decoder's nor the loop's.
  void run_encoder() {
    if (!stages_.is_encoder_decoder) {
      return;
    }
    if (const PyTree* given = find(inputs_, "encoder_outputs")) {
      encoder_outputs_ = *given;
      return;
    }
    ensure(stages_.encoder.has_value(), "this export has no encoder: give 'encoder_outputs'");
    NamedInputs taken;
    for (const auto& [name, value] : inputs_) {
      if (!name.starts_with("decoder_") && stages_.encoder->takes(name)) {
        taken.emplace_back(name, value);
      }
    }
    encoder_outputs_ = stages_.encoder->run(std::move(taken));
  }

  /// All tokens so far, from an empty cache. Scores of the next one, [batch, vocabulary].
  at::Tensor first() {
    cache_ = stages_.empty_cache ? stages_.empty_cache(batch_, end_ - 1) : PyTree();
    return call(first_stage(stages_), 0);
  }

  // What the prompt has beside its tokens.
  void add_prompt_inputs(const std::function<void(const char*, PyTree)>& add) const {
    for (const char* name : kPromptInputs) {
      if (const PyTree* value = find(inputs_, name)) {
        add(name, *value);
      }
    }
  }

  at::Tensor next() { return call(stages_.decode, length_ - 1); }

  bool must_restart() const { return stages_.cache_boundary && length_ == *stages_.cache_boundary + 1; }

  at::Tensor call(const GenerationStage& stage, int64_t begin) {
    NamedInputs inputs;
    const auto add = [&](const char* name, PyTree value) {
      if (!value.is_none() && stage.takes(name)) {
        inputs.emplace_back(name, std::move(value));
      }
    };
    const at::Tensor ids = sequences_.slice(1, begin, length_).contiguous();
    if (stages_.is_encoder_decoder) {
      const PyTree* mask = find(inputs_, "attention_mask");
      add("attention_mask", mask == nullptr ? PyTree() : *mask);
      add("decoder_input_ids", ids);
      add("encoder_outputs", encoder_outputs_);
      if (stage.prepared_mask) {
        add("decoder_attention_mask", prepared_mask(begin));
      }
    } else {
      if (begin == 0) {
        add_prompt_inputs(add);
      }
      add("input_ids", ids);
      const int64_t masked_from = stages_.keeps_state ? begin : 0;
      add("attention_mask",
          stage.prepared_mask ? prepared_mask(begin) : mask_.slice(1, masked_from, length_).contiguous());
      add("position_ids", positions_.slice(1, begin, length_).contiguous());
    }
    add("cache", std::exchange(cache_, PyTree()));
    const PyTree output = stage.run(std::move(inputs));
    check_generates(output, "the model");
    cache_ = *output.find("cache");
    return output.at("logits").tensor().select(1, -1);
  }

  /// bool [batch, 1, queries, max_cache_len]: the places up to each query's that are not padding.
  at::Tensor prepared_mask(int64_t begin) const {
    const int64_t room = *stages_.max_cache_len;
    const at::Tensor places = at::arange(room, at::kLong).reshape({1, 1, 1, room});
    const at::Tensor queries = at::arange(begin, length_, at::kLong).reshape({1, 1, length_ - begin, 1});
    const at::Tensor causal = places.le(queries);
    if (!mask_.defined()) {
      return causal.expand({batch_, 1, length_ - begin, room}).contiguous();
    }
    at::Tensor visible = at::zeros({batch_, room}, at::kBool);
    visible.slice(1, 0, length_).copy_(mask_.slice(1, 0, length_));
    return causal.logical_and(visible.reshape({batch_, 1, 1, room}));
  }

  void append(const at::Tensor& tokens) {
    sequences_.select(1, length_).copy_(tokens);
    ++length_;
  }

  const GenerationStages& stages_;
  const GenerationConfig& config_;
  const NamedInputs& inputs_;
  at::Tensor sequences_;    // int64 [batch, end]
  at::Tensor mask_;         // int64 [batch, end]; encoder-decoder models have none
  at::Tensor positions_;    // int64 [batch, end]
  at::Tensor first_token_;  // int64 [batch]
  bool is_padded_ = false;
  PyTree encoder_outputs_;
  PyTree cache_;
  int64_t batch_;
  int64_t length_;  // of what is there
  int64_t end_;
};

namespace {

constexpr std::array kDecoderInputs{"input_ids", "attention_mask", "position_ids"};

bool is_prompt_input(std::string_view name) {
  return std::find(kPromptInputs.begin(), kPromptInputs.end(), name) != kPromptInputs.end();
}

void check_inputs(const NamedInputs& inputs, const GenerationStages& stages) {
  for (const auto& [name, value] : inputs) {
    if (value.is_none()) {
      continue;
    }
    const bool known = stages.is_encoder_decoder
                           ? name.starts_with("decoder_") || name == "encoder_outputs" || name == "attention_mask" ||
                                 (stages.encoder && stages.encoder->takes(name))
                           : std::find(kDecoderInputs.begin(), kDecoderInputs.end(), name) != kDecoderInputs.end() ||
                                 (is_prompt_input(name) && first_stage(stages).takes(name));
    ensure(known, "generation has no input {}; it takes {}", quote(name), fmt::join(kDecoderInputs, ", "));
  }
}

// The rows that an encoder-decoder model has to answer.
int64_t batch_of(const NamedInputs& inputs) {
  for (const auto& [name, value] : inputs) {
    for (const auto& [path, tensor] : value.tensors()) {
      if (tensor.dim() > 0) {
        return tensor.size(0);
      }
    }
  }
  fail("generation needs inputs");
}

at::Tensor prompt_of(const NamedInputs& inputs, const GenerationStages& stages, const GenerationConfig& config) {
  at::Tensor prompt = integers(inputs, stages.is_encoder_decoder ? "decoder_input_ids" : "input_ids");
  if (!prompt.defined() && stages.is_encoder_decoder) {
    const std::optional<int64_t> start =
        config.decoder_start_token_id ? config.decoder_start_token_id : config.bos_token_id;
    ensure(start.has_value(), "an encoder-decoder model needs decoder_start_token_id or bos_token_id to begin with");
    return at::full({batch_of(inputs), 1}, *start, at::kLong);
  }
  ensure(prompt.defined(), "generation needs 'input_ids'");
  ensure(prompt.numel() > 0, "'input_ids' is {}: a prompt has at least one token", shape_text(prompt.sizes().vec()));
  return prompt;
}

}  // namespace

Generator::Generator(GenerationStages stages, GenerationConfig config)
    : stages_(std::move(stages)), config_(std::move(config)) {}

at::Tensor Generator::generate(const NamedInputs& inputs, const TokenCallback& on_tokens) const {
  check_inputs(inputs, stages_);
  const at::Tensor prompt = prompt_of(inputs, stages_, config_);
  // Made before the mode, so that the caller may write into it.
  const at::Tensor sequences = at::empty({prompt.size(0), config_.end_length(prompt.size(1))}, at::kLong);
  const c10::InferenceMode inference;
  const int64_t length = Run(*this, inputs, prompt, sequences)(on_tokens);
  return sequences.slice(1, 0, length);
}

}  // namespace exporters
