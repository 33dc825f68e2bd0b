#pragma once

#include "exporters/models/layers/layers.h"

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>

namespace exporters::models {

/// How T5 (Raffel et al., 2019) sorts distances into buckets: one each for the near ones, then wider and wider ones.
struct RelativeBuckets {
  int64_t count = 32;
  int64_t max_distance = 128;  ///< from here on, one bucket
  /// Half of the buckets are for keys after the query; else those share bucket 0.
  bool is_bidirectional = true;
};

/// The bucket of each distance 0 … max_distance without regard to direction: int64 [max_distance + 1]. Borders are the
/// reference's, which computes them in float32; as a constant of a graph they stay so in every runtime.
/// Throws Error for numbers of buckets and distances that do not go together.
at::Tensor bucket_of_distance(const RelativeBuckets& buckets);

/// int64 of the shape of `relative_position`: the bucket of each, in [0, buckets.count).
/// @param relative_position integers: the key's position less the query's
at::Tensor relative_position_buckets(const at::Tensor& relative_position, const RelativeBuckets& buckets);

/// The same for queries and keys that both begin at position 0: [queries, keys].
at::Tensor relative_position_buckets(const c10::SymInt& queries, const c10::SymInt& keys,
                                     const RelativeBuckets& buckets);

/// A learned bias for each head and bucket: the parameter "weight" is [buckets, heads].
class RelativePositionBias : public Embedding {
 public:
  RelativePositionBias(Scope scope, const RelativeBuckets& buckets, int64_t heads)
      : Embedding(std::move(scope), buckets.count, heads), buckets_(buckets) {
    bucket_of_distance(buckets);  // says what does not go together
  }

  /// [1, heads, queries, keys] for keys from position 0 on.
  /// @param past position of the first query
  /// @param past_tensor added to it where defined: a 0-d int64 tensor
  at::Tensor operator()(const c10::SymInt& queries, const c10::SymInt& keys, const c10::SymInt& past,
                        const at::Tensor& past_tensor) const;

 private:
  RelativeBuckets buckets_;
};

}  // namespace exporters::models
