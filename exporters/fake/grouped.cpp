#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <array>

// ── Ops over groups of rows: products of experts, bags of embeddings ──
namespace exporters::families {
namespace {

using c10::ScalarType;

// ── _grouped_mm ──

constexpr int64_t kAlignment = 16;  // bytes: rows of operands and result begin at multiples of it

// The axis of a matrix that is not contiguous must step in whole alignments.
void require_alignment(const ShapeCall& call, const TensorMeta& operand, const char* name) {
  const int64_t elements = kAlignment / static_cast<int64_t>(c10::elementSize(operand.dtype));
  const size_t rows = operand.strides.size() - 2, columns = rows + 1;
  const bool row_major = call.env().is_true(eq(operand.strides[columns], 1));
  require_multiple(call, operand.strides[row_major ? rows : columns], elements, fmt::format("stride of {}", name));
}

void require_offsets(const ShapeCall& call, bool needed) {
  if (call.has("offs") != needed) {
    call.refuse("offs must be given where an operand has rank 2, and only there");
  }
  if (needed && (call.meta("offs").dtype != ScalarType::Int || call.meta("offs").dim() != 1)) {
    call.refuse(fmt::format("offs has dtype {} and rank {}; a vector of int32 is needed",
                            c10::toString(call.meta("offs").dtype), call.meta("offs").dim()));
  }
}

void require_grouped_operands(const ShapeCall& call, const TensorMeta& a, const TensorMeta& b) {
  if (a.dim() < 2 || a.dim() > 3 || b.dim() < 2 || b.dim() > 3) {
    call.refuse(fmt::format("the operands have rank {} and {}, not 2 or 3", a.dim(), b.dim()));
  }
  if (a.dtype != b.dtype || !c10::isFloatingType(a.dtype) || a.dtype == ScalarType::Double) {
    call.refuse(fmt::format("the operands have dtypes {} and {}; both must be float, bfloat16 or half",
                            c10::toString(a.dtype), c10::toString(b.dtype)));
  }
  if (call.has("bias") || call.dtype("out_dtype").value_or(a.dtype) != a.dtype) {
    call.refuse("a bias, or a result of another dtype, is not supported");
  }
  require_equal(call, a.sizes.back(), b.sizes[b.sizes.size() - 2], "inner size");
  require_alignment(call, a, "self");
  require_alignment(call, b, "mat2");
}

// Where one operand has rank 2, its rows, columns or inner axis hold all groups, one after the other.
std::vector<Expr> grouped_sizes(const ShapeCall& call, const TensorMeta& a, const TensorMeta& b) {
  const Expr &rows = a.sizes[a.sizes.size() - 2], &columns = b.sizes.back();
  if (a.dim() == 3 && b.dim() == 3) {
    require_equal(call, a.sizes[0], b.sizes[0], "groups");
    return {a.sizes[0], rows, columns};
  }
  const Expr groups = call.meta("offs").sizes[0];
  if (a.dim() == 2 && b.dim() == 2) {
    return {groups, rows, columns};
  }
  require_equal(call, groups, a.dim() == 3 ? a.sizes[0] : b.sizes[0], "groups");
  return {rows, columns};
}

void grouped_mm(ShapeCall& call) {
  const TensorMeta a = call.meta("self"), b = call.meta("mat2");
  require_offsets(call, a.dim() != 3 || b.dim() != 3);
  require_grouped_operands(call, a, b);
  const std::vector<Expr> sizes = grouped_sizes(call, a, b);
  const int64_t elements = kAlignment / static_cast<int64_t>(c10::elementSize(a.dtype));
  TensorMeta result = formatted(sizes, a.dtype, a);
  const Expr row = ceildiv(sizes.back(), elements) * elements;
  result.strides[sizes.size() - 2] = row;
  if (sizes.size() == 3) {
    result.strides[0] = row * sizes[1];
  }
  call.returns(std::move(result));
}

// The op that transformers adds for devices without _grouped_mm: rows in groups, [S, K], times [E, K, N].
void grouped_mm_fallback(ShapeCall& call) {
  const TensorMeta input = call.meta("input"), weight = call.meta("weight"), offsets = call.meta("offs");
  if (input.dim() != 2 || weight.dim() != 3 || offsets.dim() != 1) {
    call.refuse(fmt::format("input, weight and offs have ranks {}, {}, {}, not 2, 3, 1", input.dim(), weight.dim(),
                            offsets.dim()));
  }
  require_equal(call, input.sizes[1], weight.sizes[1], "inner size");
  require_equal(call, offsets.sizes[0], weight.sizes[0], "groups");
  call.returns(formatted({input.sizes[0], weight.sizes[2]}, input.dtype, input));
}

// ── embedding_bag: the bags, and what a backward pass would need ──

enum BagMode { kSum = 0, kMean = 1, kMax = 2 };

// Sums of rows that lie side by side take a shortcut that does not map indices to bags.
bool sums_directly(const ShapeCall& call, const TensorMeta& weight) {
  const bool dtype = weight.dtype == ScalarType::Float || c10::isReducedFloatingType(weight.dtype);
  const bool rows = call.env().is_true(eq(weight.strides[1], 1));
  const bool weights =
      !call.has("per_sample_weights") || call.env().is_true(eq(call.meta("per_sample_weights").strides[0], 1));
  return dtype && rows && weights && (!call.has("padding_idx") || call.integer("padding_idx") < 0);
}

void embedding_bag(ShapeCall& call) {
  const TensorMeta weight = call.meta("weight"), indices = call.meta("indices"), offsets = call.meta("offsets");
  if (weight.dim() != 2 || indices.dim() != 1 || offsets.dim() != 1) {
    call.refuse(fmt::format("weight, indices and offsets have ranks {}, {}, {}, not 2, 1, 1", weight.dim(),
                            indices.dim(), offsets.dim()));
  }
  const int64_t mode = call.integer("mode");
  const Expr bags = offsets.sizes[0] - (call.boolean("include_last_offset") ? 1 : 0);
  const bool direct = mode == kSum && sums_directly(call, weight);
  const Expr bag_sizes = mode == kSum ? offsets.sizes[0] : bags;
  call.returns(formatted({bags, weight.sizes[1]}, weight.dtype, weight));
  call.returns(formatted({direct ? Expr(0) : indices.sizes[0]}, indices.dtype, weight));
  call.returns(formatted({bag_sizes}, indices.dtype, weight));
  call.returns(formatted(mode == kMax ? std::vector<Expr>{bags, weight.sizes[1]} : std::vector<Expr>{bag_sizes},
                         indices.dtype, weight));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::_grouped_mm", grouped_mm},
    {"transformers::grouped_mm_fallback", grouped_mm_fallback},
    {"aten::embedding_bag", embedding_bag},
    {"aten::_embedding_bag", embedding_bag},
    {"aten::_embedding_bag_forward_only", embedding_bag},
});

}  // namespace

std::span<const ShapeEntry> grouped() { return kTable; }

}  // namespace exporters::families
