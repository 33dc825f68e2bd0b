#include "exporters/graph/graph.h"

#include "exporters/graph/name_pool.h"
#include "exporters/support/error.h"

#include <algorithm>

namespace exporters {
namespace {

std::string last_two_parts(const std::string& module_path, const std::string& source) {
  return module_path.empty() || source.empty() ? module_path + source : module_path + ", " + source;
}

// Checked before anything changes, so that a refused argument leaves the use lists right.
void check_takes(const Node& node, const Argument& argument) {
  if (node.erased()) {
    fail("{} is erased and takes no arguments", node.describe());
  }
  argument.for_each_value([&](const Value* value) {
    if (value == nullptr) {
      fail("{} was given no value for an input", node.describe());
    }
    if (&value->node()->graph() != &node.graph()) {
      fail("{} was given '{}', a value of another graph", node.describe(), value->name());
    }
  });
}

bool replace_value(Argument& argument, Value* from, Value* to) {
  if (const auto* value = argument.get_if<Value*>()) {
    if (*value != from) {
      return false;
    }
    argument = Argument(to);
    return true;
  }
  if (!argument.is_list()) {
    return false;
  }
  bool found = false;
  argument.for_each_value([&](Value* value) { found = found || value == from; });
  if (found) {
    Argument::List items = argument.list();
    for (Argument& item : items) {
      replace_value(item, from, to);
    }
    argument = Argument(std::move(items));
  }
  return found;
}

}  // namespace

Expr TensorMeta::numel() const {
  Expr product = 1;
  for (const Expr& size : sizes) {
    product = product * size;
  }
  return product;
}

// ── Value ──

std::vector<Node*> Value::users() const {
  std::vector<Node*> nodes;
  nodes.reserve(users_.size());
  for (const auto& [id, use] : users_) {
    nodes.push_back(use.first);
  }
  return nodes;
}

void Value::replace_all_uses_with(Value* other) {
  if (other == this) {
    return;
  }
  for (Node* user : users()) {
    user->replace_input(this, other);
  }
}

// ── Node ──

void Node::set_arg(size_t i, Argument argument) {
  if (i >= args_.size()) {
    fail("{} has {} positional arguments, there is none at {}", describe(), args_.size(), i);
  }
  check_takes(*this, argument);
  graph_->drop_uses(this);
  args_[i] = std::move(argument);
  graph_->add_uses(this);
}

void Node::set_args(std::vector<Argument> arguments) {
  check_takes(*this, arguments);
  graph_->drop_uses(this);
  args_ = std::move(arguments);
  graph_->add_uses(this);
}

void Node::set_kwargs(std::vector<std::pair<std::string, Argument>> kwargs) {
  for (const auto& [key, argument] : kwargs) {
    check_takes(*this, argument);
  }
  graph_->drop_uses(this);
  kwargs_ = std::move(kwargs);
  graph_->add_uses(this);
}

const Argument* Node::kwarg(std::string_view name) const {
  for (const auto& [key, argument] : kwargs_) {
    if (key == name) {
      return &argument;
    }
  }
  return nullptr;
}

std::vector<Value*> Node::inputs() const {
  std::vector<Value*> values;
  auto collect = [&](Value* value) { values.push_back(value); };
  for (const Argument& argument : args_) {
    argument.for_each_value(collect);
  }
  for (const auto& [key, argument] : kwargs_) {
    argument.for_each_value(collect);
  }
  return values;
}

void Node::replace_input(Value* from, Value* to) {
  check_takes(*this, Argument(to));
  graph_->drop_uses(this);
  for (Argument& argument : args_) {
    replace_value(argument, from, to);
  }
  for (auto& [key, argument] : kwargs_) {
    replace_value(argument, from, to);
  }
  graph_->add_uses(this);
}

Value* Node::value() const {
  if (outputs_.size() != 1) {
    fail("{} has {} outputs where one was expected", describe(), outputs_.size());
  }
  return outputs_[0];
}

std::string Node::describe() const {
  std::string text =
      (target_.empty() ? std::string(is_output() ? "output" : "placeholder") : target_) + " '" + name_ + "'";
  const std::string where = last_two_parts(place_.module_path, place_.source);
  return where.empty() ? text : text + " (" + where + ")";
}

// ── Graph ──

Graph::Graph() {
  output_ = new_node(Node::Kind::kOutput, {}, "output");
  head_ = output_;
  size_ = 1;
}

Graph::~Graph() = default;

Node* Graph::new_node(Node::Kind kind, std::string_view target, std::string name) {
  Node& node = nodes_.emplace_back();
  node.kind_ = kind;
  node.graph_ = this;
  node.id_ = next_id_++;
  node.target_ = target;
  node.name_ = std::move(name);
  return &node;
}

Value* Graph::new_value(Node* node, Value::Kind kind, std::string name) {
  Value& value = values_.emplace_back();
  value.kind_ = kind;
  value.node_ = node;
  value.name_ = std::move(name);
  by_name_[value.name_] = &value;
  return &value;
}

Value* Graph::add_placeholder(std::string_view name, Value::Kind kind) {
  Node* node = new_node(Node::Kind::kPlaceholder, {}, reserve_name(name));
  link_before(node, last_placeholder_ != nullptr ? last_placeholder_->next_ : head_);
  last_placeholder_ = node;
  return add_output(node, kind);
}

Node* Graph::insertion_point() const {
  Node* node = insertion_point_ != nullptr ? insertion_point_ : output_;
  while (node->erased_) {
    node = node->next_;
  }
  return node;
}

Graph::InsertGuard::InsertGuard(Graph& graph, Node* before) : graph_(graph), previous_(graph.insertion_point_) {
  ensure(before != nullptr && before->graph_ == &graph, "The insertion point does not belong to this graph");
  graph.insertion_point_ = before;
}

Graph::InsertGuard::~InsertGuard() { graph_.insertion_point_ = previous_; }

Node* Graph::call(std::string_view target, std::vector<Argument> args,
                  std::vector<std::pair<std::string, Argument>> kwargs, std::string_view name_hint) {
  std::string hint = name_hint.empty() ? name_hint_of(target) : std::string(name_hint);
  if (is_python_name(hint)) {
    hint += "_1";
  }
  Node* node = new_node(Node::Kind::kCall, target, reserve_name(hint));
  link_before(node, insertion_point());
  node->set_args(std::move(args));
  node->set_kwargs(std::move(kwargs));
  return node;
}

Value* Graph::add_output(Node* node, Value::Kind kind, std::string_view name_hint) {
  const bool first = node->outputs_.empty();
  ensure(!node->is_output(), "The output node yields no values");
  Value* value = new_value(node, kind, first ? node->name_ : reserve_name(name_hint.empty() ? "getitem" : name_hint));
  value->index_ = node->outputs_.size();
  node->outputs_.push_back(value);
  return value;
}

Value* Graph::add_element(Value* list, std::string_view name_hint) {
  ensure(list->kind_ == Value::Kind::kTensorList, "'{}' is not a list of tensors and has no elements", list->name_);
  Value* value = new_value(list->node_, Value::Kind::kTensor, reserve_name(name_hint.empty() ? "getitem" : name_hint));
  value->list_ = list;
  value->index_ = list->elements_.size();
  list->elements_.push_back(value);
  return value;
}

void Graph::set_outputs(std::vector<Argument> outputs) { output_->set_args(std::move(outputs)); }

void Graph::erase(Node* node) {
  ensure(!node->is_output(), "The output node cannot be erased");
  if (node->erased_) {
    return;
  }
  auto check = [&](const Value* value) {
    if (value->has_users()) {
      fail("{} cannot be erased: '{}' is still used by {}", node->describe(), value->name_,
           value->users_.begin()->second.first->describe());
    }
  };
  for (Value* output : node->outputs_) {
    check(output);
    std::for_each(output->elements_.begin(), output->elements_.end(), check);
  }
  drop_uses(node);
  unlink(node);
  node->erased_ = true;
  for (Value* output : node->outputs_) {
    by_name_[output->name_] = nullptr;
    for (Value* element : output->elements_) {
      by_name_[element->name_] = nullptr;
    }
  }
}

void Graph::move_before(Node* node, Node* before) {
  ensure(!node->is_output(), "The output node stays at the end of the graph");
  if (node->erased_ || before->erased_) {
    fail("{} cannot be moved before {}: one of them is erased", node->describe(), before->describe());
  }
  if (node == before || node->next_ == before) {
    return;
  }
  const bool after_placeholders = last_placeholder_ != nullptr && before == last_placeholder_->next_;
  unlink(node);
  link_before(node, before);
  if (node->is_placeholder() && (after_placeholders || last_placeholder_ == nullptr)) {
    last_placeholder_ = node;
  }
}

Node* Graph::first() const { return head_; }

std::vector<Value*> Graph::placeholders() const {
  std::vector<Value*> values;
  for (Node* node = head_; node->is_placeholder(); node = node->next_) {
    values.push_back(node->output());
  }
  return values;
}

Graph::Iterator& Graph::Iterator::operator++() {
  do {
    node_ = node_->next_;
  } while (node_ != nullptr && node_->erased());
  return *this;
}

void Graph::link_before(Node* node, Node* before) {
  node->prev_ = before->prev_;
  node->next_ = before;
  if (before->prev_ != nullptr) {
    before->prev_->next_ = node;
  } else {
    head_ = node;
  }
  before->prev_ = node;
  ++size_;
}

// The node keeps its `next`, for walks that stand on it.
void Graph::unlink(Node* node) {
  if (node == last_placeholder_) {
    last_placeholder_ = node->prev_ != nullptr && node->prev_->is_placeholder() ? node->prev_ : nullptr;
  }
  if (node->prev_ != nullptr) {
    node->prev_->next_ = node->next_;
  } else {
    head_ = node->next_;
  }
  node->next_->prev_ = node->prev_;
  --size_;
}

void Graph::add_uses(Node* node) {
  for (Value* value : node->inputs()) {
    auto& use = value->users_[node->id_];
    use.first = node;
    ++use.second;
  }
}

void Graph::drop_uses(Node* node) {
  for (Value* value : node->inputs()) {
    auto use = value->users_.find(node->id_);
    if (use != value->users_.end() && --use->second.second == 0) {
      value->users_.erase(use);
    }
  }
}

std::string Graph::reserve_name(std::string_view hint) {
  std::string name = to_identifier(hint);
  const NumberedName numbered = split_number(name);
  const std::string base(numbered.base);
  int64_t number = numbered.number;
  // As FX counts: from the last number given for this base, unless the hint brings a free one of its own.
  if (number < 0 || by_name_.contains(name)) {
    auto count = name_counts_.find(base);
    number = count == name_counts_.end() ? 0 : count->second;
  }
  while (by_name_.contains(name)) {
    name = base + "_" + std::to_string(++number);
  }
  name_counts_[base] = static_cast<uint32_t>(number);
  by_name_[name] = nullptr;
  return name;
}

Value* Graph::find(std::string_view name) const {
  auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace exporters
