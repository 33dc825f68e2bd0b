#pragma once

#include "exporters/graph/argument.h"
#include "exporters/support/place.h"
#include "exporters/symbolic/expr.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters {

class Graph;
class Node;

/// Shape, layout and type of a tensor value; sizes and strides are symbolic.
struct TensorMeta {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr storage_offset = 0;
  c10::Device device = c10::Device(c10::kCPU);
  c10::Layout layout = c10::kStrided;
  bool requires_grad = false;

  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  Expr numel() const;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

/// What a node (or a placeholder) yields.
class Value {
 public:
  enum class Kind { kTensor, kSymInt, kSymFloat, kSymBool, kTensorList, kNone, kOther };

  const std::string& name() const { return name_; }
  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  Node* node() const { return node_; }  ///< the producer
  /// Which return of the producer this is; for an element of a list, which element.
  size_t output_index() const { return index_; }
  /// The tensors of a kTensorList value, which nodes take as they take any other value.
  const std::vector<Value*>& elements() const { return elements_; }
  Value* list() const { return list_; }  ///< the kTensorList value that this is an element of, or null

  TensorMeta& meta() { return meta_; }  ///< kTensor only
  const TensorMeta& meta() const { return meta_; }
  Expr& sym() { return sym_; }  ///< kSymInt only
  const Expr& sym() const { return sym_; }

  /// Nodes that take this value, each once, in a stable order that does not depend on addresses.
  std::vector<Node*> users() const;
  size_t user_count() const { return users_.size(); }
  bool has_users() const { return !users_.empty(); }

  /// Every use in the graph, the graph's outputs included, becomes `other`. O(uses).
  void replace_all_uses_with(Value* other);

 private:
  friend class Graph;
  friend class Node;
  friend class GraphVerifier;
  std::string name_;
  Kind kind_ = Kind::kTensor;
  Node* node_ = nullptr;
  Value* list_ = nullptr;
  size_t index_ = 0;
  std::vector<Value*> elements_;
  TensorMeta meta_;
  Expr sym_ = 0;
  std::map<uint64_t, std::pair<Node*, uint32_t>> users_;  // node id → node, number of uses
};

/// One call: an ATen overload ("aten::linear", spelled "aten.linear.default" as in torch.export), a sym op
/// ("_operator.add", "aten.sym_size.int"), a higher-order op, a placeholder, or the output node. Arguments are in
/// schema order; `arg_names` marks those passed by keyword.
class Node {
 public:
  enum class Kind { kPlaceholder, kCall, kOutput };

  Kind kind() const { return kind_; }
  bool is_placeholder() const { return kind_ == Kind::kPlaceholder; }
  bool is_output() const { return kind_ == Kind::kOutput; }
  bool is_call(std::string_view target) const { return kind_ == Kind::kCall && target_ == target; }

  const std::string& target() const { return target_; }
  void set_target(std::string target) { target_ = std::move(target); }
  uint64_t id() const { return id_; }  ///< unique in its graph, grows with creation
  const std::string& name() const { return name_; }
  Graph& graph() const { return *graph_; }
  Node* next() const { return next_; }
  Node* prev() const { return prev_; }
  bool erased() const { return erased_; }

  const std::vector<Argument>& args() const { return args_; }
  const Argument& arg(size_t i) const { return args_[i]; }
  size_t arg_count() const { return args_.size(); }
  void set_arg(size_t i, Argument argument);
  void set_args(std::vector<Argument> arguments);
  /// Keyword arguments after the positional ones: the schema's names, in schema order.
  const std::vector<std::pair<std::string, Argument>>& kwargs() const { return kwargs_; }
  void set_kwargs(std::vector<std::pair<std::string, Argument>> kwargs);
  const Argument* kwarg(std::string_view name) const;
  /// Every input value, each as often as it is used, positional ones first.
  std::vector<Value*> inputs() const;
  void replace_input(Value* from, Value* to);

  /// One for each return of the schema; a Tensor[] return is one value of Kind::kTensorList with `elements`.
  const std::vector<Value*>& outputs() const { return outputs_; }
  Value* output(size_t i = 0) const { return outputs_[i]; }
  /// The single output. Throws Error when there are more or none.
  Value* value() const;

  Place& place() { return place_; }
  const Place& place() const { return place_; }
  /// Outermost first; what torch.export's `nn_module_stack` holds.
  std::vector<ModuleFrame>& module_stack() { return module_stack_; }
  const std::vector<ModuleFrame>& module_stack() const { return module_stack_; }
  /// Further metadata that a .pt2 carries, by key.
  std::map<std::string, std::string>& metadata() { return metadata_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// "aten.add.Tensor 'add_3' (encoder.layer.0.output, models/bert.cpp:80)": for messages.
  std::string describe() const;

 private:
  friend class Graph;
  friend class Value;
  Kind kind_ = Kind::kCall;
  Graph* graph_ = nullptr;
  Node* next_ = nullptr;
  Node* prev_ = nullptr;
  uint64_t id_ = 0;
  bool erased_ = false;
  std::string target_;
  std::string name_;
  std::vector<Argument> args_;
  std::vector<std::pair<std::string, Argument>> kwargs_;
  std::vector<Value*> outputs_;
  Place place_;
  std::vector<ModuleFrame> module_stack_;
  std::map<std::string, std::string> metadata_;
};

/// A straight-line program in SSA form: placeholders first, calls in execution order, one output node at the end.
/// Nodes and values live as long as the graph; an erased node is unlinked, keeps its `next()` so that a walk which
/// stands on it goes on, and is never reused.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Appends after the last placeholder.
  Value* add_placeholder(std::string_view name, Value::Kind kind = Value::Kind::kTensor);

  /// Where `call` inserts: before this node; at the end (before the output) by default.
  Node* insertion_point() const;
  /// Sets the insertion point for the lifetime of the object.
  class InsertGuard {
   public:
    InsertGuard(Graph& graph, Node* before);
    ~InsertGuard();
    InsertGuard(const InsertGuard&) = delete;
    InsertGuard& operator=(const InsertGuard&) = delete;

   private:
    Graph& graph_;
    Node* previous_;
  };

  /// Adds a call at the insertion point, without outputs yet, in O(1); its place is to be set. The name is made unique
  /// from `name_hint`, or the op. A list alone has to be {Argument(list)}: what {list} is differs among compilers.
  Node* call(std::string_view target, std::vector<Argument> args,
             std::vector<std::pair<std::string, Argument>> kwargs = {}, std::string_view name_hint = {});
  /// Adds an output to a call; the first is named as its node.
  Value* add_output(Node* node, Value::Kind kind = Value::Kind::kTensor, std::string_view name_hint = {});
  /// Adds a tensor to a kTensorList value; named "getitem" unless told otherwise, as FX does.
  Value* add_element(Value* list, std::string_view name_hint = {});

  /// The output node's arguments, in signature order.
  Node* output_node() const { return output_; }
  const std::vector<Argument>& outputs() const { return output_->args(); }
  void set_outputs(std::vector<Argument> outputs);

  /// Unlinks a node. Throws Error when an output of it still has users, or for the output node.
  void erase(Node* node);
  /// Moves a node before another. O(1); the verifier finds a broken order.
  void move_before(Node* node, Node* before);

  Node* first() const;  ///< the first node, the output node in an empty graph
  std::vector<Value*> placeholders() const;
  size_t size() const { return size_; }  ///< linked nodes, placeholders and output included

  /// Walks linked nodes in order; nodes may be inserted and erased meanwhile, the current one too.
  class Iterator {
   public:
    explicit Iterator(Node* node) : node_(node) {}
    Node& operator*() const { return *node_; }
    Node* operator->() const { return node_; }
    Iterator& operator++();
    friend bool operator==(Iterator a, Iterator b) { return a.node_ == b.node_; }

   private:
    Node* node_;
  };
  Iterator begin() const { return Iterator(first()); }
  Iterator end() const { return Iterator(nullptr); }

  /// Fresh values are named from this pool; `reserve_name` returns a name that nothing else has.
  std::string reserve_name(std::string_view hint);
  /// The value of that name, or null. O(1).
  Value* find(std::string_view name) const;

  /// As FX prints a graph, with dtypes, shapes and module paths; the same graph gives the same text.
  std::string str() const;

 private:
  friend class Node;
  friend class Value;
  friend class GraphVerifier;
  Node* new_node(Node::Kind kind, std::string_view target, std::string name);
  Value* new_value(Node* node, Value::Kind kind, std::string name);
  void link_before(Node* node, Node* before);
  void unlink(Node* node);
  void add_uses(Node* node);
  void drop_uses(Node* node);

  std::deque<Node> nodes_;
  std::deque<Value> values_;
  Node* head_ = nullptr;
  Node* last_placeholder_ = nullptr;
  Node* output_ = nullptr;
  Node* insertion_point_ = nullptr;
  size_t size_ = 0;
  uint64_t next_id_ = 0;
  std::unordered_map<std::string, uint32_t> name_counts_;
  std::unordered_map<std::string, Value*> by_name_;
};

}  // namespace exporters
