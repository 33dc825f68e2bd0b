#include "exporters/models/layers/relative_bias.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/index.h>
#include <ATen/ops/log.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace exporters::models {
namespace {

constexpr c10::ScalarType kLong = c10::ScalarType::Long;
constexpr int64_t kMaxDistance = 1 << 20;

at::Tensor positions(const c10::SymInt& start, const c10::SymInt& end) {
  return at::arange(start, end, at::TensorOptions().dtype(kLong));
}

int64_t per_direction(const RelativeBuckets& buckets) {
  return buckets.is_bidirectional ? buckets.count / 2 : buckets.count;
}

}  // namespace

// In float32 by ATen, as the reference: in some of the borders another logarithm shows. It begins with plain numbers,
// so that nothing of it is recorded in a trace.
at::Tensor bucket_of_distance(const RelativeBuckets& buckets) {
  const int64_t count = per_direction(buckets);
  const int64_t exact = count / 2;
  ensure(exact >= 1, "{} buckets of relative positions are too few", buckets.count);
  ensure(buckets.max_distance > exact && buckets.max_distance <= kMaxDistance,
         "a largest relative distance of {} does not go with {} buckets: it is more than {} and at most {}",
         buckets.max_distance, buckets.count, exact, kMaxDistance);
  std::vector<int64_t> numbers(static_cast<size_t>(buckets.max_distance) + 1);
  std::iota(numbers.begin(), numbers.end(), 0);
  const at::Tensor distance = at::tensor(numbers, at::TensorOptions().dtype(kLong));
  const double range = std::log(static_cast<double>(buckets.max_distance) / static_cast<double>(exact));
  // Near ones are not read from here, and have no logarithm at 0.
  const at::Tensor far = at::clamp_min(distance, exact).to(c10::ScalarType::Float);
  const at::Tensor steps = (at::log(far / exact) / range * (count - exact)).to(kLong);
  return at::where(at::lt(distance, exact), distance, at::clamp_max(steps + exact, count - 1));
}

at::Tensor relative_position_buckets(const at::Tensor& relative_position, const RelativeBuckets& buckets) {
  const at::Tensor distance =
      buckets.is_bidirectional ? at::abs(relative_position) : at::neg(at::clamp_max(relative_position, 0));
  const at::Tensor bucket = at::index(bucket_of_distance(buckets), {at::clamp_max(distance, buckets.max_distance)});
  if (!buckets.is_bidirectional) {
    return bucket;
  }
  return bucket + at::gt(relative_position, 0).to(kLong) * per_direction(buckets);
}

at::Tensor relative_position_buckets(const c10::SymInt& queries, const c10::SymInt& keys,
                                     const RelativeBuckets& buckets) {
  return relative_position_buckets(positions(0, keys).unsqueeze(0) - positions(0, queries).unsqueeze(1), buckets);
}

at::Tensor RelativePositionBias::operator()(const c10::SymInt& queries, const c10::SymInt& keys,
                                            const c10::SymInt& past, const at::Tensor& past_tensor) const {
  const auto scope = enter();
  at::Tensor query_positions = positions(past, past + queries).unsqueeze(1);
  if (past_tensor.defined()) {
    query_positions = query_positions + past_tensor;
  }
  const at::Tensor relative = positions(0, keys).unsqueeze(0) - query_positions;
  return Embedding::operator()(relative_position_buckets(relative, buckets_)).permute({2, 0, 1}).unsqueeze(0);
}

}  // namespace exporters::models
