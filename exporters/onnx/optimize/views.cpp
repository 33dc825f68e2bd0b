#include "exporters/onnx/optimize/passes.h"

#include <algorithm>

namespace exporters::onnx {
namespace {

using Numbers = std::vector<int64_t>;

class ViewMerger {
 public:
  explicit ViewMerger(GraphEditor& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    for (OnnxNode* node : graph_.nodes()) {
      if (!graph_.is_erased(node) && node->domain.empty() && !node->inputs.empty() && merge(*node)) {
        changed_.push_back(node->name);
      }
    }
    return std::move(changed_);
  }

 private:
  bool merge(OnnxNode& node) {
    if (node.op_type == "Unsqueeze") {
      return unsqueeze_of_unsqueeze(node) || undone(node, "Squeeze");
    }
    if (node.op_type == "Squeeze") {
      return undone(node, "Unsqueeze");
    }
    if (node.op_type == "Reshape") {
      return reshape_of_view(node);
    }
    if (node.op_type == "Slice") {
      return slice_of_slice(node);
    }
    return node.op_type == "Concat" && concat_of_concat(node);
  }

  std::optional<Numbers> axes_of(const OnnxNode& node) const {
    auto axes = node.inputs.size() > 1 ? graph_.integers(node.inputs[1]) : std::nullopt;
    if (!axes || std::any_of(axes->begin(), axes->end(), [](int64_t axis) { return axis < 0; })) {
      return std::nullopt;
    }
    std::sort(axes->begin(), axes->end());
    return axes;
  }

  // Takes the inner node's input from now on.
  void look_through(OnnxNode& node, OnnxNode& inner) {
    graph_.set_input(node, 0, inner.inputs[0]);
    graph_.erase_unused(inner);
  }

  // The inner axes move behind those that are put before them.
  bool unsqueeze_of_unsqueeze(OnnxNode& node) {
    OnnxNode* inner = graph_.producer(node.inputs[0], "Unsqueeze");
    const auto outer_axes = axes_of(node);
    const auto inner_axes = inner == nullptr ? std::nullopt : axes_of(*inner);
    if (!outer_axes || !inner_axes) {
      return false;
    }
    Numbers axes = *outer_axes;
    for (int64_t axis : *inner_axes) {
      for (const int64_t added : *outer_axes) {
        axis += added <= axis ? 1 : 0;
      }
      axes.push_back(axis);
    }
    std::sort(axes.begin(), axes.end());
    graph_.set_input(node, 1, graph_.add_integers(axes));
    look_through(node, *inner);
    return true;
  }

  bool undone(OnnxNode& node, std::string_view by) {
    OnnxNode* inner = graph_.producer(node.inputs[0], by);
    const auto axes = axes_of(node);
    if (inner == nullptr || !axes || axes_of(*inner) != axes || !graph_.replace(node.outputs[0], inner->inputs[0])) {
      return false;
    }
    graph_.erase_unused(node);
    return true;
  }

  // Only the last shape counts, as long as it takes no axis over from the shape before.
  bool reshape_of_view(OnnxNode& node) {
    OnnxNode* inner = graph_.producer(node.inputs[0]);
    const auto target = graph_.integers(node.inputs.at(1));
    if (inner == nullptr || !inner->domain.empty() || !target ||
        (inner->op_type != "Reshape" && inner->op_type != "Squeeze" && inner->op_type != "Unsqueeze")) {
      return false;
    }
    const auto& before = graph_.facts(inner->inputs[0]).dims;
    const auto& between = graph_.facts(node.inputs[0]).dims;
    for (size_t axis = 0; axis < target->size(); ++axis) {
      const bool copies = (*target)[axis] == 0 && int_attribute(node, "allowzero", 0) == 0;
      const bool same = before && between && axis < before->size() && axis < between->size() &&
                        !std::holds_alternative<std::monostate>((*before)[axis]) && (*before)[axis] == (*between)[axis];
      if (copies && !same) {
        return false;
      }
    }
    look_through(node, *inner);
    return true;
  }

  // Starts, ends, axes and steps of a Slice, when all are numbers and no axis counts from the end.
  struct Cut {
    Numbers starts;
    Numbers ends;
    Numbers axes;
    Numbers steps;
  };
  std::optional<Cut> cut_of(const OnnxNode& node) const {
    if (node.inputs.size() < 4) {
      return std::nullopt;
    }
    const auto starts = graph_.integers(node.inputs[1]);
    const auto ends = graph_.integers(node.inputs[2]);
    const auto axes = graph_.integers(node.inputs[3]);
    if (!starts || !ends || !axes || std::any_of(axes->begin(), axes->end(), [](int64_t axis) { return axis < 0; })) {
      return std::nullopt;
    }
    const auto steps = node.inputs.size() > 4 ? graph_.integers(node.inputs[4]) : Numbers(axes->size(), 1);
    return steps ? std::optional(Cut{*starts, *ends, *axes, *steps}) : std::nullopt;
  }

  // Along different axes.
  bool slice_of_slice(OnnxNode& node) {
    OnnxNode* inner = graph_.producer(node.inputs[0], "Slice");
    if (inner == nullptr || !graph_.has_one_use(node.inputs[0])) {
      return false;
    }
    const auto outer = cut_of(node);
    const auto first = cut_of(*inner);
    if (!outer || !first || std::any_of(outer->axes.begin(), outer->axes.end(), [&](int64_t axis) {
          return std::find(first->axes.begin(), first->axes.end(), axis) != first->axes.end();
        })) {
      return false;
    }
    const auto joined = [&](Numbers Cut::*list) {
      Numbers both = (*first).*list;
      both.insert(both.end(), ((*outer).*list).begin(), ((*outer).*list).end());
      return graph_.add_integers(both);
    };
    const std::string source = inner->inputs[0];
    graph_.set_inputs(node,
                      {source, joined(&Cut::starts), joined(&Cut::ends), joined(&Cut::axes), joined(&Cut::steps)});
    graph_.erase_unused(*inner);
    return true;
  }

  bool concat_of_concat(OnnxNode& node) {
    const int64_t axis = int_attribute(node, "axis", 0);
    std::vector<std::string> inputs;
    std::vector<OnnxNode*> merged;
    for (const std::string& input : node.inputs) {
      OnnxNode* inner = graph_.producer(input, "Concat");
      if (inner != nullptr && graph_.has_one_use(input) && int_attribute(*inner, "axis", 0) == axis) {
        inputs.insert(inputs.end(), inner->inputs.begin(), inner->inputs.end());
        merged.push_back(inner);
      } else {
        inputs.push_back(input);
      }
    }
    if (merged.empty()) {
      return false;
    }
    graph_.set_inputs(node, std::move(inputs));
    std::for_each(merged.begin(), merged.end(), [&](OnnxNode* inner) { graph_.erase_unused(*inner); });
    return true;
  }

  GraphEditor& graph_;
  std::vector<std::string> changed_;
};

}  // namespace

std::vector<std::string> merge_views(GraphEditor& graph) { return ViewMerger(graph).run(); }

}  // namespace exporters::onnx
