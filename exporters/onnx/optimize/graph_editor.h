#pragma once

#include "exporters/onnx/emit/model.h"

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace exporters::onnx {

/// What is known of a value before the model runs. Two axes of the same name have one size.
struct ValueFacts {
  OnnxType dtype = OnnxType::kUndefined;
  std::optional<std::vector<OnnxDim>> dims;  ///< nothing when the rank is unknown

  std::optional<size_t> rank() const { return dims ? std::optional(dims->size()) : std::nullopt; }
};

/// Whether both are known in every axis, and equal.
bool same_dims(const ValueFacts& a, const ValueFacts& b);

/// What the graphs of a model share while they are edited.
struct EditScope {
  int64_t opset = 0;
  std::unordered_set<std::string> names;  ///< of every value and node of the model: new ones are others
  std::unordered_map<std::string, size_t> counts;
};
EditScope edit_scope(const OnnxModel& model);

/// One graph while it is rewritten: who makes and who takes a value, and what is known of it. Every edit keeps that up
/// to date in time that does not grow with the graph. A value that the graph returns, or that a graph inside one of its
/// nodes takes, is pinned: it keeps its name.
class GraphEditor {
 public:
  GraphEditor(OnnxGraph& graph, EditScope& scope);
  ~GraphEditor();
  GraphEditor(const GraphEditor&) = delete;
  GraphEditor& operator=(const GraphEditor&) = delete;

  int64_t opset() const { return scope_.opset; }

  // ── Reading ──
  /// The nodes as they are now, in order. Those that an edit adds are not in it; is_erased tells those that one took
  /// away.
  std::vector<OnnxNode*> nodes();
  bool is_erased(const OnnxNode* node) const { return places_.find(node) == places_.end(); }
  /// Null for inputs, initializers and values of outer graphs.
  OnnxNode* producer(const std::string& value);
  /// The producer if it is such an operator of the standard domain.
  OnnxNode* producer(const std::string& value, std::string_view op);
  /// Each node of this graph that takes the value, once.
  std::vector<OnnxNode*> users(const std::string& value);
  bool is_pinned(const std::string& value) const { return pinned_.contains(value); }
  /// Exactly one input of one node takes the value, and it is not pinned.
  bool has_one_use(const std::string& value) const;
  bool is_used(const std::string& value) const;
  const OnnxTensor* initializer(const std::string& name) const;
  const std::vector<OnnxTensor>& initializers() const { return graph_.initializers; }
  const std::vector<OnnxValueInfo>& inputs() const { return graph_.inputs; }
  const std::vector<OnnxValueInfo>& outputs() const { return graph_.outputs; }
  const ValueFacts& facts(const std::string& value) const;

  // ── Constants ──
  /// The numbers of a small int64 constant of rank 0 or 1.
  std::optional<std::vector<int64_t>> integers(const std::string& value) const;
  /// The one number of a constant scalar, or of a tensor of one element.
  std::optional<double> scalar(const std::string& value) const;
  /// An int64 constant, 1-d or 0-d; equal ones are one.
  std::string add_integers(const std::vector<int64_t>& values, bool is_scalar = false);
  std::string add_initializer(OnnxTensor tensor);

  // ── Edits ──
  /// Everyone takes `by` instead of `value`. False, and nothing changes, where `value` is pinned and `by` cannot have
  /// its name. The producer of `value` stays, and is to be erased where it has no other output in use.
  bool replace(const std::string& value, const std::string& by);
  void set_input(OnnxNode& node, size_t slot, const std::string& value);
  void set_inputs(OnnxNode& node, std::vector<std::string> inputs);
  /// A node before another one, with unique names made of its own.
  OnnxNode& insert_before(const OnnxNode& place, OnnxNode node, ValueFacts facts = {});
  void erase(const OnnxNode& node);
  /// Erases a node when nothing takes what it makes, then those that made its inputs, and so on.
  void erase_unused(OnnxNode& node);
  void remove_unused_initializers();
  void declare(const std::string& value, ValueFacts facts) { facts_[value] = std::move(facts); }
  /// Adds to what is known of values what follows from the nodes as they are now. Linear in the graph; what an edit
  /// says of its own values is known at once.
  void infer();

 private:
  std::string unique_name(const std::string& hint);
  void index(std::list<OnnxNode>::iterator node);
  void add_use(const std::string& value, OnnxNode* node);
  void drop_use(const std::string& value);

  OnnxGraph& graph_;
  EditScope& scope_;
  std::list<OnnxNode> nodes_;
  std::list<OnnxNode> erased_;  // keeps pointers valid
  std::unordered_map<const OnnxNode*, std::list<OnnxNode>::iterator> places_;
  std::unordered_map<std::string, OnnxNode*> producers_;
  std::unordered_map<std::string, std::vector<OnnxNode*>> users_;  // with some that are no longer
  std::unordered_map<std::string, size_t> uses_;
  std::unordered_set<std::string> pinned_;
  std::unordered_set<std::string> captured_;  // pinned by a graph inside a node
  std::unordered_map<std::string, size_t> initializers_;
  std::unordered_map<std::string, std::string> integers_;  // numbers → constant
  std::unordered_map<std::string, ValueFacts> facts_;
};

/// Attribute access with the operator's default.
int64_t int_attribute(const OnnxNode& node, std::string_view name, int64_t otherwise);
std::vector<int64_t> ints_attribute(const OnnxNode& node, std::string_view name);
void set_attribute(OnnxNode& node, std::string_view name, OnnxAttribute::Data value);

/// Whether the operator works on each element by itself, and its output has the (broadcast) sizes of its inputs. Its
/// attributes name no axes.
bool is_unary_elementwise(const OnnxNode& node);
bool is_binary_elementwise(const OnnxNode& node);

}  // namespace exporters::onnx
