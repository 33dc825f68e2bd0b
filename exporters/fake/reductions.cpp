#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <algorithm>

// ── Reductions, scans and softmax. Results are row-major, whatever the operand's layout ──
namespace exporters::families {
namespace {

using c10::ScalarType;

// Which axes are reduced: `dim` is an int, a list or missing; missing and empty mean all of them.
std::vector<bool> reduced_axes(const ShapeCall& call, const TensorMeta& self) {
  std::vector<bool> reduced(self.sizes.size(), true);
  if (!call.has("dim")) {
    return reduced;
  }
  const c10::IValue& dim = call.value("dim");
  const std::vector<int64_t> dims =
      dim.isInt() || dim.isSymInt() ? std::vector<int64_t>{call.integer("dim")} : call.integers("dim");
  if (dims.empty()) {
    return reduced;
  }
  reduced.assign(self.sizes.size(), false);
  for (const int64_t axis : dims) {
    const auto at = static_cast<size_t>(wrap_dim(axis, self.dim()));
    if (self.sizes.empty()) continue;
    if (reduced[at]) call.refuse("axis " + std::to_string(at) + " is named twice");
    reduced[at] = true;
  }
  return reduced;
}

std::vector<Expr> sizes_without(const ShapeCall& call, const TensorMeta& self, const std::vector<bool>& reduced) {
  const bool keep = call.has("keepdim") && call.boolean("keepdim");
  std::vector<Expr> sizes;
  for (size_t d = 0; d < self.sizes.size(); ++d) {
    if (!reduced[d]) {
      sizes.push_back(self.sizes[d]);
    } else if (keep) {
      sizes.emplace_back(1);
    }
  }
  return sizes;
}

TensorMeta reduced(const ShapeCall& call, ScalarType dtype) {
  const TensorMeta self = call.meta("self");
  return dense(sizes_without(call, self, reduced_axes(call, self)), dtype, self.device);
}

void keeping_dtype(ShapeCall& call) { call.returns(reduced(call, call.meta("self").dtype)); }

ScalarType summed(ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/true) ? ScalarType::Long : dtype;
}

// sum, prod and their scans add integers up in int64.
void adding_up(ShapeCall& call) { call.returns(reduced(call, call.dtype().value_or(summed(call.meta("self").dtype)))); }

void mean(ShapeCall& call) {
  const ScalarType dtype = call.dtype().value_or(call.meta("self").dtype);
  if (c10::isIntegralType(dtype, /*includeBool=*/true)) {
    call.refuse(std::string("the mean of ") + c10::toString(dtype) + " is not defined", "Give a floating dtype.");
  }
  call.returns(reduced(call, dtype));
}

void to_floating(ShapeCall& call) { call.returns(reduced(call, exporters::to_floating(call.meta("self").dtype))); }

// any and all: uint8 stays what it is.
void to_truth(ShapeCall& call) {
  const bool byte = call.meta("self").dtype == ScalarType::Byte;
  call.returns(reduced(call, byte ? ScalarType::Byte : ScalarType::Bool));
}

void to_index(ShapeCall& call) { call.returns(reduced(call, ScalarType::Long)); }

void with_indices(ShapeCall& call) {
  call.returns(reduced(call, call.meta("self").dtype));
  call.returns(reduced(call, ScalarType::Long));
}

void twice(ShapeCall& call) {
  keeping_dtype(call);
  keeping_dtype(call);
}

// Spread and norms of complex numbers are real.
void spread(ShapeCall& call) { call.returns(reduced(call, c10::toRealValueType(call.meta("self").dtype))); }

void spread_and_mean(ShapeCall& call) {
  spread(call);
  keeping_dtype(call);
}

void norm(ShapeCall& call) {
  const ScalarType dtype = call.dtype().value_or(call.meta("self").dtype);
  call.returns(reduced(call, c10::toRealValueType(dtype)));
}

// A distance between two tensors, over all elements.
void dist(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  broadcast_sizes(call.env(), {self, call.meta("other")});
  call.returns(dense({}, c10::toRealValueType(promote({call.tensor("self"), call.tensor("other")})), self.device));
}

void trace(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() != 2) call.refuse("the tensor has rank " + std::to_string(self.dim()) + ", not 2");
  call.returns(dense({}, summed(self.dtype), self.device));
}

// ── Losses ──

// Elementwise, or one number: the mean or sum that `reduction` (at::Reduction) asks for.
void loss(ShapeCall& call) {
  std::vector<TensorMeta> operands{call.meta("self"), call.meta("target")};
  if (call.has("weight")) operands.push_back(call.meta("weight"));
  if (call.has("pos_weight")) operands.push_back(call.meta("pos_weight"));
  TensorMeta each = elementwise(call.env(), operands, promote({call.tensor("self"), call.tensor("target")}));
  call.returns(call.integer("reduction") == 0 ? std::move(each) : dense({}, each.dtype, each.device));
}

// Scores [N, C] or [C] and one class for each row.
void nll_loss(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() != 1 && self.dim() != 2) call.refuse("the scores have rank " + std::to_string(self.dim()));
  std::vector<Expr> sizes;
  if (self.dim() == 2) {
    sizes.push_back(self.sizes[0]);
    const TensorMeta target = call.meta("target");
    if (target.dim() != 1 || !holds(call.env(), eq(target.sizes[0], self.sizes[0]))) {
      call.refuse("there is not one target for each row of scores");
    }
  }
  const bool each = call.integer("reduction") == 0;
  call.returns(dense(each ? sizes : std::vector<Expr>{}, self.dtype, self.device));
  call.returns(dense({}, self.dtype, self.device));
}

// ── Along one axis, size kept ──

TensorMeta along(const ShapeCall& call, ScalarType dtype) {
  const TensorMeta self = call.meta("self");
  call.dim("dim", self.dim());
  return dense(self.sizes, dtype, self.device);
}

void scan(ShapeCall& call) { call.returns(along(call, call.dtype().value_or(summed(call.meta("self").dtype)))); }

void scan_with_indices(ShapeCall& call) {
  call.returns(along(call, call.meta("self").dtype));
  call.returns(along(call, ScalarType::Long));
}

void scan_to_floating(ShapeCall& call) { call.returns(along(call, exporters::to_floating(call.meta("self").dtype))); }

void multinomial(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() != 1 && self.dim() != 2) call.refuse("the weights have rank " + std::to_string(self.dim()));
  std::vector<Expr> sizes = self.sizes;
  sizes.back() = call.sym_int("num_samples");
  call.returns(dense(std::move(sizes), ScalarType::Long, self.device));
}

void softmax(ShapeCall& call) {
  const ScalarType dtype = call.dtype().value_or(call.meta("self").dtype);
  if (!c10::isFloatingType(dtype) && !c10::isComplexType(dtype)) {
    call.refuse(std::string("softmax of ") + c10::toString(dtype) + " is not defined", "Give a floating dtype.");
  }
  call.returns(along(call, dtype));
}

void softmax_kernel(ShapeCall& call) {
  const ScalarType dtype = call.meta("self").dtype;
  call.returns(along(call, call.boolean("half_to_float") ? ScalarType::Float : dtype));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::sum", adding_up},
    {"aten::nansum", adding_up},
    {"aten::prod", adding_up},
    {"aten::mean", mean},
    {"aten::amax", keeping_dtype},
    {"aten::amin", keeping_dtype},
    {"aten::max", keeping_dtype},
    {"aten::max.dim", with_indices},
    {"aten::min", keeping_dtype},
    {"aten::min.dim", with_indices},
    {"aten::aminmax", twice},
    {"aten::argmax", to_index},
    {"aten::argmin", to_index},
    {"aten::any", to_truth},
    {"aten::all", to_truth},
    {"aten::_is_all_true", to_truth},
    {"aten::_is_any_true", to_truth},
    {"aten::count_nonzero", to_index},
    {"aten::median", keeping_dtype},
    {"aten::median.dim", with_indices},
    {"aten::nanmedian", keeping_dtype},
    {"aten::nanmedian.dim", with_indices},
    {"aten::mode", with_indices},
    {"aten::logsumexp", to_floating},
    {"aten::var.correction", spread},
    {"aten::var", spread},
    {"aten::std.correction", spread},
    {"aten::std", spread},
    {"aten::var_mean", spread_and_mean},
    {"aten::std_mean", spread_and_mean},
    {"aten::norm", norm},
    {"aten::linalg_vector_norm", norm},
    {"aten::mse_loss", loss},
    {"aten::smooth_l1_loss", loss},
    {"aten::huber_loss", loss},
    {"aten::binary_cross_entropy", loss},
    {"aten::binary_cross_entropy_with_logits", loss},
    {"aten::nll_loss_forward", nll_loss},
    {"aten::multinomial", multinomial},
    {"aten::native_norm", norm},
    {"aten::dist", dist},
    {"aten::trace", trace},
    {"aten::cumsum", scan},
    {"aten::cumprod", scan},
    {"aten::cummax", scan_with_indices},
    {"aten::cummin", scan_with_indices},
    {"aten::logcumsumexp", scan_to_floating},
    {"aten::softmax.int", softmax},
    {"aten::log_softmax.int", softmax},
    {"aten::special_softmax", softmax},
    {"aten::special_log_softmax", softmax},
    {"aten::_softmax", softmax_kernel},
    {"aten::_log_softmax", softmax_kernel},
    {"aten::_safe_softmax", softmax},
});

}  // namespace

std::span<const ShapeEntry> reductions() { return kTable; }

}  // namespace exporters::families
