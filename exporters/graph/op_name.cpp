#include "exporters/graph/op_name.h"

#include "exporters/graph/graph.h"
#include "exporters/graph/node_check.h"
#include "exporters/support/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace exporters {
namespace {

constexpr std::string_view kSymNamespaces[] = {"_operator", "math", "torch"};

std::string_view namespace_of(std::string_view target) { return target.substr(0, target.find('.')); }

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// Other overloads of the op if there are any, else the names that are spelled most alike.
std::vector<std::string> near_targets(const c10::OperatorName& wanted) {
  constexpr size_t kShown = 4;
  constexpr size_t kLongestCompared = 100;
  const std::string name = wanted.name.substr(0, kLongestCompared);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const c10::OperatorName& known : c10::Dispatcher::singleton().getAllOpNames()) {
    const size_t distance = known.name == wanted.name ? 0 : edit_distance(name, known.name);
    if (distance <= 2 + name.size() / 4) {
      ranked.emplace_back(distance, target_from_op(known));
    }
  }
  std::sort(ranked.begin(), ranked.end());
  const bool overloads_only = !ranked.empty() && ranked.front().first == 0;
  std::vector<std::string> names;
  for (auto& [distance, target] : ranked) {
    if (overloads_only ? distance == 0 : names.size() < kShown) {
      names.push_back(std::move(target));
    }
  }
  return names;
}

// Operators of other namespaces may be unloaded with their library, so only ATen's handles are kept.
class OperatorCache {
 public:
  std::optional<c10::OperatorHandle> find(const std::string& target) const {
    std::shared_lock lock(mutex_);
    auto found = handles_.find(target);
    return found == handles_.end() ? std::nullopt : std::optional(found->second);
  }
  void insert(const std::string& target, const c10::OperatorHandle& handle) {
    std::unique_lock lock(mutex_);
    handles_.emplace(target, handle);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, c10::OperatorHandle> handles_;
};

OperatorCache& operator_cache() {
  static OperatorCache cache;
  return cache;
}

bool has_target_form(std::string_view target) {
  const size_t first = target.find('.');
  const size_t last = target.rfind('.');
  return first != std::string_view::npos && first > 0 && first + 1 < last && last + 1 < target.size();
}

}  // namespace

std::string target_from_op(std::string_view op) {
  std::string target(op);
  const size_t colons = target.find("::");
  const bool has_overload = target.find('.', colons == std::string::npos ? 0 : colons) != std::string::npos;
  if (colons != std::string::npos) {
    target.replace(colons, 2, ".");
  }
  return has_overload ? target : target + ".default";
}

std::string target_from_op(const c10::OperatorName& op) {
  std::string target = op.name;
  const size_t colons = target.find("::");
  if (colons != std::string::npos) {
    target.replace(colons, 2, ".");
  }
  return target + "." + (op.overload_name.empty() ? "default" : op.overload_name);
}

c10::OperatorName operator_name(std::string_view target) {
  ensure(has_target_form(target), "'{}' is not the target of a call: expected 'namespace.name.overload'", target);
  const size_t first = target.find('.');
  const size_t last = target.rfind('.');
  std::string name = fmt::format("{}::{}", target.substr(0, first), target.substr(first + 1, last - first - 1));
  std::string overload(target.substr(last + 1));
  return {std::move(name), overload == "default" ? std::string() : std::move(overload)};
}

std::string op_from_target(std::string_view target) {
  const c10::OperatorName name = operator_name(target);
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool is_higher_order_target(std::string_view target) { return namespace_of(target) == "higher_order"; }

bool is_dispatcher_target(std::string_view target) {
  const std::string_view space = namespace_of(target);
  return !is_higher_order_target(target) &&
         std::find(std::begin(kSymNamespaces), std::end(kSymNamespaces), space) == std::end(kSymNamespaces);
}

std::optional<c10::OperatorHandle> find_operator(std::string_view target) {
  if (!is_dispatcher_target(target) || !has_target_form(target)) {
    return std::nullopt;
  }
  const std::string key(target);
  if (auto cached = operator_cache().find(key)) {
    return cached;
  }
  auto handle = c10::Dispatcher::singleton().findSchema(operator_name(target));
  if (handle && namespace_of(target) == "aten") {
    operator_cache().insert(key, *handle);
  }
  return handle;
}

c10::OperatorHandle lookup_operator(std::string_view target) {
  if (auto handle = find_operator(target)) {
    return *handle;
  }
  const std::vector<std::string> near = near_targets(operator_name(target));
  throw Error(
      fmt::format("There is no operator '{}'", target), {},
      near.empty() ? "Load the library that registers it." : fmt::format("Near it: {}.", fmt::join(near, ", ")));
}

std::vector<const Argument*> bind_arguments(const Node& node, const c10::FunctionSchema& schema) {
  const auto& formals = schema.arguments();
  std::vector<const Argument*> bound(formals.size(), nullptr);
  ensure_at(node, node.arg_count() <= formals.size(), " has {} positional arguments, its op takes {}", node.arg_count(),
            formals.size());
  for (size_t i = 0; i < node.arg_count(); ++i) {
    ensure_at(node, !formals[i].kwarg_only(), " passes '{}' by position, its op takes it by keyword only",
              formals[i].name());
    bound[i] = &node.arg(i);
  }
  for (const auto& [name, argument] : node.kwargs()) {
    const auto index = schema.argumentIndexWithName(name);
    ensure_at(node, index.has_value(), " has a keyword argument '{}' that its op does not take", name);
    ensure_at(node, bound[*index] == nullptr, " has two values for the argument '{}'", name);
    bound[*index] = &argument;
  }
  return bound;
}

std::optional<size_t> aliased_input(const c10::FunctionSchema& schema, size_t output) {
  const c10::AliasInfo* result = schema.returns()[output].alias_info();
  if (result == nullptr) {
    return std::nullopt;
  }
  // A list of views, as of split, says so on its elements: Tensor(a)[] or (a!)[] of aliases of the input's set.
  const auto& sets = result->beforeSets().empty() && !result->containedTypes().empty()
                         ? result->containedTypes()[0].beforeSets()
                         : result->beforeSets();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* input = schema.arguments()[i].alias_info();
    if (input == nullptr) {
      continue;
    }
    for (const auto& set : input->beforeSets()) {
      if (sets.contains(set)) {
        return i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace exporters
