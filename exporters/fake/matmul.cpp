#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <algorithm>
#include <cctype>

// ── Products of matrices and vectors ──
namespace exporters::families {
namespace {

// Sizes that the op needs equal (a batch or an inner axis, never broadcast).
Expr same_size(const ShapeCall& call, const Expr& a, const Expr& b, const char* what) {
  if (!holds(call.env(), eq(a, b))) {
    call.refuse(std::string(what) + " " + a.str() + " and " + b.str() + " differ");
  }
  return call.env().simplify(a);
}

void require_rank(const ShapeCall& call, std::string_view name, int64_t rank) {
  const int64_t have = call.meta(name).dim();
  if (have != rank) {
    call.refuse("'" + std::string(name) + "' has rank " + std::to_string(have) + ", not " + std::to_string(rank));
  }
}

void require_same_dtype(const ShapeCall& call, const TensorMeta& a, const TensorMeta& b) {
  if (a.dtype != b.dtype) {
    call.refuse(
        std::string("the operands' dtypes ") + c10::toString(a.dtype) + " and " + c10::toString(b.dtype) + " differ",
        "Convert one of them.");
  }
}

std::vector<Expr> product_sizes(const ShapeCall& call, std::string_view left, std::string_view right, int64_t rank) {
  require_rank(call, left, rank);
  require_rank(call, right, rank);
  const TensorMeta a = call.meta(left);
  const TensorMeta b = call.meta(right);
  require_same_dtype(call, a, b);
  const size_t first = rank == 3 ? 1 : 0;
  same_size(call, a.sizes[first + 1], b.sizes[first], "inner sizes");
  std::vector<Expr> sizes;
  if (rank == 3) sizes.push_back(same_size(call, a.sizes[0], b.sizes[0], "batch sizes"));
  sizes.push_back(a.sizes[first]);
  sizes.push_back(b.sizes[first + 1]);
  return sizes;
}

void returns_product(ShapeCall& call, std::vector<Expr> sizes, const TensorMeta& left) {
  call.returns(dense(std::move(sizes), call.dtype("out_dtype").value_or(left.dtype), left.device));
}

// With an input that must broadcast to the product: addmm, baddbmm, …
void returns_sum(ShapeCall& call, const std::vector<Expr>& sizes, const TensorMeta& left) {
  TensorMeta product = dense(sizes, left.dtype, left.device);
  const TensorMeta added = call.meta("self");
  const std::vector<Expr> together = broadcast_sizes(call.env(), {added, product});
  bool fits = together.size() == sizes.size();
  for (size_t d = 0; fits && d < sizes.size(); ++d) {
    fits = holds(call.env(), eq(together[d], sizes[d]));
  }
  if (!fits) {
    call.refuse("the added tensor does not broadcast to the product");
  }
  returns_product(call, together, left);
}

void mm(ShapeCall& call) { returns_product(call, product_sizes(call, "self", "mat2", 2), call.meta("self")); }
void bmm(ShapeCall& call) { returns_product(call, product_sizes(call, "self", "mat2", 3), call.meta("self")); }
void addmm(ShapeCall& call) { returns_sum(call, product_sizes(call, "mat1", "mat2", 2), call.meta("mat1")); }
void baddbmm(ShapeCall& call) { returns_sum(call, product_sizes(call, "batch1", "batch2", 3), call.meta("batch1")); }

void int_mm(ShapeCall& call) {
  call.returns(dense(product_sizes(call, "self", "mat2", 2), c10::ScalarType::Int, call.meta("self").device));
}

void addbmm(ShapeCall& call) {
  std::vector<Expr> sizes = product_sizes(call, "batch1", "batch2", 3);
  sizes.erase(sizes.begin());
  returns_sum(call, sizes, call.meta("batch1"));
}

void mv(ShapeCall& call) {
  require_rank(call, "self", 2);
  require_rank(call, "vec", 1);
  const TensorMeta matrix = call.meta("self");
  require_same_dtype(call, matrix, call.meta("vec"));
  same_size(call, matrix.sizes[1], call.meta("vec").sizes[0], "inner sizes");
  returns_product(call, {matrix.sizes[0]}, matrix);
}

void addmv(ShapeCall& call) {
  require_rank(call, "mat", 2);
  require_rank(call, "vec", 1);
  const TensorMeta matrix = call.meta("mat");
  same_size(call, matrix.sizes[1], call.meta("vec").sizes[0], "inner sizes");
  returns_sum(call, {matrix.sizes[0]}, matrix);
}

void dot_with(ShapeCall& call, std::string_view other) {
  require_rank(call, "self", 1);
  require_rank(call, other, 1);
  require_same_dtype(call, call.meta("self"), call.meta(other));
  same_size(call, call.meta("self").sizes[0], call.meta(other).sizes[0], "sizes");
  returns_product(call, {}, call.meta("self"));
}

void dot(ShapeCall& call) { dot_with(call, "tensor"); }
void vdot(ShapeCall& call) { dot_with(call, "other"); }

// The last axes are summed over; no broadcasting.
void inner(ShapeCall& call) {
  const TensorMeta left = call.meta("self");
  const TensorMeta right = call.meta("other");
  if (left.sizes.empty() || right.sizes.empty()) {
    call.returns(elementwise(call.env(), {left, right}, promote({call.tensor("self"), call.tensor("other")})));
    return;
  }
  require_same_dtype(call, left, right);
  same_size(call, left.sizes.back(), right.sizes.back(), "last sizes");
  std::vector<Expr> sizes(left.sizes.begin(), left.sizes.end() - 1);
  sizes.insert(sizes.end(), right.sizes.begin(), right.sizes.end() - 1);
  returns_product(call, std::move(sizes), left);
}

void outer(ShapeCall& call) {
  require_rank(call, "self", 1);
  require_rank(call, "vec2", 1);
  const TensorMeta a = call.meta("self");
  const TensorMeta b = call.meta("vec2");
  call.returns(dense({a.sizes[0], b.sizes[0]}, promote({call.tensor("self"), call.tensor("vec2")}), a.device));
}

// Sizes multiply; missing leading axes count as 1.
void kron(ShapeCall& call) {
  const TensorMeta a = call.meta("self");
  const TensorMeta b = call.meta("other");
  std::vector<Expr> sizes(std::max(a.sizes.size(), b.sizes.size()), 1);
  for (const TensorMeta* operand : {&a, &b}) {
    const size_t skip = sizes.size() - operand->sizes.size();
    for (size_t d = 0; d < operand->sizes.size(); ++d) {
      sizes[skip + d] = sizes[skip + d] * operand->sizes[d];
    }
  }
  call.returns(dense(std::move(sizes), promote({call.tensor("self"), call.tensor("other")}), a.device));
}

void addr(ShapeCall& call) {
  require_rank(call, "vec1", 1);
  require_rank(call, "vec2", 1);
  const TensorMeta a = call.meta("vec1");
  const TensorMeta product = dense({a.sizes[0], call.meta("vec2").sizes[0]}, a.dtype, a.device);
  call.returns(elementwise(call.env(), {product, call.meta("self")},
                           promote({call.tensor("self"), call.tensor("vec1"), call.tensor("vec2")})));
}

// Sizes of a matmul: vectors are rows on the left and columns on the right; leading axes broadcast.
std::vector<Expr> matmul_sizes(const ShapeCall& call, const TensorMeta& left, const TensorMeta& right) {
  if (left.sizes.empty() || right.sizes.empty()) {
    call.refuse("both operands need at least one axis");
  }
  const size_t left_matrix = std::min<size_t>(left.sizes.size(), 2);
  const size_t right_matrix = std::min<size_t>(right.sizes.size(), 2);
  same_size(call, left.sizes.back(), right.sizes[right.sizes.size() - right_matrix], "inner sizes");
  TensorMeta left_batch, right_batch;
  left_batch.sizes.assign(left.sizes.begin(), left.sizes.end() - static_cast<int64_t>(left_matrix));
  right_batch.sizes.assign(right.sizes.begin(), right.sizes.end() - static_cast<int64_t>(right_matrix));
  std::vector<Expr> sizes = broadcast_sizes(call.env(), {left_batch, right_batch});
  if (left_matrix == 2) sizes.push_back(left.sizes[left.sizes.size() - 2]);
  if (right_matrix == 2) sizes.push_back(right.sizes.back());
  return sizes;
}

void matmul(ShapeCall& call) {
  const TensorMeta left = call.meta("self");
  const TensorMeta right = call.meta("other");
  require_same_dtype(call, left, right);
  returns_product(call, matmul_sizes(call, left, right), left);
}

void linear(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  TensorMeta weight = call.meta("weight");
  require_same_dtype(call, input, weight);
  if (weight.dim() == 0 || weight.dim() > 2) {
    call.refuse("'weight' has rank " + std::to_string(weight.dim()) + ", not 1 or 2");
  }
  std::reverse(weight.sizes.begin(), weight.sizes.end());
  std::vector<Expr> sizes = matmul_sizes(call, input, weight);
  if (call.has("bias")) {
    const TensorMeta product = dense(sizes, input.dtype, input.device);
    if (broadcast_sizes(call.env(), {product, call.meta("bias")}).size() != sizes.size()) {
      call.refuse("'bias' has more axes than the product");
    }
  }
  returns_product(call, std::move(sizes), input);
}

// Distances of each row of one to each row of the other.
void cdist(ShapeCall& call) {
  const TensorMeta left = call.meta("x1");
  TensorMeta right = call.meta("x2");
  if (left.dim() < 2 || right.dim() < 2) call.refuse("both operands need at least two axes");
  std::swap(right.sizes[right.sizes.size() - 1], right.sizes[right.sizes.size() - 2]);
  returns_product(call, matmul_sizes(call, left, right), left);
}

void cross(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  std::vector<Expr> sizes = broadcast_sizes(call.env(), {self, call.meta("other")});
  call.dim("dim", static_cast<int64_t>(sizes.size()));
  call.returns(dense(std::move(sizes), promote({call.tensor("self"), call.tensor("other")}), self.device));
}

// ── tensordot ──

void tensordot(ShapeCall& call) {
  const TensorMeta left = call.meta("self");
  const TensorMeta right = call.meta("other");
  require_same_dtype(call, left, right);
  const std::vector<int64_t> left_dims = call.integers("dims_self");
  const std::vector<int64_t> right_dims = call.integers("dims_other");
  if (left_dims.size() != right_dims.size()) call.refuse("as many axes of self as of other are needed");
  std::vector<bool> left_summed(left.sizes.size()), right_summed(right.sizes.size());
  for (size_t i = 0; i < left_dims.size(); ++i) {
    const auto a = static_cast<size_t>(wrap_dim(left_dims[i], left.dim()));
    const auto b = static_cast<size_t>(wrap_dim(right_dims[i], right.dim()));
    call.env().broadcast(left.sizes[a], right.sizes[b]);
    left_summed[a] = right_summed[b] = true;
  }
  std::vector<Expr> sizes;
  for (size_t d = 0; d < left.sizes.size(); ++d) {
    if (!left_summed[d]) sizes.push_back(left.sizes[d]);
  }
  for (size_t d = 0; d < right.sizes.size(); ++d) {
    if (!right_summed[d]) sizes.push_back(right.sizes[d]);
  }
  returns_product(call, std::move(sizes), left);
}

// ── einsum ──

// Axes of the equation: those of the output first, in its order, then those summed over. An ellipsis stands for the
// axes ('.', 0), ('.', 1), … counted from the right.
using Label = std::pair<char, int64_t>;

class Equation {
 public:
  Equation(const ShapeCall& call, const std::string& text, const std::vector<TensorMeta>& operands)
      : call_(call), operands_(operands) {
    const size_t arrow = text.find("->");
    parse_operands(text.substr(0, arrow));
    if (arrow == std::string::npos) {
      imply_output();
    } else {
      axes_ = labels_of(text.substr(arrow + 2), longest_ellipsis_);
    }
    output_rank_ = axes_.size();
    add_summed();
  }

  size_t output_rank() const { return output_rank_; }
  size_t rank() const { return axes_.size(); }

  /// The operand with every axis of the equation in order; those it lacks have size 1. Repeated labels: the diagonal.
  TensorMeta aligned(size_t operand) const {
    const TensorMeta& meta = operands_[operand];
    TensorMeta result = meta;
    result.sizes.assign(axes_.size(), 1);
    result.strides.assign(axes_.size(), 0);
    std::vector<bool> seen(axes_.size(), false);
    for (size_t d = 0; d < labels_[operand].size(); ++d) {
      const auto at = static_cast<size_t>(std::find(axes_.begin(), axes_.end(), labels_[operand][d]) - axes_.begin());
      result.sizes[at] =
          seen[at] ? same_size(call_, result.sizes[at], meta.sizes[d], "sizes of a repeated label") : meta.sizes[d];
      result.strides[at] = result.strides[at] + meta.strides[d];
      seen[at] = true;
    }
    return result;
  }

 private:
  void parse_operands(const std::string& text) {
    size_t begin = 0;
    for (const TensorMeta& operand : operands_) {
      if (begin > text.size()) call_.refuse("the equation has fewer terms than operands");
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::string term = text.substr(begin, end - begin);
      const auto letters = std::count_if(term.begin(), term.end(), [](char c) { return std::isalpha(c) != 0; });
      const int64_t ellipsis = operand.dim() - letters;
      labels_.push_back(labels_of(term, ellipsis));
      if (labels_.back().size() != operand.sizes.size()) {
        call_.refuse("'" + term + "' does not fit an operand of rank " + std::to_string(operand.dim()));
      }
      longest_ellipsis_ = std::max(longest_ellipsis_, term.find('.') == std::string::npos ? 0 : ellipsis);
      begin = end + 1;
    }
    if (begin <= text.size()) call_.refuse("the equation has more terms than operands");
  }

  std::vector<Label> labels_of(const std::string& term, int64_t ellipsis) const {
    std::vector<Label> labels;
    for (size_t i = 0; i < term.size(); ++i) {
      if (term[i] == ' ') continue;
      if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
        labels.emplace_back(term[i], 0);
      } else if (term.compare(i, 3, "...") == 0) {
        for (int64_t axis = ellipsis; axis-- > 0;) labels.emplace_back('.', axis);
        i += 2;
      } else {
        call_.refuse("'" + term + "' is not a term of an equation");
      }
    }
    return labels;
  }

  // Without an arrow: the ellipsis, then what appears once, in order of letters.
  void imply_output() {
    for (int64_t axis = longest_ellipsis_; axis-- > 0;) axes_.emplace_back('.', axis);
    for (const Label& label : all_labels()) {
      int64_t count = 0;
      for (const auto& labels : labels_) count += std::count(labels.begin(), labels.end(), label);
      if (label.first != '.' && count == 1) axes_.push_back(label);
    }
  }

  void add_summed() {
    for (const Label& label : all_labels()) {
      if (std::find(axes_.begin(), axes_.end(), label) == axes_.end()) axes_.push_back(label);
    }
    for (const Label& label : axes_) {
      if (label.first == '.') continue;
      const bool known = std::any_of(labels_.begin(), labels_.end(), [&](const auto& labels) {
        return std::find(labels.begin(), labels.end(), label) != labels.end();
      });
      if (!known) call_.refuse(std::string("no operand has the output's '") + label.first + "'");
    }
  }

  // Letters as ATen orders them (capitals first), the ellipsis before them.
  std::vector<Label> all_labels() const {
    std::vector<Label> all;
    for (const auto& labels : labels_) all.insert(all.end(), labels.begin(), labels.end());
    std::sort(all.begin(), all.end(), [](const Label& a, const Label& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  const ShapeCall& call_;
  const std::vector<TensorMeta>& operands_;
  std::vector<std::vector<Label>> labels_;
  int64_t longest_ellipsis_ = 0;
  std::vector<Label> axes_;
  size_t output_rank_ = 0;
};

// Note [Strides of einsum]
// ATen contracts pairs from the left (or as `path` says): axes that only one operand has are summed at once, the rest
// is a bmm over [both and output, left and output, right and output], whose result is permuted to the equation's order.
// https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/Linear.cpp
class Contraction {
 public:
  Contraction(const ShapeCall& call, size_t output_rank, std::vector<TensorMeta> operands)
      : call_(call), env_(call.env()), output_rank_(output_rank), operands_(std::move(operands)) {}

  TensorMeta run(const std::optional<std::vector<int64_t>>& path) {
    size_t step = 0;
    while (operands_.size() > 1) {
      size_t i = 0, j = 1;
      if (path) {
        const auto next = [&] {
          const int64_t index = step < path->size() ? path->at(step++) : -1;
          ensure_index(index);
          return static_cast<size_t>(index);
        };
        i = next();
        j = next();
        if (j < i) std::swap(i, j);
        if (i == j) ensure_index(-1);
      }
      TensorMeta result = contract(operands_[i], operands_[j], i, j);
      operands_.erase(operands_.begin() + static_cast<int64_t>(j));
      operands_.erase(operands_.begin() + static_cast<int64_t>(i));
      operands_.insert(path ? operands_.end() : operands_.begin(), std::move(result));
    }
    return operands_.front();
  }

 private:
  void ensure_index(int64_t index) const {
    if (index < 0 || index >= static_cast<int64_t>(operands_.size())) {
      call_.refuse("the contraction path does not fit the operands");
    }
  }

  bool is_one(const Expr& size) const { return env_.is_true(eq(size, 1)); }

  // No operand other than i and j still has the axis.
  bool is_last_use(size_t axis, size_t i, size_t j) const {
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (k != i && k != j && !is_one(operands_[k].sizes[axis])) return false;
    }
    return true;
  }

  TensorMeta contract(TensorMeta a, TensorMeta b, size_t i, size_t j) {
    const std::vector<Expr> sizes = broadcast_sizes(env_, {a, b});
    std::vector<size_t> summed;
    for (size_t axis = output_rank_; axis < sizes.size(); ++axis) {
      if (!is_last_use(axis, i, j) || (is_one(a.sizes[axis]) && is_one(b.sizes[axis]))) continue;
      if (!is_one(a.sizes[axis]) && !is_one(b.sizes[axis])) {
        summed.push_back(axis);
      } else {
        TensorMeta& only = is_one(b.sizes[axis]) ? a : b;
        only.sizes[axis] = 1;
        only.strides = contiguous_strides(only.sizes);
      }
    }
    return summed.empty() ? elementwise(env_, {a, b}, a.dtype) : batched_product(a, b, sizes, summed);
  }

  TensorMeta batched_product(const TensorMeta& a, const TensorMeta& b, std::vector<Expr> sizes,
                             const std::vector<size_t>& summed) const {
    std::vector<size_t> both, left, right;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (std::find(summed.begin(), summed.end(), axis) != summed.end()) {
        sizes[axis] = 1;
      } else if (!is_one(a.sizes[axis])) {
        (is_one(b.sizes[axis]) ? left : both).push_back(axis);
      } else {
        right.push_back(axis);
      }
    }
    TensorMeta result = a;
    result.storage_offset = 0;
    result.strides.assign(sizes.size(), 1);
    Expr product = 1;
    for (const std::vector<size_t>* group :
         std::initializer_list<const std::vector<size_t>*>{&right, &summed, &left, &both}) {
      for (auto axis = group->rbegin(); axis != group->rend(); ++axis) {
        result.strides[*axis] = product;
        product = product * sizes[*axis];
      }
    }
    result.sizes = std::move(sizes);
    return result;
  }

  const ShapeCall& call_;
  ShapeEnv& env_;
  size_t output_rank_;
  std::vector<TensorMeta> operands_;
};

void einsum(ShapeCall& call) {
  std::vector<TensorMeta> operands;
  for (const at::Tensor& tensor : call.tensors("tensors")) {
    operands.push_back(meta_of(tensor));
  }
  if (operands.empty()) call.refuse("no operands");
  for (const TensorMeta& operand : operands) {
    require_same_dtype(call, operands.front(), operand);
  }
  const Equation equation(call, call.string("equation"), operands);
  std::vector<TensorMeta> aligned;
  for (size_t i = 0; i < operands.size(); ++i) {
    aligned.push_back(equation.aligned(i));
  }
  std::optional<std::vector<int64_t>> path;
  if (call.has("path")) path = call.integers("path");
  TensorMeta result = Contraction(call, equation.output_rank(), std::move(aligned)).run(path);
  result.sizes.resize(equation.output_rank());
  result.strides.resize(equation.output_rank());
  if (operands.size() > 1) {
    call.returns(std::move(result));
  } else if (equation.rank() > equation.output_rank()) {
    call.returns(dense(result.sizes, result.dtype, result.device));
  } else {
    call.returns_view(call.tensors("tensors")[0], std::move(result));
  }
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::mm", mm},
    {"aten::bmm", bmm},
    {"aten::addmm", addmm},
    {"aten::baddbmm", baddbmm},
    {"aten::addbmm", addbmm},
    {"aten::_int_mm", int_mm},
    {"aten::mv", mv},
    {"aten::addmv", addmv},
    {"aten::dot", dot},
    {"aten::vdot", vdot},
    {"aten::inner", inner},
    {"aten::outer", outer},
    {"aten::ger", outer},
    {"aten::kron", kron},
    {"aten::addr", addr},
    {"aten::matmul", matmul},
    {"aten::linear", linear},
    {"aten::cdist", cdist},
    {"aten::_cdist_forward", cdist},
    {"aten::linalg_cross", cross},
    {"aten::tensordot", tensordot},
    {"aten::einsum", einsum},
});

}  // namespace

std::span<const ShapeEntry> matmul() { return kTable; }

}  // namespace exporters::families
