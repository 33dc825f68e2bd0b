#include "exporters/generation/decompose.h"

#include "exporters/generation/empty_cache.h"
#include "exporters/generation/positions.h"
#include "exporters/models/image_features.h"
#include "exporters/models/model_parts.h"
#include "exporters/models/operators.h"
#include "exporters/models/registry.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <optional>

namespace exporters {
namespace {

using models::ArgumentSpec;
using models::ForwardArgs;
using models::PreTrainedModel;

// The arguments that the model has, in its order.
NamedInputs ordered(const PreTrainedModel& model, const ForwardArgs& args) {
  NamedInputs inputs;
  for (const ArgumentSpec& spec : model.arguments()) {
    if (const PyTree* value = args.find(spec.name); value != nullptr && !value->is_none()) {
      inputs.emplace_back(spec.name, *value);
    }
  }
  return inputs;
}

// The size at the sample.
int64_t sample_size(const ExportedProgram& program, const Expr& size) {
  return size.evaluate([&](Symbol symbol) {
    const auto hint = program.hints.find(symbol.name());
    ensure(hint != program.hints.end(), "the size of a cache depends on the inputs' values");
    return hint->second;
  });
}

// Zeros of the sizes at the sample for each tensor that a program returns.
PyTree sample_outputs(const ExportedProgram& program) {
  std::vector<PyTree::Leaf> leaves;
  for (const LeafInfo& leaf : program.output_leaves()) {
    const Value* value = leaf.placeholder.empty() ? nullptr : program.graph->find(leaf.placeholder);
    if (value == nullptr || !value->is_tensor()) {
      leaves.emplace_back();
      continue;
    }
    std::vector<int64_t> sizes;
    for (const Expr& size : value->meta().sizes) {
      sizes.push_back(sample_size(program, size));
    }
    leaves.emplace_back(at::zeros(sizes, at::TensorOptions().dtype(value->meta().dtype)));
  }
  return PyTree::unflatten(program.out_spec, std::move(leaves));
}

/// What the components of one generation have in common.
struct Request {
  std::shared_ptr<const PreTrainedModel> model;
  ForwardArgs given;
  GenerationConfig config;
  DecomposeOptions options;

  std::optional<int64_t> static_length() const { return config.static_cache ? config.max_cache_len : std::nullopt; }
  int64_t queries() const { return options.multi_token_decode ? 2 : 1; }
};

// What the forward gives for these inputs, as zeros.
PyTree sample_output(const Request& request, const std::shared_ptr<const PreTrainedModel>& model,
                     const NamedInputs& inputs) {
  return sample_outputs(traced_forward(model, inputs, request.options.dynamic));
}

// Over the room of a static cache, as the reference's generate passes it.
at::Tensor prepared_mask(int64_t batch, int64_t queries, int64_t room) {
  return at::ones({batch, 1, queries, room}, at::kBool);
}

/// prefill and decode, given what a prefill takes besides the cache, and how decode differs.
std::vector<GenerationComponent> with_cache(const Request& request, ForwardArgs prefill_args,
                                            const std::function<ForwardArgs()>& decode_args) {
  const std::shared_ptr<const PreTrainedModel>& model = request.model;
  prefill_args.set("cache", empty_cache(model, request.static_length()));
  NamedInputs prefill = ordered(*model, prefill_args);
  const PyTree output = sample_output(request, model, prefill);
  check_generates(output, model->class_name());
  ForwardArgs decode = decode_args();
  decode.set("cache", *output.find("cache"));
  std::vector<GenerationComponent> components;
  if (!request.options.merged) {
    components.push_back({"prefill", model, std::move(prefill), false});
  }
  components.push_back({"decode", model, ordered(*model, decode), true});
  return components;
}

// ── Decoders ──

class DecoderOnly {
 public:
  explicit DecoderOnly(const Request& request)
      : request_(request), ids_(request.given.tensor("input_ids")), mask_(request.given.tensor("attention_mask")) {
    prepares_mask_ = mask_.defined() && request.static_length() && !has_windows(empty_cache(request.model));
    ensure(ids_.defined() && ids_.dim() == 2 && ids_.numel() > 0,
           "the sample inputs of a generation have 'input_ids' [batch, length]");
    if (const auto room = request.static_length()) {
      ensure(ids_.size(1) + request.queries() <= *room,
             "the sample has {} tokens and goes on with {}, max_cache_len is {}", ids_.size(1), request.queries(),
             *room);
    }
  }

  std::vector<GenerationComponent> run() const {
    return with_cache(request_, prefill_args(), [this] { return decode_args(); });
  }

  ForwardArgs prefill_args() const {
    ForwardArgs args = request_.given;
    const at::Tensor mask = mask_.defined() ? mask_ : at::ones(ids_.sizes(), at::kLong);
    if (!args.has("position_ids")) {
      args.set("position_ids", positions_of(mask));
    }
    if (prepares_mask_) {
      args.set("attention_mask", prepared_mask(ids_.size(0), ids_.size(1), *request_.static_length()));
    }
    return args;
  }

  ForwardArgs decode_args() const {
    ForwardArgs args = request_.given;
    const int64_t batch = ids_.size(0);
    const int64_t queries = request_.queries();
    args.set("input_ids", ids_.slice(1, 0, 1).repeat({1, queries}));
    const at::Tensor positions = at::arange(ids_.size(1), ids_.size(1) + queries, at::kLong);
    args.set("position_ids", positions.unsqueeze(0).repeat({batch, 1}));
    if (prepares_mask_) {
      args.set("attention_mask", prepared_mask(batch, queries, *request_.static_length()));
    } else if (models::keeps_state(request_.model->config())) {
      // Of new tokens, which has something to say in a prompt only.
      const bool has_prompt = request_.options.merged && mask_.defined();
      args.set("attention_mask", has_prompt ? PyTree(at::ones({batch, queries}, mask_.options())) : PyTree());
    } else if (mask_.defined()) {
      args.set("attention_mask", at::cat({mask_, at::ones({batch, queries}, mask_.options())}, 1));
    }
    args.set("pixel_values", PyTree());  // images are in the prompt
    return args;
  }

 private:
  const Request& request_;
  at::Tensor ids_;
  at::Tensor mask_;
  // One mask for all layers, over the room of a static cache. Where some have a window, they make their own of the one
  // for the tokens.
  bool prepares_mask_ = false;
};

// ── Images and text ──

// The reference's components, with the embedding of tokens, which it leaves out as it does the images' part, so that a
// folder alone can generate.
class ImageText {
 public:
  ImageText(const Request& request, const models::ImageTextParts& parts) : request_(request), parts_(parts) {
    ensure(!request.options.merged,
           "{} has an encoder of images: a prompt goes through its parts, so that prefill and decode are several "
           "components",
           request.model->class_name());
    ensure(request.given.has("pixel_values"), "the sample inputs of a generation by {} have 'pixel_values'",
           request.model->class_name());
  }

  std::vector<GenerationComponent> run() {
    const DecoderOnly text(request_);
    const PyTree encoded = add("image_encoder", parts_.image_encoder, request_.given, "images");
    const at::Tensor selected = models::select_image_features(parts_.features, encoded.at("hidden_states"));
    add("multi_modal_projector", parts_.projector, {{"image_features", selected.contiguous()}}, "images");
    const PyTree embeddings = add("embed_tokens", parts_.embed_tokens, request_.given);
    ForwardArgs prefill = text.prefill_args();
    prefill.set("input_ids", PyTree());
    prefill.set("inputs_embeds", embeddings);
    prefill.set("cache", empty_cache(request_.model, request_.static_length()));
    const PyTree hidden = add("language_model", parts_.language_model, prefill);
    add("lm_head", parts_.lm_head, {{"input", hidden.at("last_hidden_state")}});
    ForwardArgs decode = text.decode_args();
    decode.set("cache", hidden.at("cache"));
    components_.push_back({"decode", request_.model, ordered(*request_.model, decode), true});
    return std::move(components_);
  }

 private:
  // The part with those of the arguments that it has; gives what it gives, as zeros.
  PyTree add(const char* name, const PreTrainedModel* part, const ForwardArgs& args, const char* batch = "batch") {
    const std::shared_ptr<const PreTrainedModel> shared(request_.model, part);
    NamedInputs inputs = ordered(*part, args);
    PyTree output = sample_output(request_, shared, inputs);
    components_.push_back({name, shared, std::move(inputs), false, batch});
    return output;
  }

  const Request& request_;
  const models::ImageTextParts& parts_;
  std::vector<GenerationComponent> components_;
};

// ── Encoder and decoder ──

std::vector<GenerationComponent> encoder_decoder(const Request& request, const PreTrainedModel& encoder) {
  ensure(!request.options.merged,
         "{} has an encoder: its prefill computes keys that decode only takes, so that they are "
         "two components",
         request.model->class_name());
  // Lives as long as the model whose part it is.
  const std::shared_ptr<const PreTrainedModel> part(request.model, &encoder);
  NamedInputs source = ordered(encoder, request.given);
  ensure(!source.empty(), "the sample inputs of a generation have those of the encoder");
  const PyTree encoded = sample_output(request, part, source);
  const int64_t batch = encoded.children().front().tensor().size(0);

  ForwardArgs args{{"encoder_outputs", encoded}};
  args.set("decoder_input_ids", at::full({batch, 1}, request.config.decoder_start_token_id.value_or(0), at::kLong));
  if (request.given.has("attention_mask")) {
    args.set("attention_mask", *request.given.find("attention_mask"));
  }
  const std::optional<int64_t> room = request.static_length();
  ensure(!room || 1 + request.queries() <= *room, "the sample goes on with {} tokens, max_cache_len is {}",
         request.queries(), room.value_or(0));
  if (room) {
    args.set("decoder_attention_mask", prepared_mask(batch, 1, *room));
  }
  std::vector<GenerationComponent> components = with_cache(request, args, [&] {
    ForwardArgs next = args;
    if (room) {
      next.set("decoder_attention_mask", prepared_mask(batch, request.queries(), *room));
    }
    next.set("decoder_input_ids", args.tensor("decoder_input_ids").repeat({1, request.queries()}));
    return next;
  });
  components.insert(components.begin(), {"encoder", part, std::move(source), false});
  return components;
}

}  // namespace

std::vector<GenerationComponent> decompose_for_generation(std::shared_ptr<const PreTrainedModel> model,
                                                          const NamedInputs& inputs, const GenerationConfig& config,
                                                          const DecomposeOptions& options) {
  if (!config.use_cache) {
    throw Error("generation without a cache (use_cache = false) is not exported", {},
                "Set use_cache to true: the tokens are the same.");
  }
  ensure(!options.merged || options.dynamic, "one component for prefill and decode needs dynamic sizes");
  ensure(!config.static_cache || config.max_cache_len, "a static cache needs its length: set max_cache_len");
  ensure(config.static_cache || !config.max_cache_len,
         "max_cache_len is the length of a static cache: set cache_implementation to static, too");
  Request request{std::move(model), {}, config, options};
  for (const auto& [name, value] : inputs) {
    request.given.set(name, value);
  }
  if (const models::ImageTextParts* parts = request.model->image_text_parts()) {
    return ImageText(request, *parts).run();
  }
  ensure(takes_argument(*request.model, "cache"), "{} does not generate: its forward takes no cache",
         request.model->class_name());
  const PreTrainedModel* encoder = request.model->encoder();
  return encoder != nullptr ? encoder_decoder(request, *encoder) : DecoderOnly(request).run();
}

}  // namespace exporters
