#include "exporters/framework/pytree_nodes.h"

#include "exporters/support/near.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace exporters {
namespace {

// What torch.utils._pytree knows by itself.
constexpr std::array<std::string_view, 7> kPythonTypes = {
    "builtins.tuple",          "builtins.list",           "builtins.dict",    "collections.namedtuple",
    "collections.OrderedDict", "collections.defaultdict", "collections.deque"};

struct Nodes {
  std::mutex mutex;
  std::vector<std::shared_ptr<const PytreeNode>> all;  // replaced ones stay: references were given out
};

Nodes& nodes() {
  static Nodes instance;
  return instance;
}

std::vector<std::string> registered_types() {
  std::vector<std::string> types;
  for (const PytreeNode& node : pytree_nodes()) {
    types.insert(types.end(), node.types.begin(), node.types.end());
  }
  return types;
}

bool is_known(std::string_view type, const std::vector<std::string>& registered) {
  return std::find(kPythonTypes.begin(), kPythonTypes.end(), type) != kPythonTypes.end() || is_model_output(type) ||
         std::find(registered.begin(), registered.end(), type) != registered.end();
}

void check_types(const TreeSpec& spec, const std::string& what, const std::vector<std::string>& registered) {
  if (spec.is_leaf()) {
    return;
  }
  if (!is_known(spec.type, registered)) {
    const std::string near = did_you_mean(spec.type, registered);
    throw Error("no pytree node is registered for the type '" + spec.type + "'", what,
                near.empty() ? "Register it with register_pytree_node, or use lists, tuples and dicts." : near);
  }
  for (const TreeSpec& child : spec.children) {
    check_types(child, what, registered);
  }
}

}  // namespace

void detail::register_pytree_node(PytreeNode node) {
  ensure(!node.types.empty(), "a pytree node needs the name of its type");
  const std::lock_guard lock(nodes().mutex);
  nodes().all.push_back(std::make_shared<const PytreeNode>(std::move(node)));
}

const PytreeNode* detail::find_pytree_node(std::type_index cpp_type) {
  const std::lock_guard lock(nodes().mutex);
  const auto found = std::find_if(nodes().all.rbegin(), nodes().all.rend(),
                                  [&](const auto& node) { return node->cpp_type == cpp_type; });
  return found == nodes().all.rend() ? nullptr : found->get();
}

void detail::fail_unregistered(const std::type_info& cpp_type) {
  throw Error(std::string("the C++ type '") + cpp_type.name() + "' is no registered argument or result of a forward",
              {}, "Register it with register_pytree_node.");
}

std::vector<PytreeNode> pytree_nodes() {
  const std::lock_guard lock(nodes().mutex);
  std::vector<PytreeNode> current;
  for (auto it = nodes().all.begin(); it != nodes().all.end(); ++it) {
    const bool replaced =
        std::any_of(it + 1, nodes().all.end(), [&](const auto& later) { return later->cpp_type == (*it)->cpp_type; });
    if (!replaced) {
      current.push_back(**it);
    }
  }
  return current;
}

bool is_model_output(std::string_view type) {
  return type.starts_with("transformers.") && type.find(':') == std::string_view::npos;
}

void check_pytree_types(const TreeSpec& spec, const std::string& what) { check_types(spec, what, registered_types()); }

}  // namespace exporters
