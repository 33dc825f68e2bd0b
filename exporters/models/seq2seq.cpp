#include "exporters/models/seq2seq.h"

#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sum.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace exporters::models {
namespace {

using Kind = ArgumentSpec::Kind;

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

std::string output_class(std::string_view name) { return fmt::format("transformers.modeling_outputs.{}", name); }

void check_sample(const SampleSize& size) {
  ensure(size.batch >= 1 && size.sequence >= 1 && size.past >= 0 && size.source >= 0,
         "a sample has at least one row and one token, not [{}, {}]", size.batch, size.sequence);
}

void check_sample_positions(int64_t count, std::optional<int64_t> limit) {
  if (limit) {
    ensure(count <= *limit, "a sample of {} tokens is longer than the model's {} positions (max_position_embeddings)",
           count, *limit);
  }
}

// The keys of an encoder that a cache holds are those of the encoder's output.
void check_source(const CacheLayer& layer, const at::Tensor& encoder_hidden_states, size_t index) {
  if (layer.is_initialized()) {
    require(layer.keys().sym_size(2).sym_eq(encoder_hidden_states.sym_size(1)), [&] {
      return c10::str("the cache's keys of the encoder in layer ", index, " are ", layer.keys().sym_sizes(),
                      ", the encoder's output is ", encoder_hidden_states.sym_sizes());
    });
  }
}

void name_states(AxisNames& names, const std::string& layer, const AxisName& length) {
  for (const char* states : {"keys", "values"}) {
    names[layer + "." + states] = {{0, {"batch"}}, {1, {}}, {2, length}, {3, {}}};
  }
}

}  // namespace

// ── Stacks ──

TransformerStack::TransformerStack(Scope scope, const ModelConfig& config, Options options)
    : PreTrainedModel(std::move(scope), options.class_name, config), options_(std::move(options)) {}

AttentionKind TransformerStack::kind_of(const Flags& flags) const {
  return options_.needs_eager_attention ? AttentionKind::kEager : flags.attention;
}

void TransformerStack::require_positions(const c10::SymInt& past, const c10::SymInt& count) const {
  if (!options_.max_positions) {
    return;
  }
  const c10::SymInt length = past + count;
  require(length.sym_le(*options_.max_positions), [&] {
    return c10::str("the sequence has ", length, " positions with those of the cache, the model has ",
                    *options_.max_positions, " (max_position_embeddings)");
  });
}

void TransformerStack::require_width(const at::Tensor& states, std::string_view name) const {
  require(states.sym_size(2).sym_eq(options_.hidden_size), [&] {
    return c10::str(std::string(name), " are ", states.sym_sizes(), ", the model is ", options_.hidden_size, " wide");
  });
}

std::vector<ArgumentSpec> TransformerStack::flag_arguments() const {
  std::vector<ArgumentSpec> specs = {
      {"output_hidden_states", Kind::kFlag}, {"output_attentions", Kind::kFlag}, {"return_dict", Kind::kFlag}};
  if (options_.has_routers) {
    specs.push_back({"output_router_logits", Kind::kFlag});
  }
  return specs;
}

TransformerStack::Output TransformerStack::run_layers(at::Tensor hidden, const Pass& pass, const Flags& flags) const {
  std::vector<at::Tensor> hidden_states;
  std::vector<at::Tensor> attentions;
  std::vector<at::Tensor> cross_attentions;
  std::vector<at::Tensor> router_logits;
  const auto record = [](std::vector<at::Tensor>& list, at::Tensor value) {
    if (value.defined()) {
      list.push_back(std::move(value));
    }
  };
  for (size_t i = 0; i < options_.num_layers; ++i) {
    hidden_states.push_back(hidden);
    LayerOutput layer = run_layer(i, hidden, pass);
    hidden = std::move(layer.hidden);
    record(attentions, std::move(layer.probabilities));
    record(cross_attentions, std::move(layer.cross_probabilities));
    record(router_logits, std::move(layer.router_logits));
  }
  Output output;
  output.last_hidden_state = finish(hidden);
  hidden_states.push_back(output.last_hidden_state);
  const auto given = [](bool wanted, std::vector<at::Tensor>& list) {
    return wanted ? tuple_of(std::move(list)) : PyTree();
  };
  output.hidden_states = given(flags.hidden_states, hidden_states);
  output.attentions = given(flags.attentions, attentions);
  output.cross_attentions = given(flags.attentions && options_.lists_cross_attentions, cross_attentions);
  output.router_logits = given(flags.router_logits && options_.has_routers, router_logits);
  return output;
}

PyTree TransformerStack::to_tree(const Output& output) const {
  return PyTree::object(output_class(options_.output_class), {{"last_hidden_state", output.last_hidden_state},
                                                              {"cache", output.cache},
                                                              {"hidden_states", output.hidden_states},
                                                              {"attentions", output.attentions},
                                                              {"cross_attentions", output.cross_attentions},
                                                              {"router_logits", output.router_logits}});
}

PyTree TransformerStack::run(const ForwardArgs& args, const Flags& flags) const {
  return to_tree((*this)(args, flags));
}

// ── Encoder ──

int64_t EncoderStack::source_length(const SampleSize& size) {
  return size.source > 0 ? size.source : size.past + size.sequence;
}

at::Tensor TransformerStack::embeddings_of(const ForwardArgs& args) const {
  args.require_one_of("input_ids", "inputs_embeds");
  if (args.has("input_ids")) {
    return embed(args.tensor("input_ids"));
  }
  const at::Tensor given = args.tensor("inputs_embeds");
  require_width(given, "inputs_embeds");
  return given;
}

EncoderStack::Output EncoderStack::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  Pass pass;
  pass.kind = kind_of(flags);
  const at::Tensor hidden = begin(embeddings_of(args), args, pass);
  return run_layers(hidden, pass, flags);
}

std::vector<ArgumentSpec> EncoderStack::arguments() const {
  std::vector<ArgumentSpec> specs = {
      {"input_ids", Kind::kIndices, {2}, options().vocab_size, "vocab_size"},
      {"attention_mask", Kind::kMask, {2, 4}},
      {"inputs_embeds", Kind::kFloats, {3}},
  };
  const std::vector<ArgumentSpec> flags = flag_arguments();
  specs.insert(specs.end(), flags.begin(), flags.end());
  return specs;
}

ForwardArgs EncoderStack::sample_inputs(const SampleSize& size) const {
  check_sample(size);
  const int64_t length = source_length(size);
  check_sample_positions(length, options().max_positions);
  const at::Tensor ids = sample_ids(size.batch, length, options().vocab_size, options().pad_token_id);
  return {{"input_ids", ids}, {"attention_mask", at::ones_like(ids)}};
}

AxisNames EncoderStack::axis_names(bool) const {
  AxisNames names;
  for (const char* input : {"input_ids", "attention_mask", "inputs_embeds"}) {
    names[input] = {{0, {"batch"}}, {1, {"sequence", options().max_positions.value_or(Range::kMax)}}};
  }
  return names;
}

// ── Decoder ──

at::Tensor DecoderStack::positions(const ForwardArgs& args, const CacheSpan& span, const c10::SymInt& queries) {
  if (args.has("position_ids")) {
    return args.tensor("position_ids");
  }
  const at::Tensor positions = at::arange(span.past, span.past + queries, int64());
  return (span.past_tensor.defined() ? positions + span.past_tensor : positions).unsqueeze(0);
}

void DecoderStack::check_states(const CacheLayer& layer, size_t index) const {
  const at::Tensor& keys = layer.keys();
  if (!keys.defined()) {
    return;
  }
  for (const auto& [axis, expected, what] :
       {std::tuple(1, cache_.heads, "attention heads"), std::tuple(3, cache_.head_dim, "dimensions in a head")}) {
    require(keys.sym_size(axis).sym_eq(expected), [&, expected = expected, what = what] {
      return c10::str("the cache's keys of layer ", index, " are ", keys.sym_sizes(), ", the model has ", expected, " ",
                      what);
    });
  }
}

std::unique_ptr<Cache> DecoderStack::cache_for(const ForwardArgs& args, bool use_cache) const {
  const bool with_encoder = args.has("encoder_hidden_states");
  if (const PyTree* given = args.find_renamed("cache", "past_key_values")) {
    ensure(use_cache || !cache_.needs_use_cache, "a cache is given, and use_cache is false: {} would not read it",
           class_name());
    std::unique_ptr<Cache> cache = Cache::from_tree(*given);
    ensure(!with_encoder || dynamic_cast<EncoderDecoderCache*>(cache.get()) != nullptr,
           "{} attends to an encoder: it takes an EncoderDecoderCache, not a {}", class_name(), cache->type());
    return cache;
  }
  if (!use_cache) {
    return nullptr;
  }
  const auto new_cache = [this] {
    LayeredCache::Layers layers(cache_.new_layers);
    std::generate(layers.begin(), layers.end(), [] { return std::make_unique<DynamicLayer>(); });
    return std::make_unique<DynamicCache>(std::move(layers), /*adds_layers=*/false);
  };
  if (with_encoder || cache_.has_encoder) {
    return std::make_unique<EncoderDecoderCache>(new_cache(), new_cache());
  }
  return new_cache();
}

void DecoderStack::fill_caches(Cache* cache, Pass& pass) const {
  if (cache == nullptr) {
    pass.caches.resize(options().num_layers);
    return;
  }
  auto* both = dynamic_cast<EncoderDecoderCache*>(cache);
  LayeredCache& own = both != nullptr ? both->self_attention() : dynamic_cast<LayeredCache&>(*cache);
  for (size_t i = 0; i < options().num_layers; ++i) {
    LayerCaches& layer = pass.caches.emplace_back();
    layer.self = &own.layer(i);
    check_states(*layer.self, i);
    if (both != nullptr && pass.encoder_hidden_states.defined()) {
      layer.cross = &both->cross_attention().layer(i);
      layer.cross_is_filled = both->is_updated(static_cast<int64_t>(i));
      ensure(!layer.cross_is_filled || layer.cross->is_initialized(),
             "the cache says that it holds the encoder's keys for layer {}, and has none", i);
      check_states(*layer.cross, i);
      check_source(*layer.cross, pass.encoder_hidden_states, i);
      both->set_updated(static_cast<int64_t>(i));
    }
  }
}

DecoderStack::Output DecoderStack::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor embeddings = embeddings_of(args);
  Pass pass;
  pass.kind = kind_of(flags);
  pass.encoder_hidden_states = args.tensor("encoder_hidden_states");
  if (pass.encoder_hidden_states.defined()) {
    require_width(pass.encoder_hidden_states, "the encoder's states");
  }
  const std::unique_ptr<Cache> cache = cache_for(args, flags.use_cache);
  fill_caches(cache.get(), pass);
  const c10::SymInt queries = embeddings.sym_size(1);
  pass.span = cache ? pass.caches.front().self->span(queries) : CacheSpan::after(0, queries);
  Output output = run_layers(begin(embeddings, args, pass), pass, flags);
  output.cache = cache ? cache->to_tree() : PyTree();
  return output;
}

std::vector<ArgumentSpec> DecoderStack::arguments() const {
  std::vector<ArgumentSpec> specs = {
      {"input_ids", Kind::kIndices, {2}, options().vocab_size, "vocab_size"},
      {"attention_mask", Kind::kMask, {2, 4}},
      {"encoder_hidden_states", Kind::kFloats, {3}},
  };
  if (masks_encoder()) {
    specs.push_back({"encoder_attention_mask", Kind::kMask, {2, 4}});
  }
  specs.push_back({"cache", Kind::kCache});
  specs.push_back({"past_key_values", Kind::kCache});
  specs.push_back({"inputs_embeds", Kind::kFloats, {3}});
  if (takes_positions()) {
    specs.push_back({"position_ids", Kind::kIndices, {2}, options().max_positions.value_or(0), "max_target_positions"});
  }
  specs.push_back({"use_cache", Kind::kFlag});
  const std::vector<ArgumentSpec> flags = flag_arguments();
  specs.insert(specs.end(), flags.begin(), flags.end());
  return specs;
}

PyTree DecoderStack::sample_cache(int64_t batch, int64_t past, int64_t source) const {
  const c10::ScalarType dtype = parameter_dtype();
  int64_t seed = 0;
  const auto make = [&](int64_t length) {
    LayeredCache::Layers layers;
    for (size_t i = 0; i < options().num_layers; ++i) {
      const std::vector<int64_t> sizes = {batch, cache_.heads, length, cache_.head_dim};
      at::Tensor keys = sample_values(sizes, seed++).to(dtype);
      at::Tensor values = sample_values(sizes, seed++).to(dtype);
      layers.push_back(std::make_unique<DynamicLayer>(std::move(keys), std::move(values)));
    }
    return std::make_unique<DynamicCache>(std::move(layers), /*adds_layers=*/false);
  };
  std::unique_ptr<DynamicCache> own = make(past);
  return source > 0 ? EncoderDecoderCache(std::move(own), make(source)).to_tree() : own->to_tree();
}

ForwardArgs DecoderStack::sample_inputs(const SampleSize& size) const {
  check_sample(size);
  check_sample_positions(size.past + size.sequence, options().max_positions);
  ForwardArgs args{{"input_ids", sample_ids(size.batch, size.sequence, options().vocab_size, options().pad_token_id)},
                   {"attention_mask", at::ones({size.batch, size.past + size.sequence}, int64())}};
  if (size.past > 0) {
    args.set("cache", sample_cache(size.batch, size.past, /*source=*/0));
  }
  return args;
}

void DecoderStack::name_cache_axes(AxisNames& names, bool with_encoder) const {
  const AxisName past{"past", options().max_positions.value_or(Range::kMax)};
  for (size_t i = 0; i < options().num_layers; ++i) {
    if (with_encoder) {
      name_states(names, fmt::format("cache.self_attention_cache.layers.{}", i), past);
      name_states(names, fmt::format("cache.cross_attention_cache.layers.{}", i), {"sequence"});
    } else {
      name_states(names, fmt::format("cache.layers.{}", i), past);
    }
  }
}

AxisNames DecoderStack::axis_names(bool with_cache) const {
  const int64_t max = options().max_positions.value_or(Range::kMax);
  AxisNames names;
  for (const char* input : {"input_ids", "attention_mask", "inputs_embeds", "position_ids"}) {
    names[input] = {{0, {"batch"}}, {1, {"sequence", max}}};
  }
  names["encoder_hidden_states"] = {{0, {"batch"}}, {1, {"encoder_sequence"}}};
  names["encoder_attention_mask"] = names["encoder_hidden_states"];
  if (with_cache) {
    names["attention_mask"][1] = {"total", max};
    name_cache_axes(names, /*with_encoder=*/false);
  }
  return names;
}

// ── Both ──

at::Tensor shift_right_from_start(const at::Tensor& input_ids, const Seq2SeqTraits& traits, const ModelConfig& config) {
  if (!traits.decoder_start_token_id) {
    throw Error("no decoder_input_ids are given, and config field \"decoder_start_token_id\" is not set",
                config.where(), "Give decoder_input_ids");
  }
  const at::Tensor start =
      at::full_symint({input_ids.sym_size(0), 1}, *traits.decoder_start_token_id, input_ids.options());
  return at::cat({start, input_ids.slice_symint(1, 0, input_ids.sym_size(1) - 1)}, 1);
}

at::Tensor shift_right_from_last(const at::Tensor& input_ids, const Seq2SeqTraits& traits, const ModelConfig& config) {
  if (!traits.pad_token_id) {
    throw Error("no decoder_input_ids are given, and config field \"pad_token_id\" is not set", config.where(),
                "Give decoder_input_ids");
  }
  const at::Tensor last = at::sum(at::ne(input_ids, *traits.pad_token_id), {1}, /*keepdim=*/true) - 1;
  return at::cat({at::gather(input_ids, 1, last), input_ids.slice_symint(1, 0, input_ids.sym_size(1) - 1)}, 1);
}

Seq2SeqParts::Seq2SeqParts(const Seq2SeqFamily& family, Scopes scopes, const ModelConfig& config)
    : family_(family), traits_(family.traits(config)) {
  if (traits_.has_shared_embedding) {
    shared_ = std::make_unique<Embedding>(std::move(scopes.shared), traits_.vocab_size, traits_.hidden_size);
  }
  encoder_ = family.make_encoder(std::move(scopes.encoder), config);
  decoder_ = family.make_decoder(std::move(scopes.decoder), config, /*with_encoder=*/true);
}

std::vector<TiedWeights> Seq2SeqParts::tied_embeddings(const std::string& prefix) const {
  if (!traits_.tie_word_embeddings || !traits_.has_shared_embedding) {
    return {};
  }
  const std::string shared = prefix + "shared.weight";
  return {{prefix + "decoder.embed_tokens.weight", shared}, {prefix + "encoder.embed_tokens.weight", shared}};
}

std::vector<ArgumentSpec> Seq2SeqParts::arguments() const {
  std::vector<ArgumentSpec> specs;
  for (ArgumentSpec& spec : encoder_->arguments()) {
    if (spec.kind != Kind::kFlag) {
      specs.push_back(std::move(spec));
    }
  }
  specs.push_back({"decoder_input_ids", Kind::kIndices, {2}, traits_.decoder_vocab_size, "vocab_size"});
  specs.push_back({"decoder_attention_mask", Kind::kMask, {2, 4}});
  specs.push_back({"encoder_outputs", Kind::kOutputs});
  specs.push_back({"cache", Kind::kCache});
  specs.push_back({"past_key_values", Kind::kCache});
  specs.push_back({"decoder_inputs_embeds", Kind::kFloats, {3}});
  if (decoder_->takes_positions()) {
    specs.push_back(
        {"decoder_position_ids", Kind::kIndices, {2}, decoder_->max_positions().value_or(0), "max_target_positions"});
  }
  specs.push_back({"use_cache", Kind::kFlag});
  specs.push_back({"labels", Kind::kRefused, {}, 0, "losses are not computed"});
  for (ArgumentSpec& spec : encoder_->arguments()) {
    if (spec.kind == Kind::kFlag) {
      specs.push_back(std::move(spec));
    }
  }
  return specs;
}

// As generate calls the model: with what the encoder returned, once there is a cache.
ForwardArgs Seq2SeqParts::sample_inputs(const SampleSize& size) const {
  check_sample(size);
  check_sample_positions(size.past + size.sequence, decoder_->max_positions());
  const at::Tensor ids = sample_ids(size.batch, size.sequence, traits_.decoder_vocab_size, traits_.pad_token_id);
  ForwardArgs args = encoder_->sample_inputs(size);
  if (size.past == 0) {
    args.set("decoder_input_ids", ids);
    args.set("decoder_attention_mask", at::ones_like(ids));
    return args;
  }
  const int64_t source = encoder_->output_length(size);
  ForwardArgs decode;
  if (args.has("attention_mask")) {
    decode.set("attention_mask", *args.find("attention_mask"));
  }
  decode.set("decoder_input_ids", ids);
  TransformerStack::Output encoded;
  encoded.last_hidden_state =
      sample_values({size.batch, source, traits_.hidden_size}, /*seed=*/-1).to(decoder_->sample_dtype());
  decode.set("encoder_outputs", encoder_->to_tree(encoded));
  decode.set("cache", decoder_->sample_cache(size.batch, size.past, source));
  return decode;
}

AxisNames Seq2SeqParts::axis_names(bool with_cache) const {
  AxisNames names = encoder_->axis_names(/*with_cache=*/false);
  const int64_t max = decoder_->max_positions().value_or(Range::kMax);
  for (const char* input :
       {"decoder_input_ids", "decoder_attention_mask", "decoder_inputs_embeds", "decoder_position_ids"}) {
    names[input] = {{0, {"batch"}}, {1, {"decoder_sequence", max}}};
  }
  names["encoder_outputs.last_hidden_state"] = {{0, {"batch"}}, {1, {"sequence"}}, {2, {}}};
  if (with_cache) {
    names["decoder_attention_mask"][1] = {"total", max};
    decoder_->name_cache_axes(names, /*with_encoder=*/true);
  }
  return names;
}

Seq2SeqParts::Inputs Seq2SeqParts::inputs(const ForwardArgs& args, bool shifts_inputs) const {
  Inputs inputs;
  for (const ArgumentSpec& spec : encoder_->arguments()) {
    if (spec.kind != Kind::kFlag && args.has(spec.name)) {
      inputs.encoder.set(spec.name, *args.find(spec.name));
    }
  }
  const auto pass = [&](std::string_view name, std::string_view to) {
    if (args.has(name)) {
      inputs.decoder.set(to, *args.find(name));
    }
  };
  pass("decoder_input_ids", "input_ids");
  pass("decoder_inputs_embeds", "inputs_embeds");
  if (shifts_inputs && !args.has("decoder_input_ids") && !args.has("decoder_inputs_embeds")) {
    ensure(args.has("input_ids"), "none of input_ids, decoder_input_ids and decoder_inputs_embeds is given");
    inputs.decoder.set("input_ids", family_.shift_right(args.tensor("input_ids"), traits_, encoder_->config()));
  } else {
    args.require_one_of("decoder_input_ids", "decoder_inputs_embeds");
  }
  pass("decoder_attention_mask", "attention_mask");
  if (decoder_->masks_encoder()) {
    pass("attention_mask", "encoder_attention_mask");
  }
  if (decoder_->takes_positions()) {
    pass("decoder_position_ids", "position_ids");
  }
  if (const PyTree* cache = args.find_renamed("cache", "past_key_values")) {
    inputs.decoder.set("cache", *cache);
  }
  return inputs;
}

TransformerStack::Output Seq2SeqParts::given_encoder_outputs(const PyTree& given) {
  TransformerStack::Output output;
  output.last_hidden_state = given.children().front().tensor();
  ensure(output.last_hidden_state.dim() == 3, "encoder_outputs begin with a tensor of {} dimensions, not 3",
         output.last_hidden_state.dim());
  const auto field = [&given](std::string_view name, std::string_view index) {
    const PyTree* found = given.find(name);
    found = found != nullptr || index.empty() ? found : given.find(index);
    return found != nullptr ? *found : PyTree();
  };
  const bool is_sequence = given.find("1") != nullptr;
  output.hidden_states = field("hidden_states", is_sequence ? "1" : "");
  output.attentions = field("attentions", is_sequence ? "2" : "");
  output.router_logits = field("router_logits", "");
  return output;
}

}  // namespace exporters::models
