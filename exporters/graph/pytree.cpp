#include "exporters/graph/pytree.h"

#include "exporters/graph/json_text.h"
#include "exporters/support/error.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <iterator>

namespace exporters {
namespace {

std::string list_context(const std::vector<std::string>& names) { return python_json_text(nlohmann::json(names)); }

const char* leaf_kind(const PyTree::Leaf& leaf) {
  static constexpr const char* kKinds[] = {"None", "a tensor", "a bool", "an int", "a float", "a string"};
  return kKinds[leaf.index()];
}

// Children's names may have dots of their own ("layers.0.keys"), so each child whose name the path begins with is
// tried.
const PyTree* resolve(const PyTree& tree, std::string_view path) {
  if (path.empty()) {
    return &tree;
  }
  if (tree.is_leaf()) {
    return nullptr;
  }
  const std::vector<std::string> names = child_names_of(tree.context(), tree.children().size());
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (!path.starts_with(name) || (path.size() > name.size() && path[name.size()] != '.')) {
      continue;
    }
    const std::string_view rest = path.size() > name.size() ? path.substr(name.size() + 1) : std::string_view();
    if (const PyTree* found = resolve(tree.children()[i], rest)) {
      return found;
    }
  }
  return nullptr;
}

void append_leaves(const PyTree& tree, std::vector<PyTree::Leaf>& leaves) {
  if (tree.is_leaf()) {
    leaves.push_back(tree.leaf());
    return;
  }
  for (const PyTree& child : tree.children()) {
    append_leaves(child, leaves);
  }
}

PyTree from_leaf(PyTree::Leaf leaf) {
  return std::visit(
      [](auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return PyTree();
        } else {
          return PyTree(std::move(value));
        }
      },
      leaf);
}

PyTree build(const TreeSpec& spec, std::vector<PyTree::Leaf>& leaves, size_t& next) {
  if (spec.is_leaf()) {
    return from_leaf(std::move(leaves[next++]));
  }
  std::vector<PyTree> children;
  children.reserve(spec.children.size());
  for (const TreeSpec& child : spec.children) {
    children.push_back(build(child, leaves, next));
  }
  return PyTree::node(spec.type, spec.context, std::move(children));
}

}  // namespace

PyTree PyTree::tuple(std::vector<PyTree> children) { return node("builtins.tuple", "null", std::move(children)); }

PyTree PyTree::list(std::vector<PyTree> children) { return node("builtins.list", "null", std::move(children)); }

PyTree PyTree::dict(std::vector<std::pair<std::string, PyTree>> items) {
  std::vector<std::string> keys;
  std::vector<PyTree> values;
  for (auto& [key, value] : items) {
    keys.push_back(std::move(key));
    values.push_back(std::move(value));
  }
  return node("builtins.dict", list_context(keys), std::move(values));
}

PyTree PyTree::object(std::string type, std::vector<std::pair<std::string, PyTree>> fields) {
  std::erase_if(fields, [](const auto& field) { return field.second.is_none(); });
  PyTree tree = dict(std::move(fields));
  tree.type_ = std::move(type);
  return tree;
}

PyTree PyTree::node(std::string type, std::string context, std::vector<PyTree> children) {
  ensure(!type.empty(), "A container needs a type");
  PyTree tree;
  tree.type_ = std::move(type);
  tree.context_ = std::move(context);
  tree.children_ = std::move(children);
  return tree;
}

const at::Tensor& PyTree::tensor() const {
  ensure(is_tensor(), "A tensor was expected, this is {}", is_leaf() ? leaf_kind(leaf_) : type_.c_str());
  return std::get<at::Tensor>(leaf_);
}

const PyTree* PyTree::find(std::string_view key) const {
  if (is_leaf()) {
    return nullptr;
  }
  const std::vector<std::string> names = child_names_of(context_, children_.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == key) {
      return &children_[i];
    }
  }
  return nullptr;
}

const PyTree& PyTree::at(std::string_view path) const {
  if (const PyTree* found = resolve(*this, path)) {
    return *found;
  }
  std::vector<std::string> known = is_leaf() ? std::vector<std::string>() : spec().leaf_paths();
  throw Error(fmt::format("There is no '{}' in a {}", path, is_leaf() ? leaf_kind(leaf_) : type_), {},
              fmt::format("It has: {}.", known.empty() ? "nothing" : fmt::format("{}", fmt::join(known, ", "))));
}

TreeSpec PyTree::spec() const {
  if (is_leaf()) {
    return TreeSpec::leaf();
  }
  TreeSpec result;
  result.type = type_;
  result.context = context_;
  // The one container of PyTorch's own whose context is written as JSON, not as a string of JSON.
  result.inline_context = type_ == "collections.defaultdict";
  for (const PyTree& child : children_) {
    result.children.push_back(child.spec());
  }
  return result;
}

std::vector<PyTree::Leaf> PyTree::flatten() const {
  std::vector<Leaf> leaves;
  append_leaves(*this, leaves);
  return leaves;
}

std::vector<std::pair<std::string, at::Tensor>> PyTree::tensors() const {
  const std::vector<std::string> paths = spec().leaf_paths();
  std::vector<Leaf> leaves = flatten();
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (auto* tensor = std::get_if<at::Tensor>(&leaves[i])) {
      named.emplace_back(paths[i], std::move(*tensor));
    }
  }
  return named;
}

PyTree PyTree::unflatten(const TreeSpec& spec, std::vector<Leaf> leaves) {
  ensure(spec.leaf_count() == leaves.size(), "A tree spec of {} leaves cannot take {} values", spec.leaf_count(),
         leaves.size());
  size_t next = 0;
  return build(spec, leaves, next);
}

}  // namespace exporters
