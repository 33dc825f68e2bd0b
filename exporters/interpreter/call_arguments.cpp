#include "exporters/interpreter/call_arguments.h"

#include "exporters/support/error.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace exporters {
namespace {

// Leaves may be of any kind, containers have to have the same leaves under the same names.
void append_leaves(const TreeSpec& spec, const PyTree& tree, const std::string& name,
                   std::vector<PyTree::Leaf>& leaves) {
  const TreeSpec given = tree.spec();
  if (given != spec) {
    const std::vector<std::string> wanted = spec.leaf_paths();
    const std::vector<std::string> found = given.leaf_paths();
    ensure(wanted == found, "The argument '{}' has the leaves [{}], the program takes [{}]", name,
           fmt::join(found, ", "), fmt::join(wanted, ", "));
  }
  for (PyTree::Leaf& leaf : tree.flatten()) {
    leaves.push_back(std::move(leaf));
  }
}

}  // namespace

std::vector<PyTree::Leaf> flatten_call(const TreeSpec& in_spec, const std::vector<PyTree>& args, const PyTree& kwargs) {
  const bool is_call = in_spec.children.size() == 2 && in_spec.children[1].type == "builtins.dict";
  ensure(is_call, "The program's in_spec is not (args, kwargs): give it flat inputs");
  const std::vector<TreeSpec>& positional = in_spec.children[0].children;
  const std::vector<TreeSpec>& named = in_spec.children[1].children;
  const std::vector<std::string> keys = in_spec.children[1].keys();
  ensure(args.size() == positional.size(), "The program takes {} positional arguments, it was given {}",
         positional.size(), args.size());
  std::vector<PyTree::Leaf> leaves;
  for (size_t i = 0; i < args.size(); ++i) {
    append_leaves(positional[i], args[i], fmt::format("#{}", i), leaves);
  }
  for (size_t i = 0; i < named.size(); ++i) {
    const PyTree* value = kwargs.find(keys[i]);
    ensure(value != nullptr, "The argument '{}' is missing; the program takes {}", keys[i], fmt::join(keys, ", "));
    append_leaves(named[i], *value, keys[i], leaves);
  }
  for (const std::string& key : kwargs.spec().keys()) {
    ensure(std::find(keys.begin(), keys.end(), key) != keys.end(), "The program takes no argument '{}', it takes {}",
           key, fmt::join(keys, ", "));
  }
  return leaves;
}

bool is_same_constant(const PyTree::Leaf& leaf, const Argument& constant) {
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return constant.is_none();
        } else if constexpr (std::is_same_v<T, at::Tensor>) {
          return false;
        } else {
          return constant == Argument(value);
        }
      },
      leaf);
}

}  // namespace exporters
