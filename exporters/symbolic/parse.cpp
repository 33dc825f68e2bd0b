// Reads expressions in the notations of torch.export: what sympy's str() and srepr() print, and Python code as in
// guards.
#include "exporters/symbolic/expr_node.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

namespace exporters {
namespace {

constexpr size_t kMaxText = 64 * 1024;
constexpr int kMaxNesting = 256;

// What a sub-expression means. A fraction stands for the float double(numerator) * scale / denominator, which may only
// appear below a rounding function.
struct Value {
  enum class Kind { kInt, kBool, kFraction };
  Kind kind = Kind::kInt;
  Expr integer;  // the numerator of a fraction
  Expr denominator = 1;
  double scale = 1.0;
  BoolExpr condition;

  static Value of(Expr e) {
    Value v;
    v.integer = std::move(e);
    return v;
  }
  static Value of(BoolExpr e) {
    Value v;
    v.kind = Kind::kBool;
    v.condition = std::move(e);
    return v;
  }
  static Value fraction(Expr numerator, Expr denominator, double scale = 1.0) {
    Value v;
    v.kind = Kind::kFraction;
    v.integer = std::move(numerator);
    v.denominator = std::move(denominator);
    v.scale = scale;
    return v;
  }
};

// Why a value cannot be; the parser adds the position.
struct Refusal {
  std::string reason;
};

const Expr& integer(const Value& v) {
  if (v.kind != Value::Kind::kInt) {
    throw Refusal{"an integer is needed here"};
  }
  return v.integer;
}

const BoolExpr& condition(const Value& v) {
  if (v.kind != Value::Kind::kBool) {
    throw Refusal{"a condition is needed here"};
  }
  return v.condition;
}

void need_number(const Value& v) {
  if (v.kind == Value::Kind::kBool) {
    throw Refusal{"a number is needed here"};
  }
}

bool is_number(const Value& v, int64_t n) { return v.kind == Value::Kind::kInt && v.integer == Expr(n); }

Value add(const Value& a, const Value& b) {
  need_number(a);
  need_number(b);
  if (a.kind == Value::Kind::kInt && b.kind == Value::Kind::kInt) {
    return Value::of(a.integer + b.integer);
  }
  if (a.scale != 1.0 || b.scale != 1.0) {
    throw Refusal{"sums of floats are not supported"};
  }
  return Value::fraction(a.integer * b.denominator + b.integer * a.denominator, a.denominator * b.denominator);
}

Value multiply(const Value& a, const Value& b) {
  need_number(a);
  need_number(b);
  if (a.kind == Value::Kind::kInt && b.kind == Value::Kind::kInt) {
    return Value::of(a.integer * b.integer);
  }
  return Value::fraction(a.integer * b.integer, a.denominator * b.denominator, a.scale * b.scale);
}

Value divide(const Value& a, const Value& b) {
  need_number(a);
  need_number(b);
  if (is_number(b, 0)) {
    throw Refusal{"division by zero"};
  }
  if (b.kind == Value::Kind::kFraction && b.integer.is_int() && b.denominator == Expr(1)) {
    // A float constant: dividing by it is exact as a factor only for powers of two.
    const double divisor = static_cast<double>(*b.integer.as_int()) * b.scale;
    int exponent = 0;
    if (divisor != 0 && std::abs(std::frexp(divisor, &exponent)) == 0.5) {
      return Value::fraction(a.integer, a.denominator, a.scale / divisor);
    }
  }
  if (b.kind != Value::Kind::kInt) {
    throw Refusal{"division by this float is not supported"};
  }
  return Value::fraction(a.integer, a.denominator * b.integer, a.scale);
}

Value negate(const Value& v) { return multiply(Value::of(Expr(-1)), v); }

Value power(const Value& base, const Value& exponent) {
  const std::optional<int64_t> n = integer(exponent).as_int();
  if (!n || *n == std::numeric_limits<int64_t>::min()) {
    throw Refusal{"only constant exponents are supported"};
  }
  const Value result = Value::of(pow(integer(base), std::abs(*n)));
  return *n < 0 ? divide(Value::of(Expr(1)), result) : result;
}

Expr power_of_two(const Expr& exponent) {
  const std::optional<int64_t> n = exponent.as_int();
  if (!n || *n < 0 || *n > 62) {
    throw Refusal{"only constant shifts are supported"};
  }
  return int64_t{1} << *n;
}

Expr shift_left(const Expr& a, const Expr& bits) { return a * power_of_two(bits); }
Expr shift_right(const Expr& a, const Expr& bits) { return floordiv(a, power_of_two(bits)); }

// trunc(double(n) * scale / d) in whole numbers.
Expr truncate(const Value& v) {
  if (v.kind == Value::Kind::kInt || v.denominator == Expr(1)) {
    return v.scale == 1.0 ? v.integer : trunc_to_int(v.integer, v.scale);
  }
  const auto d = v.denominator.as_int();
  if (v.scale != 1.0 || !d) {
    throw Refusal{"rounding of this float is not supported"};
  }
  const Expr n = *d < 0 ? -v.integer : v.integer;
  const Expr divisor = std::abs(*d);
  if (visibly_nonnegative(n)) {
    return floordiv(n, divisor);
  }
  return max(floordiv(n, divisor), 0) + min(ceildiv(n, divisor), 0);
}

Expr floor(const Value& v) {
  if (v.kind == Value::Kind::kInt || v.scale == 1.0) {
    return floordiv(v.integer, v.denominator);
  }
  if (v.denominator == Expr(1) && v.scale > 0 && visibly_nonnegative(v.integer)) {
    return trunc_to_int(v.integer, v.scale);
  }
  throw Refusal{"floor of this float is not supported"};
}

Expr ceil(const Value& v) {
  if (v.kind == Value::Kind::kInt || v.scale == 1.0) {
    return ceildiv(v.integer, v.denominator);
  }
  throw Refusal{"ceiling of this float is not supported"};
}

using Values = std::vector<Value>;
using Function = Value (*)(const Values&);

struct FunctionEntry {
  size_t min_arguments;
  size_t max_arguments;
  Function call;
};

template <Value (*Combine)(const Value&, const Value&)>
Value fold(const Values& v) {
  Value result = v[0];
  for (size_t i = 1; i < v.size(); ++i) {
    result = Combine(result, v[i]);
  }
  return result;
}

template <Expr (*Combine)(const Expr&, const Expr&)>
Value integer_pair(const Values& v) {
  return Value::of(Combine(integer(v[0]), integer(v[1])));
}

template <BoolExpr (*Compare)(const Expr&, const Expr&)>
Value comparison(const Values& v) {
  return Value::of(Compare(integer(v[0]), integer(v[1])));
}

template <Expr::AtomKind kind>
Value extremum(const Values& v) {
  std::vector<Expr> operands;
  for (const Value& value : v) {
    operands.push_back(integer(value));
  }
  return Value::of(min_max(kind, std::move(operands)));
}

Value conjunction(const Value& a, const Value& b) { return Value::of(condition(a) && condition(b)); }
Value disjunction(const Value& a, const Value& b) { return Value::of(condition(a) || condition(b)); }
Value same(const Values& v) { return v[0]; }

constexpr size_t kMany = kMaxTerms;

const std::map<std::string_view, FunctionEntry>& functions() {
  static const std::map<std::string_view, FunctionEntry> table = {
      {"Add", {1, kMany, fold<add>}},
      {"Mul", {1, kMany, fold<multiply>}},
      {"Pow", {2, 2, fold<power>}},
      {"PowByNatural", {2, 2, fold<power>}},
      {"Integer", {1, 1, [](const Values& v) { return Value::of(integer(v[0])); }}},
      {"Rational", {2, 2, fold<divide>}},
      {"Identity", {1, 1, same}},
      {"FloorDiv", {2, 2, integer_pair<floordiv>}},
      {"CleanDiv", {2, 2, integer_pair<floordiv>}},
      {"CeilDiv", {2, 2, integer_pair<ceildiv>}},
      {"Mod", {2, 2, integer_pair<mod>}},
      {"PythonMod", {2, 2, integer_pair<mod>}},
      {"ModularIndexing",
       {3, 3, [](const Values& v) { return Value::of(mod(floordiv(integer(v[0]), integer(v[1])), integer(v[2]))); }}},
      {"Min", {1, kMany, extremum<Expr::AtomKind::kMin>}},
      {"Max", {1, kMany, extremum<Expr::AtomKind::kMax>}},
      {"min", {1, kMany, extremum<Expr::AtomKind::kMin>}},
      {"max", {1, kMany, extremum<Expr::AtomKind::kMax>}},
      {"Abs", {1, 1, [](const Values& v) { return Value::of(max(integer(v[0]), -integer(v[0]))); }}},
      {"abs", {1, 1, [](const Values& v) { return Value::of(max(integer(v[0]), -integer(v[0]))); }}},
      {"LShift", {2, 2, integer_pair<shift_left>}},
      {"RShift", {2, 2, integer_pair<shift_right>}},
      {"ToFloat", {1, 1, [](const Values& v) { return Value::fraction(integer(v[0]), 1); }}},
      {"sym_float", {1, 1, [](const Values& v) { return Value::fraction(integer(v[0]), 1); }}},
      {"float", {1, 1, [](const Values& v) { return Value::fraction(integer(v[0]), 1); }}},
      {"IntTrueDiv", {2, 2, fold<divide>}},
      {"FloatTrueDiv", {2, 2, fold<divide>}},
      {"TruncToInt", {1, 1, [](const Values& v) { return need_number(v[0]), Value::of(truncate(v[0])); }}},
      {"FloorToInt", {1, 1, [](const Values& v) { return need_number(v[0]), Value::of(floor(v[0])); }}},
      {"floor", {1, 1, [](const Values& v) { return need_number(v[0]), Value::of(floor(v[0])); }}},
      {"trunc", {1, 1, [](const Values& v) { return need_number(v[0]), Value::of(truncate(v[0])); }}},
      {"CeilToInt", {1, 1, [](const Values& v) { return need_number(v[0]), Value::of(ceil(v[0])); }}},
      {"ceil", {1, 1, [](const Values& v) { return need_number(v[0]), Value::of(ceil(v[0])); }}},
      {"ceiling", {1, 1, [](const Values& v) { return need_number(v[0]), Value::of(ceil(v[0])); }}},
      {"Eq", {2, 2, comparison<eq>}},
      {"Equality", {2, 2, comparison<eq>}},
      {"Ne", {2, 2, comparison<ne>}},
      {"Unequality", {2, 2, comparison<ne>}},
      {"Le", {2, 2, comparison<le>}},
      {"LessThan", {2, 2, comparison<le>}},
      {"Lt", {2, 2, comparison<lt>}},
      {"StrictLessThan", {2, 2, comparison<lt>}},
      {"Ge", {2, 2, comparison<ge>}},
      {"GreaterThan", {2, 2, comparison<ge>}},
      {"Gt", {2, 2, comparison<gt>}},
      {"StrictGreaterThan", {2, 2, comparison<gt>}},
      {"And", {1, kMany, fold<conjunction>}},
      {"Or", {1, kMany, fold<disjunction>}},
      {"Not", {1, 1, [](const Values& v) { return Value::of(!condition(v[0])); }}},
  };
  return table;
}

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c)); }

bool is_identifier(std::string_view text) {
  if (text.empty() || text.size() > 128 || !is_name_start(text[0])) {
    return false;
  }
  for (char c : text) {
    if (!is_name_part(c)) {
      return false;
    }
  }
  return true;
}

// Text for a message: bounded, and without control characters.
std::string shown(std::string_view text) {
  std::string result(text.substr(0, 200));
  for (char& c : result) {
    c = static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  }
  return text.size() > 200 ? result + "…" : result;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Value run() {
    if (text_.size() > kMaxText) {
      refuse("it is longer than 64 KiB");
    }
    try {
      Value value = disjunctions();
      skip_space();
      if (at_ != text_.size()) {
        refuse("unexpected text");
      }
      return value;
    } catch (const Refusal& refusal) {
      refuse(refusal.reason);
    } catch (const Error& error) {
      refuse(error.message());
    }
  }

  // For the caller's own demand on the result.
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(fmt::format("cannot parse the symbolic expression '{}' at position {}: {}", shown(text_), at_, reason));
  }

 private:
  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxNesting) {
        throw Refusal{fmt::format("nesting is deeper than {}", kMaxNesting)};
      }
    }
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  bool looking_at(std::string_view token) {
    skip_space();
    return text_.substr(at_).starts_with(token);
  }

  bool accept(std::string_view token) {
    if (!looking_at(token)) {
      return false;
    }
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) {
      throw Refusal{fmt::format("expected '{}'", token)};
    }
  }

  bool accept_word(std::string_view word) {
    const size_t end = (skip_space(), at_ + word.size());
    return (end >= text_.size() || !is_name_part(text_[end])) && accept(word);
  }

  Value disjunctions() {
    Value value = conjunctions();
    while (accept("|") || accept_word("or")) {
      value = disjunction(value, conjunctions());
    }
    return value;
  }

  Value conjunctions() {
    Value value = negation();
    while (accept("&") || accept_word("and")) {
      value = conjunction(value, negation());
    }
    return value;
  }

  Value negation() {
    if (accept("~") || accept_word("not")) {
      Nested nested(*this);
      return Value::of(!condition(negation()));
    }
    return relation();
  }

  Value relation() {
    using Compare = BoolExpr (*)(const Expr&, const Expr&);
    static constexpr std::pair<std::string_view, Compare> kOperators[] = {{"<=", le}, {">=", ge}, {"==", eq},
                                                                          {"!=", ne}, {"<", lt},  {">", gt}};
    const auto accept_operator = [&] {
      return std::find_if(std::begin(kOperators), std::end(kOperators),
                          [&](const auto& entry) { return accept(entry.first); });
    };
    Value left = sum();
    auto entry = accept_operator();
    if (entry == std::end(kOperators)) {
      return left;
    }
    // As in Python, a <= b < c is a <= b and b < c.
    BoolExpr all(true);
    for (; entry != std::end(kOperators); entry = accept_operator()) {
      Value right = sum();
      all = all && entry->second(integer(left), integer(right));
      left = std::move(right);
    }
    return Value::of(all);
  }

  Value sum() {
    Value value = product();
    for (;;) {
      if (accept("+")) {
        value = add(value, product());
      } else if (accept("-")) {
        value = add(value, negate(product()));
      } else {
        return value;
      }
    }
  }

  Value product() {
    Value value = unary();
    for (;;) {
      if (accept("//")) {
        value = Value::of(floordiv(integer(value), integer(unary())));
      } else if (accept("/")) {
        value = divide(value, unary());
      } else if (accept("%")) {
        value = Value::of(mod(integer(value), integer(unary())));
      } else if (accept("*")) {
        value = multiply(value, unary());
      } else {
        return value;
      }
    }
  }

  Value unary() {
    if (accept("-")) {
      Nested nested(*this);
      return negate(unary());
    }
    Value base = primary();
    if (accept("**")) {
      Nested nested(*this);
      return power(base, unary());
    }
    return base;
  }

  Value primary() {
    Nested nested(*this);
    skip_space();
    if (accept("(")) {
      Value value = disjunctions();
      expect(")");
      return value;
    }
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.')) {
      return number();
    }
    std::string_view name = identifier();
    if ((name == "math" || name == "torch") && accept(".")) {
      name = identifier();
    }
    if (name == "True" || name == "true") {
      return Value::of(BoolExpr(true));
    }
    if (name == "False" || name == "false") {
      return Value::of(BoolExpr(false));
    }
    return accept("(") ? call(name) : Value::of(Expr(Symbol(name)));
  }

  std::string_view identifier() {
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() && is_name_part(text_[at_])) {
      ++at_;
    }
    const std::string_view name = text_.substr(start, at_ - start);
    if (!is_identifier(name)) {
      at_ = start;
      throw Refusal{start == text_.size() ? "unexpected end" : "expected a name, a number or '('"};
    }
    return name;
  }

  Value number() {
    const size_t start = at_;
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    int64_t whole = 0;
    const auto parsed = std::from_chars(begin, end, whole);
    const char* after = parsed.ptr;
    if (parsed.ec == std::errc() && (after == end || (*after != '.' && *after != 'e' && *after != 'E'))) {
      at_ = start + static_cast<size_t>(after - begin);
      return Value::of(Expr(whole));
    }
    double real = 0;
    const auto as_float = std::from_chars(begin, end, real);
    const std::string_view digits(begin, static_cast<size_t>(as_float.ptr - begin));
    if (as_float.ec != std::errc() || digits.find_first_of(".eE") == std::string_view::npos) {
      throw Refusal{"this number does not fit in 64 bits"};
    }
    at_ = start + digits.size();
    return Value::fraction(1, 1, real);
  }

  std::string_view quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') {
      throw Refusal{"expected a quoted text"};
    }
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      throw Refusal{"a quoted text does not end"};
    }
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }

  // ", positive=True, integer=True)": the assumptions follow from the name.
  void keywords() {
    while (accept(",")) {
      identifier();
      expect("=");
      skip_space();
      const size_t start = at_;
      while (at_ < text_.size() && is_name_part(text_[at_])) {
        ++at_;
      }
      if (at_ == start) {
        throw Refusal{"expected a value"};
      }
    }
    expect(")");
  }

  Value symbol() {
    const std::string_view name = quoted();
    if (!is_identifier(name)) {
      throw Refusal{"a symbol's name must be an identifier"};
    }
    keywords();
    return Value::of(Expr(Symbol(name)));
  }

  Value float_literal() {
    const std::string_view digits = looking_at("'") || looking_at("\"") ? quoted() : std::string_view();
    double real = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), real);
    if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() ||
        !std::isfinite(real)) {
      throw Refusal{"expected a finite float in quotes"};
    }
    keywords();
    return Value::fraction(1, 1, real);
  }

  Value call(std::string_view name) {
    if (name == "Symbol") {
      return symbol();
    }
    if (name == "Float") {
      return float_literal();
    }
    const auto found = functions().find(name);
    if (found == functions().end()) {
      throw Refusal{fmt::format("unknown function '{}'", name)};
    }
    Values arguments;
    if (!accept(")")) {
      do {
        arguments.push_back(disjunctions());
      } while (accept(",") && arguments.size() <= kMany);
      expect(")");
    }
    const FunctionEntry& entry = found->second;
    if (arguments.size() < entry.min_arguments || arguments.size() > entry.max_arguments) {
      throw Refusal{fmt::format("{} does not take {} arguments", name, arguments.size())};
    }
    return entry.call(arguments);
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr Expr::parse(std::string_view text) {
  Parser parser(text);
  const Value value = parser.run();
  if (value.kind != Value::Kind::kInt) {
    parser.refuse("it is not an integer expression");
  }
  return value.integer;
}

BoolExpr BoolExpr::parse(std::string_view text) {
  Parser parser(text);
  const Value value = parser.run();
  if (value.kind != Value::Kind::kBool) {
    parser.refuse("it is not a condition");
  }
  return value.condition;
}

}  // namespace exporters
