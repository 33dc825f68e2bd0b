#pragma once

#include "exporters/symbolic/expr.h"

#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Shape functions against the real CPU ops.
//
// A case is an op and its arguments, whose sizes are expressions over named symbols ("b", "2*s", 8). The op is inferred
// once on fake tensors with symbols for the names; then the real op runs at many concrete sizes with random data, and
// every size, stride, dtype, storage offset and sharing of storage must be what the inferred expressions give there.
// The inference must record no guard and make nothing static, unless the case says so.
//
//   INSTANTIATE_TEST_SUITE_P(Joins, ShapeOracle, testing::ValuesIn(std::vector<Case>{
//       {"aten::cat", {list(t("b 3"), t("s 3")), 0}},
//       {"aten::stack", {list(t("b s"), t("b s").transposed(0, 1)), kw("dim", 1)}},
//   }), case_name);
namespace exporters::oracle {

/// A tensor argument: sizes separated by spaces ("b s*2 8"; an expression has no spaces), row-major float by default.
class TensorArg {
 public:
  explicit TensorArg(const std::string& sizes);

  TensorArg dtype(c10::ScalarType dtype) const;
  /// Values of an integer tensor: low ≤ x < high, expressions. By default 0 ≤ x < 10.
  TensorArg values(const std::string& low, const std::string& high) const;
  /// Same sizes; the memory has axes a and b exchanged.
  TensorArg transposed(int64_t a, int64_t b) const;
  /// Same sizes; the memory has one element along the axis (stride 0).
  TensorArg expanded(int64_t axis) const;
  /// Same sizes; a slice along the axis of a larger tensor (with a storage offset).
  TensorArg sliced(int64_t axis) const;
  TensorArg channels_last() const;
  /// A zero-dimension tensor that type promotion treats as a plain number.
  TensorArg wrapped_number() const;

  struct Layout {
    enum class Kind { kContiguous, kTransposed, kExpanded, kSliced, kChannelsLast } kind = Kind::kContiguous;
    int64_t a = 0;
    int64_t b = 0;
  };
  const std::vector<Expr>& sizes() const { return sizes_; }
  const Layout& layout() const { return layout_; }
  TensorArg with_layout(Layout layout) const;
  std::vector<Expr> strides() const;
  Expr storage_offset() const;
  c10::ScalarType scalar_type() const { return dtype_; }
  std::pair<Expr, Expr> value_range() const { return {low_, high_}; }
  bool is_wrapped_number() const { return wrapped_number_; }
  std::string str() const;

 private:
  std::vector<Expr> sizes_;
  c10::ScalarType dtype_ = c10::ScalarType::Float;
  Expr low_ = 0;
  Expr high_ = 10;
  Layout layout_;
  bool wrapped_number_ = false;
};

struct None {};

/// One argument. Text is an expression over the named sizes where the schema takes a number, else a string.
class Arg {
 public:
  using List = std::vector<Arg>;
  using Data =
      std::variant<None, TensorArg, int64_t, double, bool, std::string, c10::ScalarType, c10::MemoryFormat, List>;
  Arg(None) {}                                          // NOLINT(google-explicit-constructor)
  Arg(TensorArg value) : data(std::move(value)) {}      // NOLINT
  Arg(int value) : data(int64_t{value}) {}              // NOLINT
  Arg(int64_t value) : data(value) {}                   // NOLINT
  Arg(double value) : data(value) {}                    // NOLINT
  Arg(bool value) : data(value) {}                      // NOLINT
  Arg(const char* value) : data(std::string(value)) {}  // NOLINT
  Arg(c10::ScalarType value) : data(value) {}           // NOLINT
  Arg(c10::MemoryFormat value) : data(value) {}         // NOLINT
  Arg(List value) : data(std::move(value)) {}           // NOLINT

  Data data;
  std::string name;  ///< empty for a positional argument
};

inline TensorArg t(const std::string& sizes) { return TensorArg(sizes); }
template <typename... Items>
Arg list(Items... items) {
  return Arg(Arg::List{Arg(std::move(items))...});
}
inline Arg kw(std::string name, Arg value) {
  value.name = std::move(name);
  return value;
}
inline constexpr None none{};

/// An op call and what is expected of its inference beyond the right results.
struct Case {
  Case(std::string op, std::vector<Arg> args) : op(std::move(op)), args(std::move(args)) {}

  /// Runs the case also with each tensor argument in every layout its rank allows.
  Case all_layouts() const;
  /// Runs the case also with these dtypes for every floating tensor.
  Case dtypes(std::vector<c10::ScalarType> dtypes) const;
  /// The least value of a named size; 1 by default.
  Case at_least(const std::string& name, int64_t least) const;
  /// The sample of a named size (by default distinct, and 1 in further runs).
  Case sample(const std::string& name, int64_t value) const;
  /// Guards and narrower ranges in terms of the names ("Ne(b, s)", "s <= 8"). Sizes that break them are not run.
  Case guards(std::vector<std::string> conditions) const;
  /// Names that become static at the sample size, or equal to one another.
  Case binds(std::vector<std::string> names) const;
  /// Whether the result is a view depends on which sizes are 1: sharing and strides are compared where none is.
  Case view_depends_on_ones() const;
  /// Inference throws Error with this text in it.
  Case refused(std::string text) const;

  std::string str() const;

  std::string op;
  std::vector<Arg> args;
  bool sweep_layouts = false;
  std::vector<c10::ScalarType> sweep_dtypes;
  std::map<std::string, int64_t> least;
  std::map<std::string, int64_t> samples;
  std::vector<std::string> expected_guards;
  std::vector<std::string> bound;
  bool compare_views_without_ones = false;
  std::optional<std::string> refusal;
};

void PrintTo(const Case& value, std::ostream* out);

/// Checks one case, with EXPECTs.
void check(const Case& value);

/// "aten_add_Tensor_3": for INSTANTIATE_TEST_SUITE_P.
std::string case_name(const testing::TestParamInfo<Case>& info);

class ShapeOracle : public testing::TestWithParam<Case> {};

}  // namespace exporters::oracle
