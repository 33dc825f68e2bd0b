#include "exporters/pt2/guards.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>

namespace exporters::pt2 {
namespace {

/// One step of a path into the arguments: ['input_ids'], [0], .keys
struct Step {
  std::string key;
  std::optional<size_t> index;
};

/// Finds leaves by their path, as torch.utils._pytree.keystr spells it.
class LeafFinder {
 public:
  LeafFinder(const TreeSpec& in_spec, const std::vector<std::string>& argument_names) : count_(in_spec.leaf_count()) {
    const bool is_call = in_spec.children.size() == 2 && in_spec.children[1].type == "builtins.dict";
    if (!is_call) {
      return;
    }
    size_t first_leaf = 0;
    const std::vector<TreeSpec>& positional = in_spec.children[0].children;
    for (size_t i = 0; i < positional.size(); ++i) {
      if (i < argument_names.size()) {
        arguments_.emplace(argument_names[i], Argument{&positional[i], first_leaf});
      }
      first_leaf += positional[i].leaf_count();
    }
    const std::vector<std::string> keys = in_spec.children[1].keys();
    const std::vector<TreeSpec>& named = in_spec.children[1].children;
    for (size_t i = 0; i < named.size() && i < keys.size(); ++i) {
      arguments_.emplace(keys[i], Argument{&named[i], first_leaf});
      first_leaf += named[i].leaf_count();
    }
  }

  /// Nothing when the path leads to no leaf.
  std::optional<size_t> find(const std::vector<Step>& path) const {
    if (path.size() == 2 && path[0].key == "flat_args" && path[1].index) {
      return *path[1].index < count_ ? path[1].index : std::nullopt;
    }
    if (const auto found = arguments_.find(path[0].key); found != arguments_.end()) {
      return descend(found->second, path, 1);
    }
    if (path.size() < 2) {
      return std::nullopt;
    }
    // *args and **kwargs of the forward: L['args'][0] is the argument 'args_0', L['kwargs']['x'] is 'x'.
    const std::string spread = path[1].index ? fmt::format("{}_{}", path[0].key, *path[1].index) : path[1].key;
    const auto found = arguments_.find(spread);
    return found == arguments_.end() ? std::nullopt : descend(found->second, path, 2);
  }

 private:
  struct Argument {
    const TreeSpec* spec;
    size_t first_leaf;
  };

  static std::optional<size_t> descend(Argument at, const std::vector<Step>& path, size_t depth) {
    for (; depth < path.size(); ++depth) {
      const std::optional<size_t> child = child_of(*at.spec, path[depth]);
      if (!child) {
        return std::nullopt;
      }
      for (size_t i = 0; i < *child; ++i) {
        at.first_leaf += at.spec->children[i].leaf_count();
      }
      at.spec = &at.spec->children[*child];
    }
    return at.spec->is_leaf() ? std::optional(at.first_leaf) : std::nullopt;
  }

  // Caches count their tensors, whatever these are called; dicts, ModelOutputs and named tuples have names.
  static std::optional<size_t> child_of(const TreeSpec& spec, const Step& step) {
    const std::vector<std::string> names = spec.child_names();
    const auto named = std::find(names.begin(), names.end(), step.key);
    if (named != names.end()) {
      return static_cast<size_t>(named - names.begin());
    }
    return step.index && *step.index < spec.children.size() ? step.index : std::nullopt;
  }

  size_t count_ = 0;
  std::unordered_map<std::string, Argument> arguments_;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Replaces what a condition says of the arguments ("L['x'].size()[0]") by symbols of its own, so that the rest is an
/// expression that BoolExpr::parse reads.
class GuardReader {
 public:
  GuardReader(const ExportedProgram& program, const LeafFinder& leaves) : leaves_(leaves) {
    const std::vector<Value*> placeholders = program.graph->placeholders();
    for (size_t i = 0; i < placeholders.size(); ++i) {
      const InputSpec::Kind kind = program.signature.inputs[i].kind;
      if (kind == InputSpec::Kind::kUserInput || kind == InputSpec::Kind::kConstantInput) {
        inputs_.push_back({placeholders[i], kind == InputSpec::Kind::kConstantInput});
      }
    }
  }

  /// Nothing for a condition on constants alone.
  std::optional<BoolExpr> read(const std::string& text) {
    text_ = text;
    at_ = 0;
    sources_.clear();
    known_.clear();
    has_size_ = false;
    has_constant_ = false;
    std::string rewritten;
    while (at_ < text_.size()) {
      const bool begins_word = rewritten.empty() || !is_word(rewritten.back());
      if (begins_word && text_.substr(at_).starts_with("L[")) {
        at_ += 1;
        rewritten += source();
      } else {
        rewritten += text_[at_++];
      }
    }
    if (has_constant_ && !has_size_) {
      return std::nullopt;
    }
    return BoolExpr::parse(rewritten).substitute([&](Symbol symbol) -> std::optional<Expr> {
      const auto found = sources_.find(symbol.name());
      return found == sources_.end() ? std::nullopt : std::optional(found->second);
    });
  }

 private:
  struct Input {
    const Value* placeholder;
    bool is_constant;
  };

  // "['cache'][0].size()[2]", behind the L; gives the symbol that stands for it.
  std::string source() {
    const size_t begin = at_;
    std::vector<Step> path;
    while (std::optional<Step> step = next_step()) {
      path.push_back(std::move(*step));
    }
    const std::string_view path_text = text_.substr(begin, at_ - begin);
    const std::optional<size_t> leaf = leaves_.find(path);
    ensure(leaf && *leaf < inputs_.size(), "L{} is no argument of the program", printable(path_text));
    const Input& input = inputs_[*leaf];
    const Expr value = input.is_constant ? Expr(0) : read_value(*input.placeholder);
    (input.is_constant ? has_constant_ : has_size_) = true;
    const std::string_view whole = text_.substr(begin, at_ - begin);
    const auto known = known_.emplace(whole, fmt::format("guard_source_{}", known_.size())).first;
    sources_.emplace(known->second, value);
    return known->second;
  }

  std::optional<Step> next_step() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with('[')) {
      return subscript();
    }
    // A method ends the path.
    size_t end = 1;
    while (end < rest.size() && is_word(rest[end])) {
      ++end;
    }
    if (!rest.starts_with('.') || end == 1 || (end < rest.size() && rest[end] == '(')) {
      return std::nullopt;
    }
    at_ += end;
    return Step{std::string(rest.substr(1, end - 1)), std::nullopt};
  }

  Step subscript() {
    const std::string_view rest = text_.substr(at_ + 1);
    const char quote_mark = rest.empty() ? ' ' : rest.front();
    if (quote_mark == '\'' || quote_mark == '"') {
      const size_t end = rest.find(quote_mark, 1);
      ensure(end != std::string_view::npos && end + 1 < rest.size() && rest[end + 1] == ']',
             "a name in brackets does not end");
      at_ += end + 3;
      return {std::string(rest.substr(1, end - 1)), std::nullopt};
    }
    const size_t index = number_in_brackets();
    return {std::to_string(index), index};
  }

  // "[12]"
  size_t number_in_brackets() {
    const std::string_view rest = text_.substr(at_);
    size_t number = 0;
    const char* end = rest.data() + rest.size();
    const auto parsed = std::from_chars(rest.data() + std::min<size_t>(1, rest.size()), end, number);
    ensure(rest.starts_with('[') && parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == ']',
           "a number in brackets is expected");
    at_ += static_cast<size_t>(parsed.ptr - rest.data()) + 1;
    return number;
  }

  Expr read_value(const Value& placeholder) {
    constexpr std::string_view kSize = ".size()";
    if (placeholder.kind() == Value::Kind::kSymInt) {
      return placeholder.sym();
    }
    ensure(placeholder.is_tensor() && text_.substr(at_).starts_with(kSize),
           "it is about something else than a tensor's size");
    at_ += kSize.size();
    const size_t axis = number_in_brackets();
    ensure(axis < placeholder.meta().sizes.size(), "'{}' has no axis {}", placeholder.name(), axis);
    return placeholder.meta().sizes[axis];
  }

  const LeafFinder& leaves_;
  std::vector<Input> inputs_;
  std::string_view text_;
  size_t at_ = 0;
  bool has_size_ = false;
  bool has_constant_ = false;
  std::unordered_map<std::string, Expr> sources_;       ///< by symbol
  std::unordered_map<std::string, std::string> known_;  ///< text → symbol
};

// "s0 >= 2", "s0 <= 512": what a range says too.
std::optional<std::pair<Symbol, Range>> as_bound(const BoolExpr& condition) {
  const std::vector<Symbol> symbols = condition.free_symbols();
  if (condition.kind() != BoolExpr::Kind::kLe || symbols.size() != 1) {
    return std::nullopt;
  }
  const Expr symbol(symbols[0]);
  if (const auto limit = (symbol - condition.operand()).as_int()) {
    return std::pair(symbols[0], Range{Range::kMin, *limit});
  }
  if (const auto limit = (symbol + condition.operand()).as_int()) {
    return std::pair(symbols[0], Range{*limit, Range::kMax});
  }
  return std::nullopt;
}

// Bounds narrow the ranges of their symbols; of other conditions those stay that the ranges leave open.
void add_facts(const std::vector<BoolExpr>& conditions, ExportedProgram& program) {
  for (const BoolExpr& condition : conditions) {
    const auto bound = as_bound(condition);
    const auto found = bound ? program.range_constraints.find(bound->first.name()) : program.range_constraints.end();
    if (found != program.range_constraints.end()) {
      Range& range = found->second;
      range = {std::max(range.min, bound->second.min), std::min(range.max, bound->second.max)};
      ensure(range.min <= range.max, "The program relies on conditions on {} that never hold together", found->first);
    }
  }
  ShapeEnv ranges;
  for (const auto& [symbol, range] : program.range_constraints) {
    ranges.declare(Symbol(symbol), range);
  }
  for (const BoolExpr& condition : conditions) {
    if (!ranges.is_true(condition)) {
      program.guards.push_back({condition, {}});
    }
  }
}

}  // namespace

void read_guards(const Json& guards_code, const std::vector<std::string>& argument_names, ExportedProgram& program) {
  const LeafFinder leaves(program.in_spec, argument_names);
  GuardReader reader(program, leaves);
  std::vector<BoolExpr> conditions;
  for (const Json& json : as_array(guards_code)) {
    const std::string& text = as_text(json);
    std::optional<BoolExpr> condition;
    try {
      condition = reader.read(text);
    } catch (const Error& error) {
      throw Error(fmt::format("The program relies on the condition {}, which cannot be checked: {}", quote(text, 300),
                              error.message()));
    }
    if (condition && condition->as_bool() != true) {
      ensure(condition->as_bool() != false, "The program relies on the condition {}, which never holds",
             quote(text, 300));
      conditions.push_back(*condition);
    }
  }
  add_facts(conditions, program);
}

}  // namespace exporters::pt2
