#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include "exporters/symbolic/sym_node.h"

#include <fmt/format.h>

#include <array>

// ── Answers that depend on data, assertions about it, and questions about sizes ──
namespace exporters::families {
namespace {

using c10::ScalarType;

// An integer becomes an unbacked symbol: the program goes on with whatever the value will be.
void item(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_equal(call, self.numel(), 1, "number of elements");
  if (!c10::isIntegralType(self.dtype, /*includeBool=*/false)) {
    call.refuse(fmt::format("the value of a {} tensor is data-dependent: it is not known while the model is traced",
                            c10::toString(self.dtype)),
                "Keep it a tensor (torch.where instead of if), or pass it as an argument that is not a tensor.");
  }
  const Range range{c10::isSignedType(self.dtype) ? Range::kMin : 0, Range::kMax};
  call.returns_value(to_sym_int(call.env().add_unbacked(range), call.shared_env()));
}

[[noreturn]] void refuse_question(const ShapeCall& call) {
  call.refuse("the answer is data-dependent: it is not known while the model is traced",
              "Compute both branches and choose with torch.where, or decide outside the model.");
}

void refuse(ShapeCall& call) { refuse_question(call); }

// Known without looking at the data: a tensor equals itself, and never one of another size.
void equal(ShapeCall& call) {
  const at::Tensor self = call.tensor("self"), other = call.tensor("other");
  if (self.is_same(other)) {
    call.returns_value(true);
    return;
  }
  const TensorMeta a = meta_of(self), b = meta_of(other);
  bool differ = a.sizes.size() != b.sizes.size();
  for (size_t d = 0; !differ && d < a.sizes.size(); ++d) {
    differ = call.env().statically(eq(a.sizes[d], b.sizes[d])) == false;
  }
  if (!differ) {
    refuse_question(call);
  }
  call.returns_value(false);
}

void is_same_size(ShapeCall& call) {
  const TensorMeta a = call.meta("self"), b = call.meta("other");
  bool same = a.sizes.size() == b.sizes.size();
  for (size_t d = 0; same && d < a.sizes.size(); ++d) {
    same = call.env().evaluate(eq(a.sizes[d], b.sizes[d]));
  }
  call.returns_value(same);
}

// ── Assertions: on data, checked when the program runs; on sizes, facts or guards ──

void nothing(ShapeCall&) {}

void returns_token(ShapeCall& call) { call.returns(call.meta("dep_token")); }

void make_dep_token(ShapeCall& call) {
  call.returns(dense({}, call.dtype().value_or(ScalarType::Float), call.device().value_or(c10::Device(c10::kCPU))));
}

void require_scalar(ShapeCall& call) {
  const c10::IValue& value = call.value("self");
  if (value.isSymBool()) {
    call.env().require(to_bool_expr(value.toSymBool()));
  } else if (value.isSymInt()) {
    call.env().require(ne(to_expr(value), 0));
  } else if (!value.toScalar().toBool()) {
    call.refuse("the assertion does not hold: " + call.string("assert_msg"));
  }
}

void assert_scalar(ShapeCall& call) { require_scalar(call); }

void functional_assert_scalar(ShapeCall& call) {
  require_scalar(call);
  returns_token(call);
}

void require_range(ShapeCall& call, int64_t least) {
  const c10::IValue& value = call.value("size");
  if (!value.isInt() && !value.isSymInt()) {
    call.refuse("the size is not an integer");
  }
  const Expr size = to_expr(value);
  if (const auto given = call.optional_integer("min"); given || least != Range::kMin) {
    require_at_least(call, size, std::max(least, given.value_or(least)), "size");
  }
  if (const auto most = call.optional_integer("max")) {
    require_at_most(call, size, *most, "size");
  }
}

void constrain_range(ShapeCall& call) { require_range(call, Range::kMin); }
void constrain_range_for_size(ShapeCall& call) { require_range(call, 0); }

void functional_constrain_range(ShapeCall& call) {
  require_range(call, Range::kMin);
  returns_token(call);
}

void require_equal(ShapeCall& call, const std::vector<Expr>& actual, const char* name) {
  const auto wanted = call.optional_sym_ints(name);
  if (!wanted) {
    return;
  }
  if (wanted->size() != actual.size()) {
    call.refuse(fmt::format("{} has {} numbers for a tensor of rank {}", name, wanted->size(), actual.size()));
  }
  for (size_t d = 0; d < actual.size(); ++d) {
    require_equal(call, actual[d], (*wanted)[d], name);
  }
}

void assert_tensor_metadata(ShapeCall& call) {
  const TensorMeta a = call.meta("a");
  require_equal(call, a.sizes, "size");
  require_equal(call, a.strides, "stride");
  if (const auto dtype = call.dtype(); dtype && *dtype != a.dtype) {
    call.refuse(fmt::format("the tensor has dtype {}, not {}", c10::toString(a.dtype), c10::toString(*dtype)));
  }
}

// ── Sizes as numbers ──

void returns_sym_int(ShapeCall& call, const Expr& value) { call.returns_value(to_sym_int(value, call.shared_env())); }

void sym_size(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() == 0) {
    call.refuse("self has rank 0");
  }
  returns_sym_int(call, self.sizes[static_cast<size_t>(call.dim("dim", self.dim()))]);
}

void sym_stride(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() == 0) {
    call.refuse("self has rank 0");
  }
  returns_sym_int(call, self.strides[static_cast<size_t>(call.dim("dim", self.dim()))]);
}

void sym_numel(ShapeCall& call) { returns_sym_int(call, call.meta("self").numel()); }
void sym_storage_offset(ShapeCall& call) { returns_sym_int(call, call.meta("self").storage_offset); }

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::item", item},
    {"aten::_local_scalar_dense", item},
    {"aten::equal", equal},
    {"aten::is_nonzero", refuse},
    {"aten::allclose", refuse},
    {"aten::is_same_size", is_same_size},
    {"aten::_assert_async", nothing},
    {"aten::_print", nothing},
    {"aten::_functional_assert_async.msg", returns_token},
    {"aten::_make_dep_token", make_dep_token},
    {"aten::_assert_scalar", assert_scalar},
    {"aten::_functional_assert_scalar", functional_assert_scalar},
    {"aten::sym_constrain_range", constrain_range},
    {"aten::sym_constrain_range_for_size", constrain_range_for_size},
    {"aten::_functional_sym_constrain_range", functional_constrain_range},
    {"aten::_assert_tensor_metadata", assert_tensor_metadata},
    {"aten::sym_size.int", sym_size},
    {"aten::sym_stride.int", sym_stride},
    {"aten::sym_numel", sym_numel},
    {"aten::sym_storage_offset", sym_storage_offset},
});

}  // namespace

std::span<const ShapeEntry> data_dependent() { return kTable; }

}  // namespace exporters::families
