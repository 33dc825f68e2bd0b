#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// How a nested value flattens to leaves, as torch.utils._pytree's TreeSpec: a leaf, or a node with a type, a context
/// (JSON text) and children.
struct TreeSpec {
  std::string type;     ///< "builtins.tuple", "transformers.modeling_outputs.BaseModelOutput"; empty for a leaf
  std::string context;  ///< JSON text: "null", "[\"input_ids\"]"
  std::vector<TreeSpec> children;
  /// The context stands in the text as JSON itself instead of a string that holds JSON (collections.defaultdict).
  bool inline_context = false;

  bool is_leaf() const { return type.empty(); }
  size_t leaf_count() const;
  static TreeSpec leaf() { return {}; }
  static TreeSpec tuple(std::vector<TreeSpec> children);
  static TreeSpec list(std::vector<TreeSpec> children);
  static TreeSpec dict(const std::vector<std::string>& keys, std::vector<TreeSpec> children);

  /// The names of a dict's or ModelOutput's children. Throws Error when the context is not a list of strings.
  std::vector<std::string> keys() const;
  /// What a path calls each child: dict keys and fields, attributes of a cache ("layers.0.keys"), else the index.
  /// Throws Error when the context names another number of children.
  std::vector<std::string> child_names() const;
  /// Dotted path of each leaf in order: dict keys, list indices ("hidden_states.2"); a bare leaf's path is "".
  std::vector<std::string> leaf_paths() const;

  /// "[1, {\"type\": …}]" with one space after ':' and ',', as Python's treespec_dumps writes it.
  std::string dumps() const;
  /// Throws Error on other protocols than 1, malformed JSON, and nesting deeper than 64.
  static TreeSpec loads(std::string_view text);

  friend bool operator==(const TreeSpec&, const TreeSpec&) = default;
};

}  // namespace exporters
