#include "exporters/models/layers/scan.h"

#include "exporters/models/module.h"
#include "exporters/models/operators.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <c10/util/StringUtil.h>

namespace exporters::models {
namespace {

at::Tensor step_by_step(const at::Tensor& a, const at::Tensor& b, const at::Tensor& before) {
  const int64_t length = b.sym_size(1).guard_int(__FILE__, __LINE__);
  std::vector<at::Tensor> states;
  at::Tensor state = before;
  for (int64_t t = 0; t < length; ++t) {
    const at::Tensor input = b.select(1, t);
    state = state.defined() ? a.select(1, t) * state + input : input;
    states.push_back(state);
  }
  return at::stack(states, 1);
}

}  // namespace

LinearScan::LinearScan(const c10::SymInt& length, bool with_state) {
  if (length.maybe_as_int()) {
    return;
  }
  require(length.sym_le(kMaxLength), [&] {
    return c10::str("the sequence has ", length, " tokens, a recurrent layer takes up to ", kMaxLength,
                    " at once where lengths are free: give them in parts, with the cache between");
  });
  // The state before is one more place, the first.
  const at::Tensor positions =
      at::arange(with_state ? length + 1 : length, at::TensorOptions().dtype(c10::ScalarType::Long));
  for (int64_t distance = 1; distance <= kMaxLength; distance *= 2) {
    doublings_.push_back({at::clamp_min(positions - distance, 0),
                          at::ge(positions, distance).to(c10::ScalarType::Float).unsqueeze(-1).unsqueeze(-1)});
  }
}

// What follows from the first places alone has no more factors to come: they become 0.
at::Tensor LinearScan::by_doubling(at::Tensor a, at::Tensor b) const {
  for (const Doubling& doubling : doublings_) {
    const at::Tensor factor = a * doubling.exists;
    b = b + factor * b.index_select(1, doubling.places);
    a = factor * a.index_select(1, doubling.places);
  }
  return b;
}

at::Tensor LinearScan::operator()(const at::Tensor& a, const at::Tensor& b, const at::Tensor& before) const {
  if (doublings_.empty()) {
    return step_by_step(a, b, before);
  }
  if (!before.defined()) {
    return by_doubling(a, b);
  }
  const at::Tensor first = before.unsqueeze(1);
  return by_doubling(at::cat({at::ones_like(first), a}, 1), at::cat({first, b}, 1)).slice(1, 1);
}

}  // namespace exporters::models
