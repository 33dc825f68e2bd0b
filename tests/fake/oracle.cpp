#include "oracle.h"

#include "exporters/fake/fake_tensor.h"
#include "exporters/fake/infer.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/shape_env.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace exporters::oracle {
namespace {

using Sizes = std::map<std::string, int64_t>;

int64_t value_at(const Expr& expr, const Sizes& sizes) {
  return expr.evaluate([&](Symbol symbol) { return sizes.at(symbol.name()); });
}

std::vector<int64_t> values_at(const std::vector<Expr>& exprs, const Sizes& sizes) {
  std::vector<int64_t> values;
  for (const Expr& expr : exprs) {
    values.push_back(value_at(expr, sizes));
  }
  return values;
}

std::string str(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

// ── Arguments ──

// Turns arguments into IValues of the types that the schema wants, with tensors and numbers made by the subclass.
class Builder {
 public:
  virtual ~Builder() = default;
  virtual at::Tensor tensor(const TensorArg& arg) = 0;
  virtual c10::IValue number(const Expr& expr) = 0;

  torch::jit::Stack stack(const c10::FunctionSchema& schema, const std::vector<Arg>& args) {
    torch::jit::Stack stack;
    size_t position = 0;
    std::set<std::string> used;
    for (const c10::Argument& wanted : schema.arguments()) {
      const Arg* given = nullptr;
      for (const Arg& arg : args) {
        if (arg.name == wanted.name()) given = &arg;
      }
      if (given != nullptr) {
        used.insert(given->name);
      } else if (position < args.size() && args[position].name.empty()) {
        given = &args[position++];
      }
      if (given == nullptr) {
        ensure(wanted.default_value().has_value(), "{}: the case has no '{}'", schema.name(), wanted.name());
        stack.push_back(*wanted.default_value());
      } else {
        stack.push_back(convert(*given, wanted.type(), wanted.real_type()));
      }
    }
    for (const Arg& arg : args) {
      ensure(arg.name.empty() || used.contains(arg.name), "{} has no '{}'", schema.name(), arg.name);
    }
    ensure(position == static_cast<size_t>(
                           std::count_if(args.begin(), args.end(), [](const Arg& a) { return a.name.empty(); })),
           "{}: the case has too many arguments", schema.name());
    return stack;
  }

  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  c10::IValue convert(const Arg& arg, const c10::TypePtr& type, const c10::TypePtr& real_type) {
    if (const auto optional = type->cast<c10::OptionalType>()) {
      if (std::holds_alternative<None>(arg.data)) return {};
      const auto real = real_type->cast<c10::OptionalType>();
      return convert(arg, optional->getElementType(), real ? real->getElementType() : real_type);
    }
    if (const auto list = type->cast<c10::ListType>()) {
      const auto real = real_type->cast<c10::ListType>();
      return convert_list(arg, list->getElementType(), real ? real->getElementType() : real_type);
    }
    if (const auto* value = std::get_if<TensorArg>(&arg.data)) {
      tensors_.push_back(tensor(*value));
      return tensors_.back();
    }
    if (const auto* value = std::get_if<c10::ScalarType>(&arg.data)) return static_cast<int64_t>(*value);
    if (const auto* value = std::get_if<c10::MemoryFormat>(&arg.data)) return static_cast<int64_t>(*value);
    if (const auto* value = std::get_if<bool>(&arg.data)) return *value;
    if (const auto* value = std::get_if<double>(&arg.data)) return *value;
    if (const auto* value = std::get_if<int64_t>(&arg.data)) {
      if (type->kind() == c10::TypeKind::FloatType) return static_cast<double>(*value);
      return *value;
    }
    if (const auto* value = std::get_if<std::string>(&arg.data)) {
      if (type->kind() == c10::TypeKind::StringType) return *value;
      return number(Expr::parse(*value));
    }
    ensure(std::holds_alternative<None>(arg.data), "a case gives a list where the op takes {}", type->str());
    return {};
  }

  c10::IValue convert_list(const Arg& arg, const c10::TypePtr& element, const c10::TypePtr& real_element) {
    const auto* items = std::get_if<Arg::List>(&arg.data);
    const Arg::List single{arg};
    std::vector<c10::IValue> values;
    for (const Arg& item : items != nullptr ? *items : single) {
      values.push_back(convert(item, element, real_element));
    }
    const bool symbolic = std::any_of(values.begin(), values.end(), [](const auto& v) { return v.isSymInt(); });
    c10::impl::GenericList result(symbolic                                       ? c10::TypePtr(c10::SymIntType::get())
                                  : element->kind() == c10::TypeKind::SymIntType ? c10::TypePtr(c10::IntType::get())
                                                                                 : element);
    for (c10::IValue& value : values) {
      result.push_back(symbolic && value.isInt() ? c10::IValue(c10::SymInt(value.toInt())) : std::move(value));
    }
    return result;
  }

  std::vector<at::Tensor> tensors_;
};

class RealBuilder : public Builder {
 public:
  explicit RealBuilder(const Sizes& sizes) : sizes_(sizes) {}

  at::Tensor tensor(const TensorArg& arg) override {
    const std::vector<int64_t> sizes = values_at(arg.sizes(), sizes_);
    const std::vector<int64_t> strides = values_at(arg.strides(), sizes_);
    const int64_t offset = value_at(arg.storage_offset(), sizes_);
    int64_t elements = offset + 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      elements += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
    }
    at::Tensor tensor = random(elements, arg).as_strided(sizes, strides, offset);
    if (arg.is_wrapped_number()) {
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return tensor;
  }

  c10::IValue number(const Expr& expr) override { return value_at(expr, sizes_); }

 private:
  at::Tensor random(int64_t elements, const TensorArg& arg) const {
    const c10::ScalarType dtype = arg.scalar_type();
    if (dtype == c10::ScalarType::Bool) {
      return at::randint(0, 2, {elements}, at::TensorOptions(dtype));
    }
    if (c10::isIntegralType(dtype, false)) {
      const auto [low, high] = arg.value_range();
      return at::randint(value_at(low, sizes_), value_at(high, sizes_), {elements}, at::TensorOptions(dtype));
    }
    return at::randn({elements}, at::TensorOptions(c10::isComplexType(dtype) ? dtype : c10::ScalarType::Float))
        .to(dtype);
  }

  const Sizes& sizes_;
};

class FakeBuilder : public Builder {
 public:
  FakeBuilder(const std::shared_ptr<ShapeEnv>& env, const std::map<std::string, Expr>& symbols)
      : env_(env), symbols_(symbols) {}

  at::Tensor tensor(const TensorArg& arg) override {
    TensorMeta meta;
    meta.dtype = arg.scalar_type();
    meta.sizes = with_symbols(arg.sizes());
    meta.strides = with_symbols(arg.strides());
    meta.storage_offset = with_symbols(arg.storage_offset());
    at::Tensor tensor = make_fake(std::move(meta), env_);
    if (arg.is_wrapped_number()) {
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return tensor;
  }

  c10::IValue number(const Expr& expr) override {
    const Expr symbolic = with_symbols(expr);
    return symbolic.is_int() ? c10::IValue(*symbolic.as_int()) : c10::IValue(to_sym_int(symbolic, env_));
  }

 private:
  Expr with_symbols(const Expr& expr) const {
    return expr.substitute([&](Symbol symbol) { return symbols_.at(symbol.name()); });
  }
  std::vector<Expr> with_symbols(std::vector<Expr> exprs) const {
    for (Expr& expr : exprs) {
      expr = with_symbols(expr);
    }
    return exprs;
  }

  const std::shared_ptr<ShapeEnv>& env_;
  const std::map<std::string, Expr>& symbols_;
};

// The names in an argument; text is an expression unless the schema wants a string.
void collect_names(const Arg& arg, bool is_text, std::vector<std::string>& names) {
  const auto add = [&](const Expr& expr) {
    for (const Symbol& symbol : expr.free_symbols()) {
      if (std::find(names.begin(), names.end(), symbol.name()) == names.end()) names.push_back(symbol.name());
    }
  };
  if (const auto* tensor = std::get_if<TensorArg>(&arg.data)) {
    for (const Expr& size : tensor->sizes()) add(size);
  } else if (const auto* items = std::get_if<Arg::List>(&arg.data)) {
    for (const Arg& item : *items) collect_names(item, is_text, names);
  } else if (const auto* text = std::get_if<std::string>(&arg.data); text != nullptr && !is_text) {
    add(Expr::parse(*text));
  }
}

std::vector<std::string> names_of(const Case& value, const c10::FunctionSchema& schema) {
  std::vector<std::string> names;
  for (size_t i = 0; i < value.args.size(); ++i) {
    const Arg& arg = value.args[i];
    const auto index =
        arg.name.empty() ? std::optional<int>(static_cast<int>(i)) : schema.argumentIndexWithName(arg.name);
    const bool is_text = index && schema.arguments().at(static_cast<size_t>(*index)).type()->str().starts_with("str");
    collect_names(arg, is_text, names);
  }
  return names;
}

// ── Sizes to run at ──

int64_t least_of(const Case& value, const std::string& name) {
  const auto it = value.least.find(name);
  return it == value.least.end() ? 1 : it->second;
}

// Distinct samples of at least 2, then each name in turn as small as it may be, then all of them.
std::vector<Sizes> samples_of(const Case& value, const std::vector<std::string>& names) {
  static constexpr int64_t kDistinct[] = {5, 3, 7, 2, 11, 6};
  Sizes distinct;
  for (size_t i = 0; i < names.size(); ++i) {
    distinct[names[i]] =
        std::max(kDistinct[i % std::size(kDistinct)], least_of(value, names[i]) + static_cast<int64_t>(i));
  }
  for (const auto& [name, sample] : value.samples) {
    distinct[name] = sample;
  }
  std::vector<Sizes> result{distinct};
  Sizes all = distinct;
  for (const std::string& name : names) {
    if (value.samples.contains(name)) continue;
    Sizes one = distinct;
    one[name] = all[name] = least_of(value, name);
    result.push_back(one);
  }
  if (names.size() > 1) {
    result.push_back(all);
  }
  return result;
}

std::vector<Sizes> run_sizes_of(const Case& value, const std::vector<std::string>& names) {
  std::vector<Sizes> result = samples_of(value, names);
  for (const int64_t base : {2, 4, 9}) {  // sizes equal to one another
    Sizes equal;
    for (const std::string& name : names) equal[name] = std::max(base, least_of(value, name));
    result.push_back(equal);
  }
  Sizes falling;
  int64_t next = 8;
  for (const std::string& name : names)
    falling[name] = std::max(next = std::max<int64_t>(next - 2, 2), least_of(value, name));
  result.push_back(falling);
  return result;
}

// ── Comparison ──

void flatten(const c10::IValue& value, std::vector<c10::IValue>& leaves) {
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) flatten(item, leaves);
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) flatten(item, leaves);
  } else {
    leaves.push_back(value);
  }
}

std::vector<c10::IValue> flatten(const torch::jit::Stack& stack) {
  std::vector<c10::IValue> leaves;
  for (const c10::IValue& value : stack) flatten(value, leaves);
  return leaves;
}

// Not Tensor::is_alias_of, which looks at data pointers.
bool shares(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

class Run {
 public:
  Run(const Case& value, const c10::OperatorHandle& op, const std::vector<std::string>& names, const Sizes& samples)
      : case_(value), op_(op), env_(std::make_shared<ShapeEnv>()) {
    for (const std::string& name : names) {
      const Dim dim = least_of(value, name) > 1 ? Dim::Auto(least_of(value, name)) : Dim::Auto();
      const Expr symbol = env_->add_axis({name, 0}, samples.at(name), dim);
      symbols_.emplace(name, symbol);
      first_ranges_.emplace(name, env_->bounds(symbol));
      names_.emplace(symbol.as_symbol().value().name(), name);
    }
  }

  void infer_fake() {
    FakeBuilder builder(env_, symbols_);
    fake_ = builder.stack(op_.schema(), case_.args);
    fake_arguments_ = builder.tensors();
    infer(op_, fake_, env_);
  }

  void check_guards() const {
    std::vector<std::string> guards;
    for (const Guard& guard : env_->guards()) {
      guards.push_back(
          guard.condition.substitute([&](Symbol s) { return std::optional<Expr>(Symbol(names_.at(s.name()))); }).str());
    }
    for (const auto& [name, symbol] : symbols_) {
      const Range range = env_->simplify(symbol) == symbol ? env_->bounds(symbol) : Range{};
      if (range.min > first_ranges_.at(name).min) guards.push_back(fmt::format("{} >= {}", name, range.min));
      if (range.max < first_ranges_.at(name).max) guards.push_back(fmt::format("{} <= {}", name, range.max));
    }
    EXPECT_EQ(guards, case_.expected_guards);
    std::vector<std::string> bound;
    for (const auto& [name, symbol] : symbols_) {
      if (!(env_->simplify(symbol) == symbol)) bound.push_back(name);
    }
    EXPECT_EQ(bound, case_.bound) << "names that became static or equal to another one";
  }

  /// Whether the facts of the inference allow these sizes.
  bool allows(const Sizes& sizes) const {
    const Valuation valuation = symbols_at(sizes);
    for (const auto& [name, symbol] : symbols_) {
      if (env_->simplify(symbol).evaluate(valuation) != sizes.at(name)) return false;
      if (!env_->bounds(symbol).contains(sizes.at(name))) return false;
    }
    return std::all_of(env_->guards().begin(), env_->guards().end(),
                       [&](const Guard& guard) { return guard.condition.evaluate(valuation); });
  }

  void compare_with_real(const Sizes& sizes) const {
    RealBuilder builder(sizes);
    torch::jit::Stack real = builder.stack(op_.schema(), case_.args);
    try {
      op_.callBoxed(real);
    } catch (const c10::Error& error) {
      ADD_FAILURE() << "the real op: " << error.what_without_backtrace();
      return;
    }
    const std::vector<c10::IValue> expected = flatten(real);
    const std::vector<c10::IValue> inferred = flatten(fake_);
    ASSERT_EQ(inferred.size(), expected.size()) << "number of results";
    unbacked_.clear();
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(fmt::format("result {}", i));
      compare(inferred[i], expected[i], sizes);
      compare_sharing(inferred, fake_arguments_, expected, builder.tensors(), i, sizes);
    }
  }

 private:
  Valuation symbols_at(const Sizes& sizes) const {
    return [this, &sizes](Symbol symbol) {
      const auto unbacked = unbacked_.find(symbol.name());
      return unbacked != unbacked_.end() ? unbacked->second : sizes.at(names_.at(symbol.name()));
    };
  }

  // A size that depends on the data takes its value from the first result that has it, and must allow it.
  void bind_unbacked(const Expr& expr, int64_t value) const {
    const auto symbol = expr.as_symbol();
    if (!symbol || names_.contains(symbol->name()) || unbacked_.contains(symbol->name())) return;
    EXPECT_TRUE(env_->bounds(expr).contains(value)) << value << " in " << env_->bounds(expr).str();
    unbacked_[symbol->name()] = value;
  }

  bool has_ones(const Sizes& sizes) const {
    return std::any_of(sizes.begin(), sizes.end(), [](const auto& size) { return size.second == 1; });
  }
  bool compares_views(const Sizes& sizes) const { return !case_.compare_views_without_ones || !has_ones(sizes); }

  void compare(const c10::IValue& inferred, const c10::IValue& expected, const Sizes& sizes) const {
    if (!expected.isTensor()) {
      compare_numbers(inferred, expected, sizes);
      return;
    }
    ASSERT_TRUE(inferred.isTensor()) << "inferred " << inferred.tagKind();
    const at::Tensor& real = expected.toTensor();
    ASSERT_EQ(inferred.toTensor().defined(), real.defined());
    if (!real.defined()) return;
    ASSERT_TRUE(is_fake(inferred.toTensor()));
    compare_metadata(meta_of(inferred.toTensor()), real, sizes);
    EXPECT_EQ(inferred.toTensor().unsafeGetTensorImpl()->is_wrapped_number(),
              real.unsafeGetTensorImpl()->is_wrapped_number());
  }

  void compare_metadata(const TensorMeta& meta, const at::Tensor& real, const Sizes& sizes) const {
    ASSERT_EQ(meta.dim(), real.dim());
    for (int64_t d = 0; d < real.dim(); ++d) {
      bind_unbacked(meta.sizes[static_cast<size_t>(d)], real.size(d));
    }
    const Valuation valuation = symbols_at(sizes);
    EXPECT_EQ(c10::toString(meta.dtype), std::string(c10::toString(real.scalar_type())));
    EXPECT_EQ(meta.device.str(), real.device().str());
    ASSERT_EQ(evaluate(meta.sizes, valuation), real.sizes().vec()) << describe(meta);
    if (!compares_views(sizes)) return;
    const std::vector<int64_t> strides = evaluate(meta.strides, valuation);
    for (size_t d = 0; d < strides.size() && real.numel() > 0; ++d) {
      if (real.size(static_cast<int64_t>(d)) > 1) {
        EXPECT_EQ(strides[d], real.stride(static_cast<int64_t>(d)))
            << "stride " << d << " of " << describe(meta) << ", really " << real.strides();
      }
    }
    EXPECT_EQ(meta.storage_offset.evaluate(valuation), real.storage_offset()) << describe(meta);
  }

  void compare_numbers(const c10::IValue& inferred, const c10::IValue& expected, const Sizes& sizes) const {
    if (expected.isInt() && inferred.isSymInt()) {
      bind_unbacked(to_expr(inferred.toSymInt()), expected.toInt());
      EXPECT_EQ(to_expr(inferred.toSymInt()).evaluate(symbols_at(sizes)), expected.toInt());
    } else if (expected.isBool() && inferred.isSymBool()) {
      EXPECT_EQ(to_bool_expr(inferred.toSymBool()).evaluate(symbols_at(sizes)), expected.toBool());
    } else {
      EXPECT_EQ(inferred, expected);
    }
  }

  void compare_sharing(const std::vector<c10::IValue>& inferred, const std::vector<at::Tensor>& fake_arguments,
                       const std::vector<c10::IValue>& expected, const std::vector<at::Tensor>& real_arguments,
                       size_t i, const Sizes& sizes) const {
    if (!expected[i].isTensor() || !expected[i].toTensor().defined() || !compares_views(sizes)) return;
    const at::Tensor& fake = inferred[i].toTensor();
    const at::Tensor& real = expected[i].toTensor();
    for (size_t a = 0; a < real_arguments.size(); ++a) {
      EXPECT_EQ(fake.is_same(fake_arguments[a]), real.is_same(real_arguments[a])) << "is tensor argument " << a;
      EXPECT_EQ(shares(fake, fake_arguments[a]), shares(real, real_arguments[a])) << "views tensor argument " << a;
    }
    for (size_t other = 0; other < i; ++other) {
      if (!expected[other].isTensor()) continue;
      EXPECT_EQ(shares(fake, inferred[other].toTensor()), shares(real, expected[other].toTensor()))
          << "shares with result " << other;
    }
  }

  std::vector<int64_t> evaluate(const std::vector<Expr>& exprs, const Valuation& valuation) const {
    std::vector<int64_t> values;
    for (const Expr& expr : exprs) values.push_back(expr.evaluate(valuation));
    return values;
  }

  std::string describe(const TensorMeta& meta) const {
    std::string text = "inferred sizes [";
    for (const Expr& size : meta.sizes) text += size.str() + " ";
    text += "], strides [";
    for (const Expr& stride : meta.strides) text += stride.str() + " ";
    return text + "]";
  }

  const Case& case_;
  const c10::OperatorHandle& op_;
  std::shared_ptr<ShapeEnv> env_;
  std::map<std::string, Expr> symbols_;       // name in the case → symbol
  std::map<std::string, std::string> names_;  // symbol → name in the case
  std::map<std::string, Range> first_ranges_;
  mutable Sizes unbacked_;  // symbol → value in the run under way
  torch::jit::Stack fake_;
  std::vector<at::Tensor> fake_arguments_;
};

void check_with_sample(const Case& value, const c10::OperatorHandle& op, const std::vector<std::string>& names,
                       const Sizes& samples) {
  SCOPED_TRACE("sampled at " + str(samples));
  Run run(value, op, names, samples);
  try {
    run.infer_fake();
  } catch (const Error& error) {
    if (!value.refusal) {
      ADD_FAILURE() << "inference: " << error.what();
    } else {
      EXPECT_NE(std::string(error.what()).find(*value.refusal), std::string::npos) << error.what();
    }
    return;
  }
  ASSERT_FALSE(value.refusal) << "inference did not refuse";
  run.check_guards();
  bool ran = false;
  for (const Sizes& sizes : run_sizes_of(value, names)) {
    if (!run.allows(sizes)) continue;
    ran = true;
    SCOPED_TRACE("run at " + str(sizes));
    run.compare_with_real(sizes);
    if (testing::Test::HasFailure()) return;  // one size is enough to see it
  }
  EXPECT_TRUE(ran) << "no concrete sizes fit the guards";
}

void check_one(const Case& value) {
  SCOPED_TRACE(value.str());
  const auto separator = value.op.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {value.op.substr(0, separator), separator == std::string::npos ? "" : value.op.substr(separator + 1)});
  ASSERT_TRUE(op) << "no op " << value.op;
  const std::vector<std::string> names = names_of(value, op->schema());
  for (const Sizes& samples : samples_of(value, names)) {
    check_with_sample(value, *op, names, samples);
    if (testing::Test::HasFailure()) return;
  }
}

// ── Sweeps ──

using Layout = TensorArg::Layout;

std::vector<Layout> layouts_of_rank(int64_t rank) {
  std::vector<Layout> layouts;
  if (rank >= 1) {
    layouts.push_back({Layout::Kind::kExpanded, 0});
    layouts.push_back({Layout::Kind::kSliced, rank - 1});
  }
  if (rank >= 2) {
    layouts.push_back({Layout::Kind::kTransposed, rank - 2, rank - 1});
  }
  if (rank >= 3) {
    layouts.push_back({Layout::Kind::kTransposed, 0, rank - 2});
  }
  if (rank == 4 || rank == 5) {
    layouts.push_back({Layout::Kind::kChannelsLast});
  }
  return layouts;
}

void for_each_tensor(Arg& arg, const std::function<void(TensorArg&)>& visit) {
  if (auto* tensor = std::get_if<TensorArg>(&arg.data)) {
    visit(*tensor);
  } else if (auto* items = std::get_if<Arg::List>(&arg.data)) {
    for (Arg& item : *items) for_each_tensor(item, visit);
  }
}

// Each tensor in each layout, the others as they are; then all that can in the same one.
std::vector<Case> with_layouts(const Case& value) {
  std::vector<Case> cases;
  size_t tensors = 0;
  int64_t highest_rank = 0;
  Case copy = value;
  for (Arg& arg : copy.args) {
    for_each_tensor(arg, [&](TensorArg& tensor) {
      ++tensors;
      highest_rank = std::max(highest_rank, static_cast<int64_t>(tensor.sizes().size()));
    });
  }
  for (const Layout& layout : layouts_of_rank(highest_rank)) {
    for (size_t changed = 0; changed <= tensors && (tensors > 1 || changed < tensors); ++changed) {
      Case variant = value;
      size_t index = 0;
      for (Arg& arg : variant.args) {
        for_each_tensor(arg, [&](TensorArg& tensor) {
          const auto rank = static_cast<int64_t>(tensor.sizes().size());
          if ((changed == tensors || changed == index) && rank == highest_rank) tensor = tensor.with_layout(layout);
          ++index;
        });
      }
      cases.push_back(std::move(variant));
    }
  }
  return cases;
}

std::vector<Case> with_dtypes(const Case& value) {
  std::vector<Case> cases;
  for (const c10::ScalarType dtype : value.sweep_dtypes) {
    Case variant = value;
    for (Arg& arg : variant.args) {
      for_each_tensor(arg, [&](TensorArg& tensor) {
        if (c10::isFloatingType(tensor.scalar_type())) tensor = tensor.dtype(dtype);
      });
    }
    cases.push_back(std::move(variant));
  }
  return cases;
}

std::string str(const Arg& arg) {
  const std::string prefix = arg.name.empty() ? "" : arg.name + "=";
  if (const auto* value = std::get_if<TensorArg>(&arg.data)) return prefix + value->str();
  if (const auto* value = std::get_if<int64_t>(&arg.data)) return prefix + std::to_string(*value);
  if (const auto* value = std::get_if<double>(&arg.data)) return prefix + std::to_string(*value);
  if (const auto* value = std::get_if<bool>(&arg.data)) return prefix + (*value ? "true" : "false");
  if (const auto* value = std::get_if<std::string>(&arg.data)) return prefix + *value;
  if (const auto* value = std::get_if<c10::ScalarType>(&arg.data)) return prefix + c10::toString(*value);
  if (const auto* items = std::get_if<Arg::List>(&arg.data)) {
    std::string text;
    for (const Arg& item : *items) text += (text.empty() ? "" : ", ") + str(item);
    return prefix + "[" + text + "]";
  }
  return prefix + "none";
}

}  // namespace

// ── Tensor arguments ──

TensorArg::TensorArg(const std::string& sizes) {
  std::istringstream stream(sizes);
  for (std::string size; stream >> size;) {
    sizes_.push_back(Expr::parse(size));
  }
}

TensorArg TensorArg::dtype(c10::ScalarType dtype) const {
  TensorArg copy = *this;
  copy.dtype_ = dtype;
  return copy;
}

TensorArg TensorArg::values(const std::string& low, const std::string& high) const {
  TensorArg copy = *this;
  copy.low_ = Expr::parse(low);
  copy.high_ = Expr::parse(high);
  return copy;
}

TensorArg TensorArg::with_layout(Layout layout) const {
  TensorArg copy = *this;
  copy.layout_ = layout;
  return copy;
}

TensorArg TensorArg::transposed(int64_t a, int64_t b) const { return with_layout({Layout::Kind::kTransposed, a, b}); }
TensorArg TensorArg::expanded(int64_t axis) const { return with_layout({Layout::Kind::kExpanded, axis}); }
TensorArg TensorArg::sliced(int64_t axis) const { return with_layout({Layout::Kind::kSliced, axis}); }
TensorArg TensorArg::channels_last() const { return with_layout({Layout::Kind::kChannelsLast}); }

TensorArg TensorArg::wrapped_number() const {
  TensorArg copy = *this;
  copy.wrapped_number_ = true;
  return copy;
}

std::vector<Expr> TensorArg::strides() const {
  std::vector<Expr> memory = sizes_;
  const auto a = static_cast<size_t>(layout_.a);
  const auto b = static_cast<size_t>(layout_.b);
  switch (layout_.kind) {
    case Layout::Kind::kContiguous:
      return contiguous_strides(memory);
    case Layout::Kind::kChannelsLast:
      return strides_of_format(
          memory, memory.size() == 5 ? c10::MemoryFormat::ChannelsLast3d : c10::MemoryFormat::ChannelsLast);
    case Layout::Kind::kTransposed: {
      std::swap(memory[a], memory[b]);
      std::vector<Expr> strides = contiguous_strides(memory);
      std::swap(strides[a], strides[b]);
      return strides;
    }
    case Layout::Kind::kExpanded: {
      memory[a] = 1;
      std::vector<Expr> strides = contiguous_strides(memory);
      strides[a] = 0;
      return strides;
    }
    case Layout::Kind::kSliced:
      memory[a] = memory[a] + 2;
      return contiguous_strides(memory);
  }
  return {};
}

Expr TensorArg::storage_offset() const {
  return layout_.kind == Layout::Kind::kSliced ? strides()[static_cast<size_t>(layout_.a)] : Expr(0);
}

std::string TensorArg::str() const {
  static constexpr const char* kNames[] = {"", " transposed", " expanded", " sliced", " channels-last"};
  std::string text = c10::toString(dtype_);
  for (const Expr& size : sizes_) text += " " + size.str();
  text += kNames[static_cast<size_t>(layout_.kind)];
  if (layout_.kind == Layout::Kind::kTransposed) text += fmt::format("({}, {})", layout_.a, layout_.b);
  return "<" + text + ">";
}

// ── Cases ──

Case Case::all_layouts() const {
  Case copy = *this;
  copy.sweep_layouts = true;
  return copy;
}

Case Case::dtypes(std::vector<c10::ScalarType> dtypes) const {
  Case copy = *this;
  copy.sweep_dtypes = std::move(dtypes);
  return copy;
}

Case Case::at_least(const std::string& name, int64_t value) const {
  Case copy = *this;
  copy.least[name] = value;
  return copy;
}

Case Case::sample(const std::string& name, int64_t value) const {
  Case copy = *this;
  copy.samples[name] = value;
  return copy;
}

Case Case::guards(std::vector<std::string> conditions) const {
  Case copy = *this;
  copy.expected_guards = std::move(conditions);
  return copy;
}

Case Case::binds(std::vector<std::string> names) const {
  Case copy = *this;
  copy.bound = std::move(names);
  return copy;
}

Case Case::view_depends_on_ones() const {
  Case copy = *this;
  copy.compare_views_without_ones = true;
  return copy;
}

Case Case::refused(std::string text) const {
  Case copy = *this;
  copy.refusal = std::move(text);
  return copy;
}

std::string Case::str() const {
  std::string text;
  for (const Arg& arg : args) text += (text.empty() ? "" : ", ") + oracle::str(arg);
  return op + "(" + text + ")";
}

void PrintTo(const Case& value, std::ostream* out) { *out << value.str(); }

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.op;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name + "_" + std::to_string(info.index);
}

void check(const Case& value) {
  at::set_num_threads(1);  // tiny tensors: threads would only wait for one another
  std::vector<Case> cases{value};
  for (Case& variant : with_dtypes(value)) cases.push_back(std::move(variant));
  if (value.sweep_layouts) {
    for (Case& variant : with_layouts(value)) cases.push_back(std::move(variant));
  }
  for (const Case& variant : cases) {
    check_one(variant);
    if (testing::Test::HasFailure()) return;
  }
}

// When an op is inferred on symbols, then every real run of it agrees.
TEST_P(ShapeOracle, agrees_with_the_real_op) { check(GetParam()); }

}  // namespace exporters::oracle
