#pragma once

#include "exporters/graph/pytree.h"
#include "exporters/support/error.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

namespace exporters {

/// A C++ type that forwards may take and return: how it flattens to leaves and a JSON context, and back. Not for use:
/// see register_pytree_node.
struct PytreeNode {
  std::vector<std::string> types;  ///< names in a tree spec: "transformers.cache_utils:DynamicCache"
  std::type_index cpp_type;
  std::function<PyTree(const void*)> flatten_to_context;
  std::function<std::shared_ptr<void>(const PyTree&)> unflatten_from_context;
  std::string reason;
};

namespace detail {
void register_pytree_node(PytreeNode node);
const PytreeNode* find_pytree_node(std::type_index cpp_type);
[[noreturn]] void fail_unregistered(const std::type_info& cpp_type);
}  // namespace detail

/// Registers a type with two functions. `flatten_to_context` gives a PyTree::node whose type is one of `types`, whose
/// context is JSON text with everything that is no leaf, and whose children are the leaves (or nested values);
/// `unflatten_from_context` makes the object of such a node and throws Error when its context makes no sense. During a
/// trace both see traced tensors: they may neither read nor compute. A second registration of the same C++ type
/// replaces the first. Throws Error without names.
///
/// A program with such a value loads in Python when Python registers a type of that name too.
template <typename T>
void register_pytree_node(std::vector<std::string> types, std::function<PyTree(const T&)> flatten_to_context,
                          std::function<T(const PyTree&)> unflatten_from_context, std::string reason = {}) {
  detail::register_pytree_node(
      {std::move(types), typeid(T),
       [flatten = std::move(flatten_to_context)](const void* value) { return flatten(*static_cast<const T*>(value)); },
       [unflatten = std::move(unflatten_from_context)](const PyTree& tree) {
         return std::make_shared<T>(unflatten(tree));
       },
       std::move(reason)});
}

/// Every registered node, in the order of registration.
std::vector<PytreeNode> pytree_nodes();

/// A registered type as a nested value. Throws Error when T is not registered.
template <typename T>
PyTree to_pytree(const T& value) {
  const PytreeNode* node = detail::find_pytree_node(typeid(T));
  if (node == nullptr) {
    detail::fail_unregistered(typeid(T));
  }
  return node->flatten_to_context(&value);
}

/// The object of a nested value. Throws Error when T is not registered, or the value is of another type.
template <typename T>
T from_pytree(const PyTree& tree) {
  const PytreeNode* node = detail::find_pytree_node(typeid(T));
  if (node == nullptr) {
    detail::fail_unregistered(typeid(T));
  }
  bool known = false;
  for (const std::string& type : node->types) {
    known = known || type == tree.type();
  }
  ensure(known, "a value of type '{}' is none of '{}'", tree.is_leaf() ? "leaf" : tree.type(), node->types.front());
  return std::move(*std::static_pointer_cast<T>(node->unflatten_from_context(tree)));
}

/// The class of a transformers.utils.ModelOutput: "transformers.modeling_outputs.BaseModelOutput",
/// "transformers.models.clip.modeling_clip.CLIPOutput".
bool is_model_output(std::string_view type);

/// Throws Error for a container, at any depth, whose type is neither a list, tuple or dict of Python's, nor a
/// ModelOutput, nor registered. `what` names the value in the message.
void check_pytree_types(const TreeSpec& spec, const std::string& what);

}  // namespace exporters
