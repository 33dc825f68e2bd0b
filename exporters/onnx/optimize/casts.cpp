#include "exporters/onnx/optimize/passes.h"

#include <array>

namespace exporters::onnx {
namespace {

enum class Kind { kBool, kUnsigned, kSigned, kFloat };

// Integers up to 2^bits in magnitude are exact in a float type whose significand has that many bits.
struct TypeFacts {
  OnnxType type;
  Kind kind;
  int bits;      // of magnitude: of an integer without its sign, of a float's significand
  int exponent;  // bits of a float's exponent
};

constexpr std::array kTypes = {
    TypeFacts{OnnxType::kBool, Kind::kBool, 1, 0},        TypeFacts{OnnxType::kUint8, Kind::kUnsigned, 8, 0},
    TypeFacts{OnnxType::kUint16, Kind::kUnsigned, 16, 0}, TypeFacts{OnnxType::kUint32, Kind::kUnsigned, 32, 0},
    TypeFacts{OnnxType::kInt8, Kind::kSigned, 7, 0},      TypeFacts{OnnxType::kInt16, Kind::kSigned, 15, 0},
    TypeFacts{OnnxType::kInt32, Kind::kSigned, 31, 0},    TypeFacts{OnnxType::kInt64, Kind::kSigned, 63, 0},
    TypeFacts{OnnxType::kFloat16, Kind::kFloat, 11, 5},   TypeFacts{OnnxType::kBfloat16, Kind::kFloat, 8, 8},
    TypeFacts{OnnxType::kFloat, Kind::kFloat, 24, 8},     TypeFacts{OnnxType::kDouble, Kind::kFloat, 53, 11},
};

const TypeFacts* facts_of(OnnxType type) {
  for (const TypeFacts& each : kTypes) {
    if (each.type == type) {
      return &each;
    }
  }
  return nullptr;
}

bool is_integer(const TypeFacts& type) { return type.kind != Kind::kFloat; }

// Every value of `from` is one of `to`.
bool holds(const TypeFacts& to, const TypeFacts& from) {
  if (from.type == to.type || from.kind == Kind::kBool) {
    return true;
  }
  if (to.kind == Kind::kBool) {
    return false;
  }
  if (to.kind == Kind::kFloat) {
    // 2^63 and the like are within every float's range but float16's, whose 11 bits are less than its range.
    return is_integer(from) ? from.bits <= to.bits : from.bits <= to.bits && from.exponent <= to.exponent;
  }
  if (from.kind == Kind::kFloat || (from.kind == Kind::kSigned && to.kind == Kind::kUnsigned)) {
    return false;
  }
  return from.bits <= to.bits;
}

// Cast to `through`, which loses nothing, and on to `to` is a Cast to `to`. What a float out of an integer type's range
// becomes is not defined, and need not be the same for two float types.
bool is_one_cast(OnnxType from, OnnxType through, OnnxType to) {
  const TypeFacts* a = facts_of(from);
  const TypeFacts* b = facts_of(through);
  const TypeFacts* c = facts_of(to);
  if (a == nullptr || b == nullptr || c == nullptr || !holds(*b, *a)) {
    return false;
  }
  const bool wraps_equally = is_integer(*a) && is_integer(*b) && is_integer(*c);
  return holds(*c, *a) || wraps_equally || c->kind == Kind::kFloat || c->kind == Kind::kBool;
}

}  // namespace

std::vector<std::string> remove_casts(GraphEditor& graph) {
  std::vector<std::string> changed;
  for (OnnxNode* node : graph.nodes()) {
    if (graph.is_erased(node) || node->op_type != "Cast" || !node->domain.empty()) {
      continue;
    }
    const auto to = static_cast<OnnxType>(int_attribute(*node, "to", 0));
    if (graph.facts(node->inputs[0]).dtype == to) {
      if (graph.replace(node->outputs[0], node->inputs[0])) {
        changed.push_back(node->name);
        graph.erase_unused(*node);
      }
      continue;
    }
    OnnxNode* inner = graph.producer(node->inputs[0], "Cast");
    if (inner != nullptr &&
        is_one_cast(graph.facts(inner->inputs[0]).dtype, static_cast<OnnxType>(int_attribute(*inner, "to", 0)), to)) {
      graph.set_input(*node, 0, inner->inputs[0]);
      graph.erase_unused(*inner);
      changed.push_back(node->name);
    }
  }
  return changed;
}

}  // namespace exporters::onnx
