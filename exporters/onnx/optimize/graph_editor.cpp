#include "exporters/onnx/optimize/graph_editor.h"

#include "exporters/onnx/optimize/infer_facts.h"
#include "exporters/support/error.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

namespace exporters::onnx {
namespace {

void collect_names(const OnnxGraph& graph, std::unordered_set<std::string>& names) {
  for (const auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info}) {
    std::for_each(infos->begin(), infos->end(), [&](const OnnxValueInfo& info) { names.insert(info.name); });
  }
  for (const OnnxTensor& tensor : graph.initializers) {
    names.insert(tensor.name);
  }
  for (const OnnxNode& node : graph.nodes) {
    names.insert(node.name);
    names.insert(node.outputs.begin(), node.outputs.end());
    for_each_inner_graph(node, [&](const OnnxGraph& inner) { collect_names(inner, names); });
  }
}

// Every name that a graph mentions, its own ones among them: a name inside that is also one outside hides it, and
// pinning one too many does no harm.
void collect_mentioned(const OnnxGraph& graph, std::unordered_set<std::string>& names) {
  for (const OnnxNode& node : graph.nodes) {
    names.insert(node.inputs.begin(), node.inputs.end());
    for_each_inner_graph(node, [&](const OnnxGraph& inner) { collect_mentioned(inner, names); });
  }
  for (const OnnxValueInfo& output : graph.outputs) {
    names.insert(output.name);
  }
}

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

template <typename T>
T first_element(const std::string& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::optional<double> first_number(OnnxType dtype, const std::string& bytes) {
  switch (dtype) {
    case OnnxType::kFloat:
      return first_element<float>(bytes);
    case OnnxType::kDouble:
      return first_element<double>(bytes);
    case OnnxType::kFloat16:
      return static_cast<float>(first_element<c10::Half>(bytes));
    case OnnxType::kBfloat16:
      return static_cast<float>(first_element<c10::BFloat16>(bytes));
    case OnnxType::kInt32:
      return first_element<int32_t>(bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool same_dims(const ValueFacts& a, const ValueFacts& b) {
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) {
    return false;
  }
  return std::equal(a.dims->begin(), a.dims->end(), b.dims->begin(), [](const OnnxDim& x, const OnnxDim& y) {
    return !std::holds_alternative<std::monostate>(x) && x == y;
  });
}

EditScope edit_scope(const OnnxModel& model) {
  EditScope scope;
  scope.opset = model.opset().value_or(0);
  collect_names(model.graph, scope.names);
  return scope;
}

// ── The index ──

GraphEditor::GraphEditor(OnnxGraph& graph, EditScope& scope) : graph_(graph), scope_(scope) {
  for (OnnxNode& node : graph_.nodes) {
    nodes_.push_back(std::move(node));
  }
  graph_.nodes.clear();
  for (auto node = nodes_.begin(); node != nodes_.end(); ++node) {
    index(node);
    for_each_inner_graph(*node, [&](const OnnxGraph& inner) { collect_mentioned(inner, captured_); });
  }
  pinned_ = captured_;
  for (const OnnxValueInfo& output : graph_.outputs) {
    pinned_.insert(output.name);
  }
  for (size_t i = 0; i < graph_.initializers.size(); ++i) {
    initializers_[graph_.initializers[i].name] = i;
  }
  facts_ = stated_facts(graph_);
  infer();
}

void GraphEditor::infer() {
  for (const OnnxNode& node : nodes_) {
    infer_facts(node, facts_);
  }
}

GraphEditor::~GraphEditor() {
  graph_.value_info.clear();
  graph_.nodes.reserve(nodes_.size());
  for (OnnxNode& node : nodes_) {
    for (const std::string& output : node.outputs) {
      const auto known = facts_.find(output);
      if (known != facts_.end() && known->second.dtype != OnnxType::kUndefined) {
        graph_.value_info.push_back({output, known->second.dtype, known->second.dims});
      }
    }
    graph_.nodes.push_back(std::move(node));
  }
}

void GraphEditor::index(std::list<OnnxNode>::iterator node) {
  places_[&*node] = node;
  for (const std::string& output : node->outputs) {
    if (!output.empty()) {
      producers_[output] = &*node;
    }
  }
  for (const std::string& input : node->inputs) {
    add_use(input, &*node);
  }
}

void GraphEditor::add_use(const std::string& value, OnnxNode* node) {
  if (!value.empty()) {
    users_[value].push_back(node);
    ++uses_[value];
  }
}

void GraphEditor::drop_use(const std::string& value) {
  if (!value.empty()) {
    --uses_.at(value);
  }
}

// ── Reading ──

std::vector<OnnxNode*> GraphEditor::nodes() {
  std::vector<OnnxNode*> result;
  result.reserve(nodes_.size());
  for (OnnxNode& node : nodes_) {
    result.push_back(&node);
  }
  return result;
}

OnnxNode* GraphEditor::producer(const std::string& value) {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

OnnxNode* GraphEditor::producer(const std::string& value, std::string_view op) {
  OnnxNode* node = producer(value);
  return node != nullptr && node->op_type == op && node->domain.empty() ? node : nullptr;
}

std::vector<OnnxNode*> GraphEditor::users(const std::string& value) {
  const auto found = users_.find(value);
  if (found == users_.end()) {
    return {};
  }
  std::vector<OnnxNode*> current;
  std::unordered_set<const OnnxNode*> seen;
  for (OnnxNode* node : found->second) {
    const bool takes =
        !is_erased(node) && std::find(node->inputs.begin(), node->inputs.end(), value) != node->inputs.end();
    if (takes && seen.insert(node).second) {
      current.push_back(node);
    }
  }
  found->second = current;
  return current;
}

bool GraphEditor::has_one_use(const std::string& value) const {
  const auto found = uses_.find(value);
  return found != uses_.end() && found->second == 1 && !is_pinned(value);
}

bool GraphEditor::is_used(const std::string& value) const {
  const auto found = uses_.find(value);
  return is_pinned(value) || (found != uses_.end() && found->second > 0);
}

const OnnxTensor* GraphEditor::initializer(const std::string& name) const {
  const auto found = initializers_.find(name);
  return found == initializers_.end() ? nullptr : &graph_.initializers[found->second];
}

const ValueFacts& GraphEditor::facts(const std::string& value) const {
  static const ValueFacts unknown;
  const auto found = facts_.find(value);
  return found == facts_.end() ? unknown : found->second;
}

// ── Constants ──

std::optional<std::vector<int64_t>> GraphEditor::integers(const std::string& value) const {
  const OnnxTensor* tensor = initializer(value);
  const auto* data = tensor == nullptr ? nullptr : std::get_if<InlineBytes>(&tensor->data);
  if (data == nullptr || tensor->dtype != OnnxType::kInt64 || tensor->dims.size() > 1) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers(data->bytes.size() / sizeof(int64_t));
  std::copy_n(data->bytes.data(), numbers.size() * sizeof(int64_t), reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

std::optional<double> GraphEditor::scalar(const std::string& value) const {
  if (const auto numbers = integers(value)) {
    return numbers->size() == 1 ? std::optional(static_cast<double>(numbers->front())) : std::nullopt;
  }
  const OnnxTensor* tensor = initializer(value);
  const auto* data = tensor == nullptr ? nullptr : std::get_if<InlineBytes>(&tensor->data);
  const bool is_one =
      data != nullptr && std::all_of(tensor->dims.begin(), tensor->dims.end(), [](int64_t size) { return size == 1; });
  return is_one ? first_number(tensor->dtype, data->bytes) : std::nullopt;
}

std::string GraphEditor::add_integers(const std::vector<int64_t>& values, bool is_scalar) {
  const std::string key = fmt::format("{}{}", is_scalar ? "scalar " : "", fmt::join(values, ","));
  const auto known = integers_.find(key);
  if (known != integers_.end()) {
    return known->second;
  }
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  const std::vector<int64_t> dims =
      is_scalar ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(values.size())};
  std::string name = add_initializer({"constant/sizes", OnnxType::kInt64, dims, InlineBytes{std::move(bytes)}});
  integers_.emplace(key, name);
  return name;
}

std::string GraphEditor::add_initializer(OnnxTensor tensor) {
  tensor.name = unique_name(tensor.name);
  std::string name = tensor.name;
  initializers_[name] = graph_.initializers.size();
  facts_[name] = {tensor.dtype, std::vector<OnnxDim>(tensor.dims.begin(), tensor.dims.end())};
  graph_.initializers.push_back(std::move(tensor));
  return name;
}

std::string GraphEditor::unique_name(const std::string& hint) {
  std::string name = hint;
  while (!scope_.names.insert(name).second) {
    name = fmt::format("{}_{}", hint, ++scope_.counts[hint]);
  }
  return name;
}

// ── Edits ──

bool GraphEditor::replace(const std::string& former_name, const std::string& new_name) {
  const std::string value = former_name;  // they may be the very strings of a node that are replaced
  const std::string by = new_name;
  OnnxNode* maker = producer(by);
  if (is_pinned(value)) {
    // The producer of `by` takes the output's name, if both are this graph's to name.
    OnnxNode* former = producer(value);
    if (captured_.contains(value) || maker == nullptr || former == nullptr || is_pinned(by) || maker == former) {
      return false;
    }
    const std::vector<OnnxNode*> others = users(by);
    std::replace(former->outputs.begin(), former->outputs.end(), value, unique_name(value + ".former"));
    std::replace(maker->outputs.begin(), maker->outputs.end(), by, value);
    producers_.erase(by);
    producers_[value] = maker;
    for (OnnxNode* user : others) {
      for (size_t slot = 0; slot < user->inputs.size(); ++slot) {
        if (user->inputs[slot] == by) {
          set_input(*user, slot, value);
        }
      }
    }
    return true;
  }
  for (OnnxNode* user : users(value)) {
    for (size_t slot = 0; slot < user->inputs.size(); ++slot) {
      if (user->inputs[slot] == value) {
        set_input(*user, slot, by);
      }
    }
  }
  return true;
}

void GraphEditor::set_input(OnnxNode& node, size_t slot, const std::string& value) {
  const std::string next = value;  // it may be the very string that is replaced
  drop_use(node.inputs.at(slot));
  node.inputs[slot] = next;
  add_use(next, &node);
}

void GraphEditor::set_inputs(OnnxNode& node, std::vector<std::string> inputs) {
  for (const std::string& input : node.inputs) {
    drop_use(input);
  }
  node.inputs = std::move(inputs);
  for (const std::string& input : node.inputs) {
    add_use(input, &node);
  }
}

OnnxNode& GraphEditor::insert_before(const OnnxNode& place, OnnxNode node, ValueFacts facts) {
  node.name = unique_name(node.name);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    node.outputs[i] = i == 0 ? node.name : unique_name(node.name + "." + std::to_string(i));
  }
  const auto added = nodes_.insert(places_.at(&place), std::move(node));
  index(added);
  facts_[added->outputs.at(0)] = std::move(facts);
  infer_facts(*added, facts_);
  return *added;
}

void GraphEditor::erase(const OnnxNode& node) {
  for (const std::string& input : node.inputs) {
    drop_use(input);
  }
  for (const std::string& output : node.outputs) {
    const auto made = producers_.find(output);
    if (made != producers_.end() && made->second == &node) {
      producers_.erase(made);
    }
  }
  const auto place = places_.find(&node);
  erased_.splice(erased_.end(), nodes_, place->second);
  places_.erase(place);
}

void GraphEditor::erase_unused(OnnxNode& node) {
  std::vector<OnnxNode*> candidates = {&node};
  while (!candidates.empty()) {
    OnnxNode* candidate = candidates.back();
    candidates.pop_back();
    const auto& outputs = candidate->outputs;
    if (is_erased(candidate) ||
        std::any_of(outputs.begin(), outputs.end(), [&](const std::string& output) { return is_used(output); })) {
      continue;
    }
    const std::vector<std::string> inputs = candidate->inputs;
    erase(*candidate);
    for (const std::string& input : inputs) {
      if (OnnxNode* maker = producer(input)) {
        candidates.push_back(maker);
      }
    }
  }
}

void GraphEditor::remove_unused_initializers() {
  std::erase_if(graph_.initializers, [&](const OnnxTensor& tensor) { return !is_used(tensor.name); });
  initializers_.clear();
  integers_.clear();
  for (size_t i = 0; i < graph_.initializers.size(); ++i) {
    initializers_[graph_.initializers[i].name] = i;
  }
}

// ── Nodes ──

int64_t int_attribute(const OnnxNode& node, std::string_view name, int64_t otherwise) {
  const OnnxAttribute* attribute = node.attribute(name);
  const auto* value = attribute == nullptr ? nullptr : std::get_if<int64_t>(&attribute->data);
  return value == nullptr ? otherwise : *value;
}

std::vector<int64_t> ints_attribute(const OnnxNode& node, std::string_view name) {
  const OnnxAttribute* attribute = node.attribute(name);
  const auto* value = attribute == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&attribute->data);
  return value == nullptr ? std::vector<int64_t>() : *value;
}

void set_attribute(OnnxNode& node, std::string_view name, OnnxAttribute::Data value) {
  for (OnnxAttribute& attribute : node.attributes) {
    if (attribute.name == name) {
      attribute.data = std::move(value);
      return;
    }
  }
  node.attributes.push_back({std::string(name), std::move(value)});
}

bool is_unary_elementwise(const OnnxNode& node) {
  static constexpr std::array<std::string_view, 30> kOps = {
      "Abs",   "Acos",       "Asin",        "Atan",      "Cast",  "Ceil",    "Cos",       "Elu", "Erf",  "Exp",
      "Floor", "Gelu",       "HardSigmoid", "HardSwish", "IsInf", "IsNaN",   "LeakyRelu", "Log", "Mish", "Neg",
      "Not",   "Reciprocal", "Relu",        "Round",     "Selu",  "Sigmoid", "Sign",      "Sin", "Sqrt", "Tanh"};
  return node.domain.empty() && node.inputs.size() == 1 && node.outputs.size() == 1 && contains(kOps, node.op_type);
}

bool is_binary_elementwise(const OnnxNode& node) {
  static constexpr std::array<std::string_view, 15> kOps = {
      "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min",
      "Mul", "Or",  "Pow", "Sub",   "Xor"};
  return node.domain.empty() && node.inputs.size() == 2 && node.outputs.size() == 1 && contains(kOps, node.op_type);
}

}  // namespace exporters::onnx
