#pragma once

#include "exporters/graph/pytree.h"

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace exporters::models {

// Keys and values of earlier tokens, as transformers' cache_utils keeps them: the same classes, the same tree specs
// (leaf order and context) and the same updates, on real tensors and on traced ones.
//
// All keys and values are [batch, key/value heads, length, head_dim].

/// Where the queries and keys of one attention lie in the sequence: what a cache layer says before it takes new keys.
struct CacheSpan {
  c10::SymInt past = 0;        ///< position of the first query
  at::Tensor past_tensor;      ///< the same as a 0-d int64 tensor, where the cache counts in one; `past` is 0 then
  c10::SymInt key_offset = 0;  ///< position of the first key
  c10::SymInt keys = 0;        ///< number of keys, those of the queries among them
  bool fixed_length = false;   ///< `keys` is the cache's room: some may not be written yet

  /// `queries` new tokens after `past` others, all of them seen.
  static CacheSpan after(const c10::SymInt& past, const c10::SymInt& queries) { return {past, {}, 0, past + queries}; }
  /// The queries are all there is: known, not asked.
  bool starts_empty() const;
};

class CacheWriter;
class CacheReader;

/// The keys and values of one attention layer.
class CacheLayer {
 public:
  virtual ~CacheLayer() = default;

  /// Undefined before the first update.
  const at::Tensor& keys() const { return keys_; }
  const at::Tensor& values() const { return values_; }
  bool is_initialized() const { return keys_.defined(); }

  /// Takes the keys and values of new tokens. Returns those that the new queries may see, as span() said.
  virtual std::pair<at::Tensor, at::Tensor> update(const at::Tensor& keys, const at::Tensor& values) = 0;
  virtual CacheSpan span(const c10::SymInt& queries) const = 0;

  /// The object as it stands in a tree spec's context.
  virtual std::string write(CacheWriter& writer) const = 0;

 protected:
  CacheLayer() = default;
  CacheLayer(at::Tensor keys, at::Tensor values) : keys_(std::move(keys)), values_(std::move(values)) {}

  at::Tensor keys_;
  at::Tensor values_;
};

/// Grows by concatenation.
class DynamicLayer : public CacheLayer {
 public:
  DynamicLayer() = default;
  DynamicLayer(at::Tensor keys, at::Tensor values) : CacheLayer(std::move(keys), std::move(values)) {}
  std::pair<at::Tensor, at::Tensor> update(const at::Tensor& keys, const at::Tensor& values) override;
  CacheSpan span(const c10::SymInt& queries) const override;
  std::string write(CacheWriter& writer) const override;
};

/// Keeps the last `sliding_window` - 1 positions. With lengths that are symbolic it grows like a DynamicLayer, as the
/// reference traces it: the mask applies the window, and one program serves every length.
class DynamicSlidingWindowLayer : public CacheLayer {
 public:
  /// @param seen how many positions the layer has seen; at least those that it holds
  explicit DynamicSlidingWindowLayer(int64_t sliding_window, at::Tensor keys = {}, at::Tensor values = {},
                                     int64_t seen = 0, at::Tensor window_tensor = {});
  std::pair<at::Tensor, at::Tensor> update(const at::Tensor& keys, const at::Tensor& values) override;
  CacheSpan span(const c10::SymInt& queries) const override;
  std::string write(CacheWriter& writer) const override;

 private:
  std::optional<int64_t> seen() const;  ///< nothing when the length is symbolic

  int64_t sliding_window_;
  int64_t cumulative_length_;
  at::Tensor window_tensor_;  ///< the window once more, 0-d int64: a leaf in the reference
};

/// Space for `max_cache_len` positions, allocated at the first update and written in place after.
class StaticLayer : public CacheLayer {
 public:
  /// @param cumulative_length 0-d int64, how many positions are taken; written in place. Undefined: 0
  explicit StaticLayer(int64_t max_cache_len, at::Tensor keys = {}, at::Tensor values = {},
                       at::Tensor cumulative_length = {}, std::optional<int64_t> batch_size = {});
  std::pair<at::Tensor, at::Tensor> update(const at::Tensor& keys, const at::Tensor& values) override;
  CacheSpan span(const c10::SymInt& queries) const override;
  std::string write(CacheWriter& writer) const override;

 private:
  int64_t max_cache_len_;
  at::Tensor cumulative_length_;
  /// For the context only, where nothing reads it. The reference records the number that it traced; a symbolic size
  /// has none here and stands as 1.
  std::optional<int64_t> batch_size_;
};

/// What a recurrent layer leaves behind, of one size however long the sequence is: the last inputs of its convolution
/// and the state of its recurrence.
class LinearAttentionLayer : public CacheLayer {
 public:
  /// Undefined tensors: nothing has been seen.
  explicit LinearAttentionLayer(at::Tensor conv_states = {}, at::Tensor recurrent_states = {})
      : conv_states_(std::move(conv_states)), recurrent_states_(std::move(recurrent_states)) {}
  const at::Tensor& conv_states() const { return conv_states_; }            ///< [batch, channels, kernel]
  const at::Tensor& recurrent_states() const { return recurrent_states_; }  ///< [batch, channels, state]
  void set(at::Tensor conv_states, at::Tensor recurrent_states);

  /// Throw Error: it holds no keys.
  std::pair<at::Tensor, at::Tensor> update(const at::Tensor& keys, const at::Tensor& values) override;
  CacheSpan span(const c10::SymInt& queries) const override;
  std::string write(CacheWriter& writer) const override;

 private:
  at::Tensor conv_states_;
  at::Tensor recurrent_states_;
};

/// A cache as a forward takes and returns it.
class Cache {
 public:
  virtual ~Cache() = default;

  /// From the nested value of a cache: its type, context and leaves. Throws Error for other types, for caches that
  /// are not supported here (offloaded, quantized, static with sliding windows), and for contexts that make no sense.
  static std::unique_ptr<Cache> from_tree(const PyTree& tree);
  PyTree to_tree() const;
  /// Whether a value's type is one that from_tree knows.
  static bool is_cache(const PyTree& tree);

  /// "transformers.cache_utils:DynamicCache"
  virtual std::string type() const = 0;
  virtual std::string write(CacheWriter& writer) const = 0;
};

/// One layer for each of the model's attention layers.
class LayeredCache : public Cache {
 public:
  using Layers = std::vector<std::unique_ptr<CacheLayer>>;

  size_t size() const { return layers_.size(); }
  /// Throws Error when there is no such layer.
  virtual CacheLayer& layer(size_t index);
  const CacheLayer* find(size_t index) const { return index < layers_.size() ? layers_[index].get() : nullptr; }
  std::string write(CacheWriter& writer) const override;

 protected:
  explicit LayeredCache(Layers layers) : layers_(std::move(layers)) {}
  virtual std::string layer_class_to_replicate() const { return "null"; }

  Layers layers_;
};

class DynamicCache : public LayeredCache {
 public:
  /// Without layers: each one is added, as a DynamicLayer, when it is first asked for.
  explicit DynamicCache(Layers layers = {}) : LayeredCache(std::move(layers)), adds_layers_(layers_.empty()) {}
  DynamicCache(Layers layers, bool adds_layers) : LayeredCache(std::move(layers)), adds_layers_(adds_layers) {}
  CacheLayer& layer(size_t index) override;
  std::string type() const override { return "transformers.cache_utils:DynamicCache"; }

 protected:
  std::string layer_class_to_replicate() const override;

 private:
  bool adds_layers_;
};

class StaticCache : public LayeredCache {
 public:
  explicit StaticCache(Layers layers) : LayeredCache(std::move(layers)) {}
  std::string type() const override { return "transformers.cache_utils:StaticCache"; }
};

/// The decoder's own keys, and those it made of the encoder's output.
class EncoderDecoderCache : public Cache {
 public:
  EncoderDecoderCache(std::unique_ptr<LayeredCache> self_attention, std::unique_ptr<LayeredCache> cross_attention,
                      std::map<int64_t, bool> is_updated = {});

  LayeredCache& self_attention() { return *self_attention_; }
  LayeredCache& cross_attention() { return *cross_attention_; }
  /// Whether layer `index` of cross_attention() holds the encoder's keys already.
  bool is_updated(int64_t index) const;
  void set_updated(int64_t index) { is_updated_[index] = true; }

  std::string type() const override { return "transformers.cache_utils:EncoderDecoderCache"; }
  std::string write(CacheWriter& writer) const override;

 private:
  std::unique_ptr<LayeredCache> self_attention_;
  std::unique_ptr<LayeredCache> cross_attention_;
  std::map<int64_t, bool> is_updated_;
};

}  // namespace exporters::models
