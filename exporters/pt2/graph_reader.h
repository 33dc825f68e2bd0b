#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/pt2/fields.h"
#include "exporters/pt2/symbols.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace exporters::pt2 {

/// Turns a graph of the schema into a Graph. One reader reads one graph; those of higher-order ops have readers of
/// their own, since names do not reach into them.
class GraphReader {
 public:
  /// `depth`: of subgraphs in subgraphs.
  GraphReader(Graph& graph, Symbols& symbols, int depth = 0) : graph_(graph), symbols_(symbols), depth_(depth) {}

  /// `input_names`: for placeholders that are constants, which have no name in the graph itself; may be shorter than
  /// the inputs. Throws Error, naming the node, for names that nothing before defines or something defines twice, and
  /// for arguments that a program cannot hold.
  void read(const Json& json, const std::vector<std::string>& input_names = {});

  /// An argument of the schema, also of a signature. Names are those of the graph.
  Argument argument(const Json& json);
  /// The value of that name in the file. Throws Error when there is none.
  Value* value(const std::string& name) const;

 private:
  void read_input(const Json& json, size_t index, const std::vector<std::string>& input_names);
  void read_node(const Json& json);
  Node* read_call(const Json& json, const std::string& target, const std::string& name_hint);
  void read_outputs(const Json& json, Node* node);
  void read_output(const Json& json, Node* node);
  void read_metadata(const Json& json, Node* node);

  Argument argument(std::string_view tag, const Json& json);
  Argument subgraph(const Json& json);
  void define(const std::string& name, Value* value);
  void describe_tensor(const std::string& name, Value* value);
  const Json& meta_of(std::string_view table, const std::string& name) const;

  Graph& graph_;
  Symbols& symbols_;
  int depth_;
  const Json* json_ = nullptr;
  std::unordered_map<std::string, Value*> values_;
};

/// Sizes, strides, dtype and device of a tensor.
TensorMeta read_tensor_meta(const Json& json, Symbols& symbols);

}  // namespace exporters::pt2
