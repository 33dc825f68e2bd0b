#include "exporters/onnx/optimize/passes.h"
#include "exporters/onnx/optimize/small_integers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace exporters::onnx {
namespace {

using Numbers = std::vector<int64_t>;

/// An axis of a value.
struct Axis {
  std::string value;
  int64_t index = 0;

  bool follows(const Axis& other, size_t distance) const {
    return value == other.value && index == other.index + static_cast<int64_t>(distance);
  }
};

/// The axes whose sizes a Shape gives.
struct ShapeRange {
  int64_t begin = 0;
  int64_t end = 0;
};

class ShapeSimplifier {
 public:
  explicit ShapeSimplifier(GraphEditor& graph) : graph_(graph) {
    for (const OnnxValueInfo& input : graph.inputs()) {
      const auto& dims = graph.facts(input.name).dims;
      for (size_t axis = 0; dims && axis < dims->size() && !is_cache(input.name); ++axis) {
        if (const auto* name = std::get_if<std::string>(&(*dims)[axis])) {
          inputs_.try_emplace(*name, Axis{input.name, static_cast<int64_t>(axis)});
        }
      }
    }
  }

  std::vector<std::string> run() {
    for (OnnxNode* node : graph_.nodes()) {
      if (!graph_.is_erased(node) && node->domain.empty() && !node->outputs.empty() && simplify(*node)) {
        changed_.push_back(node->name);
      }
    }
    return std::move(changed_);
  }

 private:
  bool simplify(OnnxNode& node) {
    if (node.op_type == "Shape") {
      return shape(node);
    }
    if (node.op_type == "Gather" || node.op_type == "Slice") {
      return part_of_shape(node) || folded(node);
    }
    if (node.op_type == "Concat") {
      return joined(node) || folded(node);
    }
    if (node.op_type == "Reshape") {
      return constant_target(node);
    }
    return folded(node);
  }

  // There may be room behind it: Note [Room behind a cache].
  bool is_cache(const std::string& input) {
    const std::vector<OnnxNode*> users = graph_.users(input);
    return std::any_of(users.begin(), users.end(),
                       [](const OnnxNode* node) { return node->op_type == "GroupQueryAttention"; });
  }

  // ── Shape ──

  std::optional<ShapeRange> range_of(const OnnxNode& node) const {
    const auto rank = graph_.facts(node.inputs.at(0)).rank();
    if (!rank) {
      return std::nullopt;
    }
    const auto size = static_cast<int64_t>(*rank);
    const auto clamp = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + size : axis, 0, size); };
    ShapeRange range{clamp(int_attribute(node, "start", 0)), clamp(int_attribute(node, "end", size))};
    range.end = std::max(range.begin, range.end);
    return range;
  }

  // Numbers where all are known; else the same sizes of an input, where it has them side by side.
  bool shape(OnnxNode& node) {
    const auto range = range_of(node);
    if (!range) {
      return false;
    }
    const std::vector<OnnxDim>& dims = *graph_.facts(node.inputs[0]).dims;
    Numbers numbers;
    std::optional<Axis> source;
    bool same_source = true;
    for (int64_t axis = range->begin; axis < range->end; ++axis) {
      const OnnxDim& dim = dims[static_cast<size_t>(axis)];
      const auto distance = static_cast<size_t>(axis - range->begin);
      if (const auto* number = std::get_if<int64_t>(&dim)) {
        numbers.push_back(*number);
        same_source = false;
        continue;
      }
      const auto* name = std::get_if<std::string>(&dim);
      const auto input = name == nullptr ? inputs_.end() : inputs_.find(*name);
      if (input == inputs_.end()) {
        same_source = false;
      } else if (distance == 0) {
        source = input->second;
      } else {
        same_source = same_source && source && input->second.follows(*source, distance);
      }
    }
    if (static_cast<int64_t>(numbers.size()) == range->end - range->begin) {
      return become(node, numbers, false);
    }
    if (!source || !same_source || source->value == node.inputs[0]) {
      return false;
    }
    graph_.set_input(node, 0, source->value);
    node.attributes.clear();
    set_attribute(node, "start", source->index);
    set_attribute(node, "end", source->index + range->end - range->begin);
    return true;
  }

  // One element, or neighbours, of a Shape: a Shape of those axes alone.
  bool part_of_shape(OnnxNode& node) {
    OnnxNode* shape = graph_.producer(node.inputs[0], "Shape");
    const auto range = shape == nullptr ? std::nullopt : range_of(*shape);
    if (!range) {
      return false;
    }
    const auto part = node.op_type == "Gather" ? gathered(node, *range) : sliced(node, *range);
    if (!part) {
      return false;
    }
    const std::string value = shape->inputs[0];
    if (node.op_type == "Gather" && graph_.facts(node.inputs[1]).rank() == 0u) {
      return single_size(node, value, part->begin);
    }
    node.op_type = "Shape";
    graph_.set_inputs(node, {value});
    node.attributes.clear();
    set_attribute(node, "start", part->begin);
    set_attribute(node, "end", part->end);
    graph_.erase_unused(*shape);
    return true;
  }

  std::optional<ShapeRange> gathered(const OnnxNode& node, const ShapeRange& range) const {
    const auto index = graph_.integers(node.inputs.at(1));
    const int64_t count = range.end - range.begin;
    if (!index || index->size() != 1 || index->front() < -count || index->front() >= count) {
      return std::nullopt;
    }
    const int64_t axis = range.begin + (index->front() < 0 ? index->front() + count : index->front());
    return ShapeRange{axis, axis + 1};
  }

  std::optional<ShapeRange> sliced(const OnnxNode& node, const ShapeRange& range) const {
    if (node.inputs.size() < 3) {
      return std::nullopt;
    }
    const auto starts = graph_.integers(node.inputs[1]);
    const auto ends = graph_.integers(node.inputs[2]);
    const auto steps = node.inputs.size() > 4 ? graph_.integers(node.inputs[4]) : Numbers{1};
    if (!starts || !ends || !steps || starts->size() != 1 || ends->size() != 1 || *steps != Numbers{1}) {
      return std::nullopt;
    }
    const int64_t count = range.end - range.begin;
    const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + count : i, 0, count); };
    const int64_t begin = clamp(starts->front());
    const int64_t end = clamp(ends->front());
    return begin < end ? std::optional(ShapeRange{range.begin + begin, range.begin + end}) : std::nullopt;
  }

  // A 0-d size is a number or stays as it is: a Shape and a Squeeze would be no fewer nodes.
  bool single_size(OnnxNode& node, const std::string& value, int64_t axis) {
    const auto* number = std::get_if<int64_t>(&graph_.facts(value).dims->at(static_cast<size_t>(axis)));
    return number != nullptr && become(node, {*number}, true);
  }

  // ── Concat ──

  // Neighbouring axes of one value are one Shape, neighbouring constants one constant.
  bool joined(OnnxNode& node) {
    if (int_attribute(node, "axis", 0) != 0) {
      return false;
    }
    std::vector<std::string> inputs;
    for (const std::string& input : node.inputs) {
      if (inputs.empty() || !merge(node, inputs.back(), input)) {
        inputs.push_back(input);
      }
    }
    if (inputs.size() == node.inputs.size()) {
      return false;
    }
    graph_.set_inputs(node, std::move(inputs));
    return true;
  }

  // `last` becomes what both are, one behind the other.
  bool merge(const OnnxNode& place, std::string& last, const std::string& next) {
    const auto a = graph_.integers(last);
    const auto b = graph_.integers(next);
    if (a && b && graph_.facts(last).rank() == 1u && graph_.facts(next).rank() == 1u) {
      Numbers both = *a;
      both.insert(both.end(), b->begin(), b->end());
      last = graph_.add_integers(both);
      return true;
    }
    OnnxNode* first = graph_.producer(last, "Shape");
    OnnxNode* second = graph_.producer(next, "Shape");
    if (first == nullptr || second == nullptr || first->inputs[0] != second->inputs[0]) {
      return false;
    }
    const auto head = range_of(*first);
    const auto tail = range_of(*second);
    if (!head || !tail || head->end != tail->begin) {
      return false;
    }
    OnnxNode shape{place.name + ".shape", "Shape", "", {first->inputs[0]}, {""}, {}};
    set_attribute(shape, "start", head->begin);
    set_attribute(shape, "end", tail->end);
    last = graph_.insert_before(place, std::move(shape), {OnnxType::kInt64, std::nullopt}).outputs[0];
    return true;
  }

  // ── Reshape ──

  // One entry of a computed shape: a number, or an axis of a value.
  using Entry = std::variant<std::monostate, int64_t, Axis>;

  std::vector<Entry> entries_of(const std::string& shape) {
    if (const auto numbers = graph_.integers(shape)) {
      return std::vector<Entry>(numbers->begin(), numbers->end());
    }
    std::vector<Entry> entries;
    OnnxNode* maker = graph_.producer(shape);
    if (maker == nullptr || !maker->domain.empty()) {
      return {std::monostate()};
    }
    if (maker->op_type == "Shape") {
      const auto range = range_of(*maker);
      for (int64_t axis = range ? range->begin : 0; range && axis < range->end; ++axis) {
        entries.emplace_back(Axis{maker->inputs[0], axis});
      }
      return range ? entries : std::vector<Entry>{std::monostate()};
    }
    if (maker->op_type == "Concat") {
      for (const std::string& part : maker->inputs) {
        OnnxNode* inner = graph_.producer(part);
        const bool is_plain = inner == nullptr || inner->op_type == "Shape";
        const std::vector<Entry> more = is_plain ? entries_of(part) : std::vector<Entry>{std::monostate()};
        entries.insert(entries.end(), more.begin(), more.end());
      }
      return entries;
    }
    return {std::monostate()};
  }

  // Whether an axis is as long as the data's axis `at`.
  bool is_axis_of(const Entry& entry, const std::string& data, size_t at) const {
    const auto* axis = std::get_if<Axis>(&entry);
    if (axis == nullptr) {
      return false;
    }
    if (axis->value == data && axis->index == static_cast<int64_t>(at)) {
      return true;
    }
    const auto& dims = graph_.facts(data).dims;
    const auto& others = graph_.facts(axis->value).dims;
    return dims && others && at < dims->size() && axis->index < static_cast<int64_t>(others->size()) &&
           std::holds_alternative<std::string>((*dims)[at]) &&
           (*dims)[at] == (*others)[static_cast<size_t>(axis->index)];
  }

  // A computed shape that is written with numbers, 0 for the data's own axis, and at most one -1. Beside a 0, whose
  // size may be zero, a -1 would not be determined.
  bool constant_target(OnnxNode& node) {
    if (graph_.integers(node.inputs.at(1))) {
      return false;
    }
    const std::vector<Entry> entries = entries_of(node.inputs[1]);
    Numbers target;
    size_t open = 0;
    bool all_positive = true;
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto* number = std::get_if<int64_t>(&entries[i]);
      if (std::holds_alternative<std::monostate>(entries[i])) {
        return false;  // it may be several entries
      }
      if (number != nullptr && *number <= 0) {
        return false;
      }
      if (number != nullptr) {
        target.push_back(*number);
      } else if (is_axis_of(entries[i], node.inputs[0], i)) {
        target.push_back(0);
        all_positive = false;
      } else {
        target.push_back(-1);
        ++open;
      }
    }
    if (open > 1 || (open == 1 && !all_positive)) {
      return false;
    }
    std::erase_if(node.attributes, [](const OnnxAttribute& attribute) { return attribute.name == "allowzero"; });
    OnnxNode* maker = graph_.producer(node.inputs[1]);
    graph_.set_input(node, 1, graph_.add_integers(target));
    if (maker != nullptr) {
      graph_.erase_unused(*maker);
    }
    return true;
  }

  // ── Constants ──

  bool folded(OnnxNode& node) {
    const auto value = evaluate_integers(graph_, node);
    return value && become(node, value->numbers, value->is_scalar);
  }

  bool become(OnnxNode& node, const Numbers& numbers, bool is_scalar) {
    if (graph_.is_pinned(node.outputs[0])) {
      return false;
    }
    graph_.replace(node.outputs[0], graph_.add_integers(numbers, is_scalar));
    graph_.erase_unused(node);
    return true;
  }

  GraphEditor& graph_;
  std::map<std::string, Axis> inputs_;  // name of a size → where an input has it
  std::vector<std::string> changed_;
};

}  // namespace

std::vector<std::string> simplify_shapes(GraphEditor& graph) { return ShapeSimplifier(graph).run(); }

}  // namespace exporters::onnx
