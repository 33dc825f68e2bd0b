#include "exporters/models/cache.h"

#include "exporters/graph/dtype.h"
#include "exporters/models/module.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/quote.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters::models {
namespace {

constexpr std::string_view kModule = "transformers.cache_utils:";
constexpr size_t kMaxLayers = 10'000;

std::string cache_class(std::string_view name) { return fmt::format("{}{}", kModule, name); }

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

at::Tensor append(const at::Tensor& held, const at::Tensor& added) {
  return held.defined() ? at::cat({held, added}, -2) : added;
}

std::string json_bool(bool value) { return value ? "true" : "false"; }

[[noreturn]] void fail_without_keys() {
  throw Error("a cache layer of class LinearAttentionLayer holds states, and the model asks it for keys", {},
              "It is the cache of a recurrent model, such as Mamba");
}

}  // namespace

/// Writes the context of a cache and collects its tensors: they are numbered in the order in which they are written.
class CacheWriter {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  std::string tensor(const at::Tensor& value) {
    if (!value.defined()) {
      return "null";
    }
    children_.emplace_back(value);
    return fmt::format(R"({{"_t": "tensor", "i": {}}})", children_.size() - 1);
  }

  static std::string device(const at::Tensor& value) {
    return fmt::format(R"({{"_t": "device", "s": "{}"}})", value.device().str());
  }

  static std::string dtype(const at::Tensor& value) {
    return fmt::format(R"({{"_t": "dtype", "n": "{}"}})", dtype_name(value.scalar_type()));
  }

  /// A dict with the one key 0.
  static std::string at_zero(const std::string& value) {
    return fmt::format(R"({{"_t": "items", "v": [[0, {}]]}})", value);
  }

  static std::string object(std::string_view class_name, const Fields& fields) {
    std::vector<std::string> members;
    for (const auto& [name, value] : fields) {
      members.push_back(fmt::format(R"("{}": {})", name, value));
    }
    return fmt::format(R"({{"_t": "obj", "p": "{}", "s": {{{}}}}})", class_name, fmt::join(members, ", "));
  }

  std::vector<PyTree> take() { return std::move(children_); }

 private:
  std::vector<PyTree> children_;
};

/// An object in a cache's context: its class and its fields, whose tensors are the tree's children.
class CacheReader {
 public:
  CacheReader(JsonField object, const std::vector<PyTree>& children)
      : object_(std::move(object)), fields_(object_.at("s")), children_(&children) {
    if (object_.get_string("_t", "") != "obj") {
      object_.fail_here("is no object");
    }
  }

  std::string class_name() const { return object_.at("p").as_string(); }
  const JsonField& fields() const { return fields_; }
  CacheReader object(std::string_view name) const { return {fields_.at(name), *children_}; }
  std::vector<CacheReader> objects(std::string_view name) const {
    std::vector<CacheReader> result;
    for (const JsonField& element : fields_.at(name).elements()) {
      result.emplace_back(element, *children_);
    }
    ensure(result.size() <= kMaxLayers, "a cache of {} layers is more than any model has", result.size());
    return result;
  }

  /// Undefined for null.
  at::Tensor tensor(std::string_view name) const {
    const auto field = fields_.find(name);
    if (!field) {
      return {};
    }
    return leaf(*field);
  }

  /// Of a dict with the one key 0. Undefined for null.
  at::Tensor tensor_at_zero(std::string_view name) const {
    const std::vector<JsonField> items = fields_.at(name).at("v").elements();
    const std::vector<JsonField> item = items.size() == 1 ? items.front().elements() : std::vector<JsonField>();
    if (item.size() != 2 || item[0].as_int() != 0) {
      fields_.at(name).fail_here("has other entries than one for state 0");
    }
    if (item[1].is_null()) {
      return {};
    }
    at::Tensor states = leaf(item[1]);
    if (states.dim() != 3 || !c10::isFloatingType(states.scalar_type())) {
      fields_.at(name).fail_here(
          fmt::format("is a tensor of {} dimensions and dtype {}", states.dim(), c10::toString(states.scalar_type())),
          "States are [batch, channels, size], of a floating-point dtype");
    }
    return states;
  }

  at::Tensor states(std::string_view name) const {
    at::Tensor states = tensor(name);
    if (states.defined() && (states.dim() != 4 || !c10::isFloatingType(states.scalar_type()))) {
      fields_.at(name).fail_here(
          fmt::format("is a tensor of {} dimensions and dtype {}", states.dim(), c10::toString(states.scalar_type())),
          "Keys and values are [batch, heads, length, head_dim], of a floating-point dtype");
    }
    return states;
  }

  at::Tensor count(std::string_view name) const {
    at::Tensor value = tensor(name);
    if (value.defined() && (value.dim() != 0 || value.scalar_type() != c10::ScalarType::Long)) {
      fields_.at(name).fail_here("is no int64 tensor without dimensions");
    }
    return value;
  }

 private:
  at::Tensor leaf(const JsonField& reference) const {
    const int64_t index = reference.at("i").as_int();
    if (index < 0 || static_cast<size_t>(index) >= children_->size()) {
      reference.fail_here(fmt::format("names leaf {} of {}", index, children_->size()));
    }
    return (*children_)[static_cast<size_t>(index)].tensor();
  }

  JsonField object_;
  JsonField fields_;
  const std::vector<PyTree>* children_;
};

bool CacheSpan::starts_empty() const { return !past_tensor.defined() && past.maybe_as_int() == 0; }

// ── Layers ──

std::pair<at::Tensor, at::Tensor> DynamicLayer::update(const at::Tensor& keys, const at::Tensor& values) {
  keys_ = append(keys_, keys);
  values_ = append(values_, values);
  return {keys_, values_};
}

CacheSpan DynamicLayer::span(const c10::SymInt& queries) const {
  return CacheSpan::after(is_initialized() ? keys_.sym_size(2) : c10::SymInt(0), queries);
}

std::string DynamicLayer::write(CacheWriter& writer) const {
  CacheWriter::Fields fields = {{"keys", writer.tensor(keys_)},
                                {"values", writer.tensor(values_)},
                                {"is_initialized", json_bool(is_initialized())}};
  if (is_initialized()) {
    fields.emplace_back("device", CacheWriter::device(keys_));
  }
  return CacheWriter::object(cache_class("DynamicLayer"), fields);
}

DynamicSlidingWindowLayer::DynamicSlidingWindowLayer(int64_t sliding_window, at::Tensor keys, at::Tensor values,
                                                     int64_t seen, at::Tensor window_tensor)
    : CacheLayer(std::move(keys), std::move(values)),
      sliding_window_(sliding_window),
      cumulative_length_(seen),
      window_tensor_(std::move(window_tensor)) {}

// A cache that a traced program returned has grown beyond what its context says.
std::optional<int64_t> DynamicSlidingWindowLayer::seen() const {
  if (!is_initialized()) {
    return cumulative_length_;
  }
  const auto held = keys_.sym_size(2).maybe_as_int();
  return held ? std::optional(std::max(cumulative_length_, *held)) : std::nullopt;
}

std::pair<at::Tensor, at::Tensor> DynamicSlidingWindowLayer::update(const at::Tensor& keys, const at::Tensor& values) {
  const auto seen_before = seen();
  const auto added = keys.sym_size(2).maybe_as_int();
  keys_ = append(keys_, keys);
  values_ = append(values_, values);
  const std::pair visible{keys_, values_};
  if (seen_before && added) {
    cumulative_length_ = *seen_before + *added;
    const int64_t start = std::max<int64_t>(0, keys_.size(2) - (sliding_window_ - 1));
    if (start > 0) {
      keys_ = keys_.slice(2, start);
      values_ = values_.slice(2, start);
    }
  }
  return visible;
}

CacheSpan DynamicSlidingWindowLayer::span(const c10::SymInt& queries) const {
  if (!is_initialized()) {
    return CacheSpan::after(0, queries);
  }
  const c10::SymInt held = keys_.sym_size(2);
  const auto past = seen();
  if (!past || !queries.maybe_as_int()) {
    return CacheSpan::after(held, queries);
  }
  return {*past, {}, *past - held, held + queries};
}

std::string DynamicSlidingWindowLayer::write(CacheWriter& writer) const {
  CacheWriter::Fields fields = {{"keys", writer.tensor(keys_)},
                                {"values", writer.tensor(values_)},
                                {"is_initialized", json_bool(is_initialized())},
                                {"sliding_window", std::to_string(sliding_window_)},
                                {"cumulative_length", std::to_string(cumulative_length_)}};
  const at::Tensor window =
      window_tensor_.defined() ? window_tensor_ : at::scalar_tensor(at::Scalar(sliding_window_), int64());
  fields.emplace_back("_sliding_window_tensor", writer.tensor(window));
  fields.emplace_back("record_past", "false");
  if (is_initialized()) {
    fields.emplace_back("device", CacheWriter::device(keys_));
  }
  return CacheWriter::object(cache_class("DynamicSlidingWindowLayer"), fields);
}

StaticLayer::StaticLayer(int64_t max_cache_len, at::Tensor keys, at::Tensor values, at::Tensor cumulative_length,
                         std::optional<int64_t> batch_size)
    : CacheLayer(std::move(keys), std::move(values)),
      max_cache_len_(max_cache_len),
      cumulative_length_(std::move(cumulative_length)),
      batch_size_(batch_size) {
  if (!cumulative_length_.defined()) {
    cumulative_length_ = at::zeros({}, int64());
  }
}

std::pair<at::Tensor, at::Tensor> StaticLayer::update(const at::Tensor& keys, const at::Tensor& values) {
  const auto space = [this](const at::Tensor& like) {
    return at::zeros_symint({like.sym_size(0), like.sym_size(1), max_cache_len_, like.sym_size(3)}, like.options());
  };
  if (!is_initialized()) {
    keys_ = space(keys);
    values_ = space(values);
  }
  const c10::SymInt added = keys.sym_size(2);
  const at::Tensor positions = at::arange(added, int64()) + cumulative_length_;
  cumulative_length_.add_(added);
  keys_.index_copy_(2, positions, keys);
  values_.index_copy_(2, positions, values);
  return {keys_, values_};
}

CacheSpan StaticLayer::span(const c10::SymInt&) const {
  return {0, is_initialized() ? cumulative_length_ : at::Tensor(), 0, max_cache_len_, /*fixed_length=*/true};
}

std::string StaticLayer::write(CacheWriter& writer) const {
  CacheWriter::Fields fields = {{"keys", writer.tensor(keys_)},
                                {"values", writer.tensor(values_)},
                                {"is_initialized", json_bool(is_initialized())},
                                {"max_cache_len", std::to_string(max_cache_len_)},
                                {"cumulative_length", writer.tensor(cumulative_length_)}};
  if (is_initialized()) {
    const auto size = [](const at::Tensor& tensor, int64_t axis) {
      return std::to_string(tensor.sym_size(axis).guard_int(__FILE__, __LINE__));
    };
    const auto batch = keys_.sym_size(0).maybe_as_int();
    fields.insert(fields.end(), {{"device", CacheWriter::device(keys_)},
                                 {"batch_size", std::to_string(batch_size_.value_or(batch.value_or(1)))},
                                 {"num_heads", size(keys_, 1)},
                                 {"v_head_dim", size(values_, 3)},
                                 {"k_head_dim", size(keys_, 3)}});
  }
  return CacheWriter::object(cache_class("StaticLayer"), fields);
}

void LinearAttentionLayer::set(at::Tensor conv_states, at::Tensor recurrent_states) {
  conv_states_ = std::move(conv_states);
  recurrent_states_ = std::move(recurrent_states);
}

std::pair<at::Tensor, at::Tensor> LinearAttentionLayer::update(const at::Tensor&, const at::Tensor&) {
  fail_without_keys();
}

CacheSpan LinearAttentionLayer::span(const c10::SymInt&) const { fail_without_keys(); }

std::string LinearAttentionLayer::write(CacheWriter& writer) const {
  const bool has_conv = conv_states_.defined();
  const bool has_recurrent = recurrent_states_.defined();
  // One after the other: they number their tensors.
  const std::string conv = CacheWriter::at_zero(writer.tensor(conv_states_));
  const std::string recurrent = CacheWriter::at_zero(writer.tensor(recurrent_states_));
  const auto kernel = has_conv ? conv_states_.sym_size(2).maybe_as_int() : std::nullopt;
  return CacheWriter::object(cache_class("LinearAttentionLayer"),
                             {{"number_of_states", "1"},
                              {"conv_states", conv},
                              {"recurrent_states", recurrent},
                              {"is_conv_states_initialized", CacheWriter::at_zero(json_bool(has_conv))},
                              {"is_recurrent_states_initialized", CacheWriter::at_zero(json_bool(has_recurrent))},
                              {"has_previous_state", CacheWriter::at_zero(json_bool(has_conv))},
                              {"conv_kernel_size", CacheWriter::at_zero(kernel ? std::to_string(*kernel) : "null")},
                              {"device", has_conv ? CacheWriter::device(conv_states_) : "null"},
                              {"dtype", has_conv ? CacheWriter::dtype(conv_states_) : "null"},
                              {"record_past", "false"}});
}

// ── Caches ──

CacheLayer& LayeredCache::layer(size_t index) {
  ensure(index < layers_.size(), "the cache has {} layers, the model asks for layer {}", layers_.size(), index);
  return *layers_[index];
}

std::string LayeredCache::write(CacheWriter& writer) const {
  std::vector<std::string> layers;
  for (const auto& layer : layers_) {
    layers.push_back(layer->write(writer));
  }
  return CacheWriter::object(type(), {{"layers", fmt::format("[{}]", fmt::join(layers, ", "))},
                                      {"layer_class_to_replicate", layer_class_to_replicate()},
                                      {"offloading", "false"}});
}

CacheLayer& DynamicCache::layer(size_t index) {
  while (adds_layers_ && layers_.size() <= index && index < kMaxLayers) {
    layers_.push_back(std::make_unique<DynamicLayer>());
  }
  return LayeredCache::layer(index);
}

std::string DynamicCache::layer_class_to_replicate() const {
  return adds_layers_ ? fmt::format(R"({{"_t": "type", "p": "{}"}})", cache_class("DynamicLayer")) : "null";
}

EncoderDecoderCache::EncoderDecoderCache(std::unique_ptr<LayeredCache> self_attention,
                                         std::unique_ptr<LayeredCache> cross_attention,
                                         std::map<int64_t, bool> is_updated)
    : self_attention_(std::move(self_attention)),
      cross_attention_(std::move(cross_attention)),
      is_updated_(std::move(is_updated)) {
  if (!is_updated_.empty()) {
    return;
  }
  for (size_t i = 0; i < cross_attention_->size(); ++i) {
    is_updated_.emplace(i, cross_attention_->layer(i).is_initialized());
  }
}

bool EncoderDecoderCache::is_updated(int64_t index) const {
  const auto found = is_updated_.find(index);
  return found != is_updated_.end() && found->second;
}

std::string EncoderDecoderCache::write(CacheWriter& writer) const {
  std::vector<std::string> updated;
  for (const auto& [index, value] : is_updated_) {
    updated.push_back(fmt::format("[{}, {}]", index, value));
  }
  // One after the other: they number their tensors.
  std::string self_attention = self_attention_->write(writer);
  std::string cross_attention = cross_attention_->write(writer);
  // An empty dict has no keys that are not strings.
  std::string is_updated =
      updated.empty() ? "{}" : fmt::format(R"({{"_t": "items", "v": [{}]}})", fmt::join(updated, ", "));
  return CacheWriter::object(type(), {{"self_attention_cache", std::move(self_attention)},
                                      {"cross_attention_cache", std::move(cross_attention)},
                                      {"is_updated", std::move(is_updated)}});
}

PyTree Cache::to_tree() const {
  CacheWriter writer;
  std::string context = write(writer);
  return PyTree::node(type(), std::move(context), writer.take());
}

// ── Reading ──

namespace {

std::unique_ptr<CacheLayer> read_dynamic_layer(const CacheReader& reader) {
  return std::make_unique<DynamicLayer>(reader.states("keys"), reader.states("values"));
}

std::unique_ptr<CacheLayer> read_sliding_layer(const CacheReader& reader) {
  const JsonField& fields = reader.fields();
  if (fields.get_bool("record_past", false)) {
    fields.at("record_past").fail_here("is true, which is not supported");
  }
  const int64_t window = fields.at("sliding_window").as_int();
  const int64_t seen = fields.at("cumulative_length").as_int();
  if (window < 1 || seen < 0) {
    fields.fail_here("has a window or a length that is out of range");
  }
  return std::make_unique<DynamicSlidingWindowLayer>(window, reader.states("keys"), reader.states("values"), seen,
                                                     reader.count("_sliding_window_tensor"));
}

std::unique_ptr<CacheLayer> read_static_layer(const CacheReader& reader) {
  const int64_t length = reader.fields().at("max_cache_len").as_int();
  if (length < 1) {
    reader.fields().at("max_cache_len").fail_here("is no length");
  }
  const auto batch = reader.fields().find("batch_size");
  return std::make_unique<StaticLayer>(length, reader.states("keys"), reader.states("values"),
                                       reader.count("cumulative_length"),
                                       batch && batch->is_number() ? std::optional(batch->as_int()) : std::nullopt);
}

std::unique_ptr<CacheLayer> read_linear_attention_layer(const CacheReader& reader) {
  const JsonField& fields = reader.fields();
  if (fields.get_bool("record_past", false)) {
    fields.at("record_past").fail_here("is true, which is not supported");
  }
  if (fields.get_int("number_of_states", 1) != 1) {
    fields.at("number_of_states").fail_here("is not 1, which is not supported");
  }
  at::Tensor conv = reader.tensor_at_zero("conv_states");
  at::Tensor recurrent = reader.tensor_at_zero("recurrent_states");
  ensure(conv.defined() == recurrent.defined(), "a layer of the cache has one of its two states alone");
  return std::make_unique<LinearAttentionLayer>(std::move(conv), std::move(recurrent));
}

struct LayerClass {
  std::string_view name;
  std::unique_ptr<CacheLayer> (*read)(const CacheReader& reader);
};
constexpr LayerClass kLayerClasses[] = {
    {"DynamicLayer", read_dynamic_layer},
    {"DynamicSlidingWindowLayer", read_sliding_layer},
    {"StaticLayer", read_static_layer},
    {"LinearAttentionLayer", read_linear_attention_layer},
};

std::unique_ptr<CacheLayer> read_layer(const CacheReader& reader) {
  const std::string name = reader.class_name();
  std::vector<std::string_view> known;
  for (const LayerClass& entry : kLayerClasses) {
    if (name == cache_class(entry.name)) {
      std::unique_ptr<CacheLayer> layer = entry.read(reader);
      ensure(layer->keys().defined() == layer->values().defined(), "a layer of the cache has keys or values alone");
      return layer;
    }
    known.push_back(entry.name);
  }
  throw Error(fmt::format("cache layers of class {} are not supported", quote(name)), {},
              fmt::format("Supported are: {}", fmt::join(known, ", ")));
}

std::unique_ptr<LayeredCache> read_layered(const CacheReader& reader) {
  LayeredCache::Layers layers;
  for (const CacheReader& layer : reader.objects("layers")) {
    layers.push_back(read_layer(layer));
  }
  if (reader.fields().get_bool("offloading", false)) {
    fail("a cache that offloads its layers is not supported");
  }
  if (reader.class_name() == cache_class("StaticCache")) {
    return std::make_unique<StaticCache>(std::move(layers));
  }
  if (reader.class_name() == cache_class("DynamicCache")) {
    return std::make_unique<DynamicCache>(std::move(layers), reader.fields().has("layer_class_to_replicate"));
  }
  throw Error(fmt::format("caches of class {} are not supported", quote(reader.class_name())), {},
              "Supported are: DynamicCache, StaticCache, EncoderDecoderCache");
}

std::map<int64_t, bool> read_is_updated(const JsonField& field) {
  std::map<int64_t, bool> result;
  if (!field.has("v")) {
    return result;
  }
  for (const JsonField& item : field.at("v").elements()) {
    const std::vector<JsonField> pair = item.elements();
    if (pair.size() != 2) {
      item.fail_here("is no pair");
    }
    result[pair[0].as_int()] = pair[1].as_bool();
  }
  return result;
}

}  // namespace

bool Cache::is_cache(const PyTree& tree) { return !tree.is_leaf() && tree.type().starts_with(kModule); }

std::unique_ptr<Cache> Cache::from_tree(const PyTree& tree) {
  if (!is_cache(tree)) {
    throw Error(fmt::format("expected a cache, got {}", tree.is_leaf() ? "a leaf" : quote(tree.type())), {},
                "A cache is a DynamicCache, StaticCache or EncoderDecoderCache");
  }
  const nlohmann::json context = parse_json(tree.context(), "the cache's context");
  const CacheReader reader(JsonField(context, "the cache's context"), tree.children());
  if (reader.class_name() != cache_class("EncoderDecoderCache")) {
    return read_layered(reader);
  }
  return std::make_unique<EncoderDecoderCache>(read_layered(reader.object("self_attention_cache")),
                                               read_layered(reader.object("cross_attention_cache")),
                                               read_is_updated(reader.fields().at("is_updated")));
}

}  // namespace exporters::models
