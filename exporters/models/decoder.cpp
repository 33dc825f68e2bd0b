#include "exporters/models/decoder.h"

#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace exporters::models {
namespace {

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

std::string class_of(const DecoderFamily& family, std::string_view what) {
  return fmt::format("{}{}", family.prefix, what);
}

}  // namespace

DecoderModel::DecoderModel(Scope scope, const DecoderFamily& family, const ModelConfig& config, DecoderTraits traits)
    : PreTrainedModel(std::move(scope), class_of(family, family.model_class), config),
      family_(family),
      traits_(std::move(traits)) {}

at::Tensor DecoderModel::embeddings_of(const at::Tensor& input_ids) const {
  const auto scope = enter();
  return embed(input_ids);
}

const Module& DecoderModel::embedding() const {
  const Module* table = find_child(family_.embeddings);
  ensure(table != nullptr, "{} has no module {}", class_name(), family_.embeddings);
  return *table;
}

KeyRules DecoderModel::key_rules() const {
  KeyRules rules;
  if (!family_.former_lm_head.empty()) {
    rules.renamed.emplace_back(fmt::format("{}.", family_.former_lm_head), fmt::format("{}.", family_.lm_head));
  }
  for (const std::string_view name : family_.former_buffers) {
    if (!name.empty()) {
      rules.former_buffers.emplace_back(name);
    }
  }
  return rules;
}

std::vector<ArgumentSpec> DecoderModel::arguments() const {
  using Kind = ArgumentSpec::Kind;
  return {
      {"input_ids", Kind::kIndices, {2}, traits_.vocab_size, "vocab_size"},
      {"attention_mask", Kind::kMask, {2, 4}},
      {"position_ids", Kind::kIndices, {2}, traits_.max_positions.value_or(0), "max_position_embeddings"},
      {"cache", Kind::kCache},
      {"past_key_values", Kind::kCache},
      {"inputs_embeds", Kind::kFloats, {3}},
      {"use_cache", Kind::kFlag},
      {"output_hidden_states", Kind::kFlag},
      {"output_attentions", Kind::kFlag},
      {"return_dict", Kind::kFlag},
      {"labels", Kind::kRefused, {}, 0, "losses are not computed"},
  };
}

ForwardArgs DecoderModel::sample_inputs(const SampleSize& size) const {
  ensure(size.batch >= 1 && size.sequence >= 1 && size.past >= 0,
         "a sample has at least one row and one token, not [{}, {}]", size.batch, size.sequence);
  if (traits_.max_positions) {
    ensure(size.past + size.sequence <= *traits_.max_positions,
           "a sample of {} tokens is longer than the model's {} positions (max_position_embeddings)",
           size.past + size.sequence, *traits_.max_positions);
  }
  ForwardArgs args{{"input_ids", sample_ids(size.batch, size.sequence, traits_.vocab_size, traits_.pad_token_id)},
                   {"attention_mask", at::ones({size.batch, size.past + size.sequence}, int64())}};
  if (size.past == 0) {
    return args;
  }
  const at::Tensor positions = at::arange(size.past, size.past + size.sequence, int64()).unsqueeze(0);
  args.set("position_ids", positions.expand({size.batch, size.sequence}).contiguous());
  const c10::ScalarType dtype = parameter_dtype();
  LayeredCache::Layers layers;
  for (size_t i = 0; i < traits_.sliding_windows.size(); ++i) {
    const auto states = [&](int64_t which) {
      const std::vector<int64_t> sizes = {size.batch, traits_.num_key_value_heads, size.past, traits_.head_dim};
      return sample_values(sizes, 2 * static_cast<int64_t>(i) + which).to(dtype);
    };
    if (const auto window = traits_.sliding_windows[i]) {
      layers.push_back(std::make_unique<DynamicSlidingWindowLayer>(*window, states(0), states(1), size.past));
    } else {
      layers.push_back(std::make_unique<DynamicLayer>(states(0), states(1)));
    }
  }
  args.set("cache", DynamicCache(std::move(layers), /*adds_layers=*/false).to_tree());
  return args;
}

// [1, queries]: those that follow the cache's.
at::Tensor DecoderModel::positions(const ForwardArgs&, const CacheSpan& span, const c10::SymInt& queries) const {
  const at::Tensor positions = at::arange(span.past, span.past + queries, int64());
  return (span.past_tensor.defined() ? positions + span.past_tensor : positions).unsqueeze(0);
}

AxisNames DecoderModel::axis_names(bool with_cache) const {
  const AxisName batch{"batch"};
  const AxisName sequence{"sequence", traits_.max_positions.value_or(Range::kMax)};
  AxisNames names;
  for (const char* input : {"input_ids", "attention_mask", "position_ids", "inputs_embeds"}) {
    names[input] = {{0, batch}, {1, sequence}};
  }
  names["inputs_embeds"][2] = {};
  if (with_cache) {
    names["attention_mask"] = {{0, batch}, {1, {"total", sequence.max}}};
    for (size_t i = 0; i < traits_.sliding_windows.size(); ++i) {
      for (const char* states : {"keys", "values"}) {
        names[fmt::format("cache.layers.{}.{}", i, states)] = {
            {0, batch}, {1, {}}, {2, {"past", sequence.max}}, {3, {}}};
      }
    }
  }
  return names;
}

void DecoderModel::check_cache(LayeredCache& cache) const {
  const size_t count = traits_.sliding_windows.size();
  ensure(cache.size() <= count, "the cache has {} layers, the model has {}", cache.size(), count);
  cache.layer(count - 1);  // adds layers where the cache does so, else says how many there are
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor& keys = cache.layer(i).keys();
    if (!keys.defined()) {
      continue;
    }
    require(keys.sym_size(1).sym_eq(traits_.num_key_value_heads), [&] {
      return c10::str("the cache's keys of layer ", i, " are ", keys.sym_sizes(), ", the model has ",
                      traits_.num_key_value_heads, " key/value heads");
    });
    require(keys.sym_size(3).sym_eq(traits_.head_dim), [&] {
      return c10::str("the cache's keys of layer ", i, " are ", keys.sym_sizes(), ", the model's heads have ",
                      traits_.head_dim, " dimensions");
    });
  }
}

std::unique_ptr<LayeredCache> DecoderModel::cache_for(const ForwardArgs& args, bool use_cache) const {
  if (const PyTree* given = args.find_renamed("cache", "past_key_values")) {
    std::unique_ptr<Cache> cache = Cache::from_tree(*given);
    auto* layered = dynamic_cast<LayeredCache*>(cache.get());
    ensure(layered != nullptr, "{} has no encoder: it takes a DynamicCache or a StaticCache", class_name());
    static_cast<void>(cache.release());
    std::unique_ptr<LayeredCache> owned(layered);
    check_cache(*owned);
    return owned;
  }
  if (!use_cache) {
    return nullptr;
  }
  LayeredCache::Layers layers;
  for (const auto& window : traits_.sliding_windows) {
    layers.push_back(window ? std::unique_ptr<CacheLayer>(std::make_unique<DynamicSlidingWindowLayer>(*window))
                            : std::make_unique<DynamicLayer>());
  }
  return std::make_unique<DynamicCache>(std::move(layers), /*adds_layers=*/false);
}

// One mask for all layers that see as far: sized by the first of them in the cache.
std::vector<CausalMask> DecoderModel::masks(AttentionKind kind, const at::Tensor& embeddings, const ForwardArgs& args,
                                            LayeredCache* cache) const {
  std::vector<CausalMask> result;
  const auto& windows = traits_.sliding_windows;
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto same = std::find(windows.begin(), windows.begin() + static_cast<ptrdiff_t>(i), windows[i]);
    if (same != windows.begin() + static_cast<ptrdiff_t>(i)) {
      result.push_back(result[static_cast<size_t>(same - windows.begin())]);
      continue;
    }
    CausalMaskOptions options;
    options.sliding_window = windows[i];
    if (cache != nullptr) {
      options.span = cache->layer(i).span(embeddings.sym_size(1));
    } else if (traits_.packs_sequences) {
      options.position_ids = args.tensor("position_ids");
    }
    result.push_back(create_causal_mask(kind, embeddings, args.tensor("attention_mask"), options));
  }
  return result;
}

void DecoderModel::run_layers(at::Tensor hidden, const Pass& pass, const std::vector<CausalMask>& masks,
                              LayeredCache* cache, const Flags& flags, Output& output) const {
  std::vector<at::Tensor> hidden_states;
  std::vector<at::Tensor> attentions;
  for (size_t i = 0; i < masks.size(); ++i) {
    hidden_states.push_back(hidden);
    AttentionResult result = run_layer(i, hidden, {&pass, masks[i], cache != nullptr ? &cache->layer(i) : nullptr});
    hidden = std::move(result.output);
    if (result.probabilities.defined()) {
      attentions.push_back(std::move(result.probabilities));
    }
  }
  output.last_hidden_state = finish(hidden);
  hidden_states.push_back(output.last_hidden_state);
  output.hidden_states = flags.hidden_states ? tuple_of(std::move(hidden_states)) : PyTree();
  output.attentions = flags.attentions ? tuple_of(std::move(attentions)) : PyTree();
  output.cross_attentions = flags.attentions && family_.lists_cross_attentions ? PyTree::tuple({}) : PyTree();
}

void DecoderModel::require_positions(const CacheSpan& span, const c10::SymInt& queries) const {
  if (traits_.max_positions) {
    const c10::SymInt length = span.past + queries;
    require(length.sym_le(*traits_.max_positions), [&] {
      return c10::str("the sequence has ", length, " positions with those of the cache, the model has ",
                      *traits_.max_positions, " (max_position_embeddings)");
    });
  }
}

DecoderModel::Output DecoderModel::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor input_ids = args.tensor("input_ids");
  at::Tensor embeddings = args.tensor("inputs_embeds");
  args.require_one_of("input_ids", "inputs_embeds");
  if (input_ids.defined()) {
    embeddings = embed(input_ids);
  }
  const std::unique_ptr<LayeredCache> cache = cache_for(args, flags.use_cache);
  const c10::SymInt queries = embeddings.sym_size(1);

  Pass pass;
  pass.kind = traits_.needs_eager_attention ? AttentionKind::kEager : flags.attention;
  pass.args = &args;
  pass.position_ids = args.tensor("position_ids");
  if (!pass.position_ids.defined()) {
    const CacheSpan span = cache ? cache->layer(0).span(queries) : CacheSpan();
    require_positions(span, queries);
    pass.position_ids = positions(args, span, queries);
  }
  const std::vector<CausalMask> causal = masks(pass.kind, embeddings, args, cache.get());

  Output output;
  run_layers(begin(embeddings, pass), pass, causal, cache.get(), flags, output);
  if (cache && (flags.use_cache || traits_.returns_given_cache)) {
    output.cache = cache->to_tree();
  }
  return output;
}

PyTree DecoderModel::run(const ForwardArgs& args, const Flags& flags) const {
  Output output = (*this)(args, flags);
  return PyTree::object(fmt::format("transformers.modeling_outputs.{}", family_.base_output),
                        {{"last_hidden_state", output.last_hidden_state},
                         {"cache", output.cache},
                         {"hidden_states", output.hidden_states},
                         {"attentions", output.attentions},
                         {"cross_attentions", output.cross_attentions}});
}

}  // namespace exporters::models
