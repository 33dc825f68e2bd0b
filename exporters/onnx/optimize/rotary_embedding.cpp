#include "exporters/onnx/optimize/passes.h"

#include <limits>
#include <unordered_map>

namespace exporters::onnx {
namespace {

constexpr int64_t kRotaryOpset = 23;

// x · cos + [-x₂, x₁] · sin, with x₁ and x₂ the halves of x along its last axis. The operator takes tables of half that
// width, so both halves of cos and of sin have to be one computation.
struct Rotation {
  std::string x;
  std::string cos;
  std::string sin;
};

class RotaryFuser {
 public:
  explicit RotaryFuser(GraphEditor& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    if (graph_.opset() < kRotaryOpset) {
      return {};
    }
    for (OnnxNode* node : graph_.nodes()) {
      if (!graph_.is_erased(node) && node->domain.empty() && node->op_type == "Add" && fuse(*node)) {
        changed_.push_back(node->name);
      }
    }
    return std::move(changed_);
  }

 private:
  bool fuse(OnnxNode& add) {
    const auto rotation = rotation_of(add);
    if (!rotation || !has_kernel(rotation->x)) {
      return false;
    }
    const auto cos = half_table(rotation->cos, rotation->x);
    const auto sin = cos ? half_table(rotation->sin, rotation->x) : std::nullopt;
    if (!sin) {
      return false;
    }
    const std::vector<std::string> former = add.inputs;
    add.op_type = "RotaryEmbedding";
    add.attributes.clear();
    graph_.set_inputs(add, {rotation->x, *cos, *sin});
    for (const std::string& value : former) {
      if (OnnxNode* maker = graph_.producer(value)) {
        graph_.erase_unused(*maker);
      }
    }
    return true;
  }

  bool has_kernel(const std::string& x) const {
    const OnnxType dtype = graph_.facts(x).dtype;
    return graph_.facts(x).rank() == 4u && (dtype == OnnxType::kFloat || dtype == OnnxType::kFloat16);
  }

  // ── The pattern ──

  std::optional<Rotation> rotation_of(const OnnxNode& add) {
    for (const size_t side : {0u, 1u}) {
      OnnxNode* straight = graph_.producer(add.inputs.at(side), "Mul");
      OnnxNode* turned = graph_.producer(add.inputs.at(1 - side), "Mul");
      if (straight == nullptr || turned == nullptr) {
        return std::nullopt;
      }
      for (const size_t which : {0u, 1u}) {
        const auto x = turned_from(turned->inputs.at(which));
        if (!x) {
          continue;
        }
        for (const size_t other : {0u, 1u}) {
          if (straight->inputs.at(other) == *x) {
            return Rotation{*x, straight->inputs.at(1 - other), turned->inputs.at(1 - which)};
          }
        }
      }
    }
    return std::nullopt;
  }

  // x, if the value is Concat(-x₂, x₁) along the last axis.
  std::optional<std::string> turned_from(const std::string& value) {
    OnnxNode* concat = graph_.producer(value, "Concat");
    if (concat == nullptr || concat->inputs.size() != 2 || !is_last_axis(*concat)) {
      return std::nullopt;
    }
    OnnxNode* negative = graph_.producer(concat->inputs[0], "Neg");
    OnnxNode* second = negative == nullptr ? nullptr : graph_.producer(negative->inputs[0], "Slice");
    OnnxNode* first = graph_.producer(concat->inputs[1], "Slice");
    if (first == nullptr || second == nullptr || first->inputs[0] != second->inputs[0]) {
      return std::nullopt;
    }
    const std::string x = first->inputs[0];
    const auto width = last_size(x);
    if (!width || *width % 2 != 0 || !is_part(*first, 0, *width / 2) || !is_part(*second, *width / 2, *width)) {
      return std::nullopt;
    }
    return x;
  }

  std::optional<int64_t> last_size(const std::string& value) const {
    const auto& dims = graph_.facts(value).dims;
    const auto* size = dims && !dims->empty() ? std::get_if<int64_t>(&dims->back()) : nullptr;
    return size == nullptr ? std::nullopt : std::optional(*size);
  }

  bool is_last(int64_t axis, const std::string& value) const {
    const auto rank = graph_.facts(value).rank();
    return axis == -1 || (rank && axis == static_cast<int64_t>(*rank) - 1);
  }

  bool is_last_axis(const OnnxNode& concat) const {
    return is_last(int_attribute(concat, "axis", 0), concat.inputs[0]) ||
           is_last(int_attribute(concat, "axis", 0), concat.outputs[0]);
  }

  bool is_part(const OnnxNode& slice, int64_t begin, int64_t end) const {
    if (slice.inputs.size() < 4) {
      return false;
    }
    const auto start = graph_.integers(slice.inputs[1]);
    const auto stop = graph_.integers(slice.inputs[2]);
    const auto axes = graph_.integers(slice.inputs[3]);
    const auto steps = slice.inputs.size() > 4 ? graph_.integers(slice.inputs[4]) : std::vector<int64_t>{1};
    const auto is = [](const auto& list, int64_t value) { return list && list->size() == 1 && list->front() == value; };
    // The end may lie beyond the axis, where the part is the last one.
    const bool ends =
        is(stop, end) || (end == last_size(slice.inputs[0]) && stop && stop->size() == 1 && stop->front() > end);
    return is(start, begin) && ends && is(steps, 1) && axes && axes->size() == 1 &&
           is_last(axes->front(), slice.inputs[0]);
  }

  // ── Tables ──

  // [batch, length, width / 2] of a table [batch, 1, length, width] whose halves are equal. The operator takes no table
  // that is one for the whole batch.
  std::optional<std::string> half_table(const std::string& table, const std::string& x) {
    const auto& wide = graph_.facts(table).dims;
    const auto& dims = graph_.facts(x).dims;
    OnnxNode* view = graph_.producer(table);
    const bool is_view =
        view != nullptr && view->domain.empty() && (view->op_type == "Unsqueeze" || view->op_type == "Reshape");
    if (!is_view || !wide || wide->size() != 4 || (*wide)[1] != OnnxDim(int64_t{1}) || (*wide)[0] != (*dims)[0] ||
        (*wide)[2] != (*dims)[2] || (*wide)[3] != (*dims)[3] || std::holds_alternative<std::monostate>((*wide)[0]) ||
        std::holds_alternative<std::monostate>((*wide)[2])) {
      return std::nullopt;
    }
    const std::string source = view->inputs[0];
    const auto& narrow = graph_.facts(source).dims;
    const bool adds_axis = narrow && narrow->size() == 3 && (*narrow)[0] == (*wide)[0] && (*narrow)[1] == (*wide)[2] &&
                           (*narrow)[2] == (*wide)[3];
    return adds_axis ? half_of(source) : std::nullopt;
  }

  // The first half along the last axis, where it is known to equal the second.
  std::optional<std::string> half_of(const std::string& value) {
    if (const auto known = halves_.find(value); known != halves_.end()) {
      return known->second;
    }
    OnnxNode* maker = graph_.producer(value);
    if (maker == nullptr || !maker->domain.empty()) {
      return std::nullopt;
    }
    std::optional<std::string> half;
    if (maker->op_type == "Concat" && maker->inputs.size() == 2 && maker->inputs[0] == maker->inputs[1] &&
        is_last_axis(*maker)) {
      half = maker->inputs[0];
    } else if (is_unary_elementwise(*maker)) {
      half = half_of_elementwise(*maker);
    } else if (maker->op_type == "Mul" || maker->op_type == "Div") {
      const bool by_number = graph_.facts(maker->inputs.at(1)).rank() == 0u;
      half = by_number ? half_of_elementwise(*maker) : std::nullopt;
    }
    if (half) {
      halves_.emplace(value, *half);
    }
    return half;
  }

  // Nodes go where the whole table is made, which is before all that take it.
  std::optional<std::string> half_of_elementwise(const OnnxNode& maker) {
    const auto source = half_of(maker.inputs.at(0));
    if (!source) {
      return std::nullopt;
    }
    OnnxNode node{maker.name + "/half", maker.op_type, "", maker.inputs, {""}, maker.attributes};
    node.inputs[0] = *source;
    ValueFacts facts = graph_.facts(maker.outputs[0]);
    if (facts.dims && !facts.dims->empty()) {
      const auto* width = std::get_if<int64_t>(&facts.dims->back());
      facts.dims->back() = width == nullptr ? OnnxDim() : OnnxDim(*width / 2);
    }
    return graph_.insert_before(maker, std::move(node), std::move(facts)).outputs[0];
  }

  GraphEditor& graph_;
  std::unordered_map<std::string, std::string> halves_;
  std::vector<std::string> changed_;
};

}  // namespace

std::vector<std::string> fuse_rotary_embedding(GraphEditor& graph) { return RotaryFuser(graph).run(); }

}  // namespace exporters::onnx
