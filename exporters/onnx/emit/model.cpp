#include "exporters/onnx/emit/model.h"

#include "exporters/support/error.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace exporters::onnx {
namespace {

struct TypeRow {
  OnnxType onnx;
  std::string_view name;
  int64_t bits;
  c10::ScalarType torch;  // Undefined where torch has none
};

constexpr auto kNone = c10::ScalarType::Undefined;
constexpr std::array kTypes = {
    TypeRow{OnnxType::kFloat, "float32", 32, c10::ScalarType::Float},
    TypeRow{OnnxType::kUint8, "uint8", 8, c10::ScalarType::Byte},
    TypeRow{OnnxType::kInt8, "int8", 8, c10::ScalarType::Char},
    TypeRow{OnnxType::kUint16, "uint16", 16, c10::ScalarType::UInt16},
    TypeRow{OnnxType::kInt16, "int16", 16, c10::ScalarType::Short},
    TypeRow{OnnxType::kInt32, "int32", 32, c10::ScalarType::Int},
    TypeRow{OnnxType::kInt64, "int64", 64, c10::ScalarType::Long},
    TypeRow{OnnxType::kString, "string", 0, kNone},
    TypeRow{OnnxType::kBool, "bool", 8, c10::ScalarType::Bool},
    TypeRow{OnnxType::kFloat16, "float16", 16, c10::ScalarType::Half},
    TypeRow{OnnxType::kDouble, "float64", 64, c10::ScalarType::Double},
    TypeRow{OnnxType::kUint32, "uint32", 32, c10::ScalarType::UInt32},
    TypeRow{OnnxType::kUint64, "uint64", 64, c10::ScalarType::UInt64},
    TypeRow{OnnxType::kComplex64, "complex64", 64, c10::ScalarType::ComplexFloat},
    TypeRow{OnnxType::kComplex128, "complex128", 128, c10::ScalarType::ComplexDouble},
    TypeRow{OnnxType::kBfloat16, "bfloat16", 16, c10::ScalarType::BFloat16},
    TypeRow{OnnxType::kFloat8E4M3Fn, "float8e4m3fn", 8, c10::ScalarType::Float8_e4m3fn},
    TypeRow{OnnxType::kFloat8E4M3Fnuz, "float8e4m3fnuz", 8, c10::ScalarType::Float8_e4m3fnuz},
    TypeRow{OnnxType::kFloat8E5M2, "float8e5m2", 8, c10::ScalarType::Float8_e5m2},
    TypeRow{OnnxType::kFloat8E5M2Fnuz, "float8e5m2fnuz", 8, c10::ScalarType::Float8_e5m2fnuz},
    TypeRow{OnnxType::kUint4, "uint4", 4, kNone},
    TypeRow{OnnxType::kInt4, "int4", 4, kNone},
    TypeRow{OnnxType::kFloat4E2M1, "float4e2m1", 4, kNone},
    TypeRow{OnnxType::kFloat8E8M0, "float8e8m0", 8, kNone},
    TypeRow{OnnxType::kUint2, "uint2", 2, kNone},
    TypeRow{OnnxType::kInt2, "int2", 2, kNone},
};

const TypeRow* find_row(OnnxType type) {
  const auto* row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.onnx == type; });
  return row == kTypes.end() ? nullptr : row;
}

struct IrRow {
  int64_t opset;
  int64_t ir;
};
// onnx/docs/Versioning.md, "Released Versions".
constexpr std::array kIrVersions = {IrRow{18, 8},  IrRow{19, 9},  IrRow{20, 9}, IrRow{21, 10},
                                    IrRow{22, 10}, IrRow{23, 11}, IrRow{24, 12}};

}  // namespace

OnnxType onnx_type(c10::ScalarType dtype) {
  if (dtype != kNone) {
    for (const TypeRow& row : kTypes) {
      if (row.torch == dtype) {
        return row.onnx;
      }
    }
  }
  throw Error(fmt::format("ONNX has no tensor type for torch dtype {}", c10::toString(dtype)), {},
              "Convert the tensor to a supported dtype before the export.");
}

std::optional<c10::ScalarType> scalar_type(OnnxType type) {
  const TypeRow* row = find_row(type);
  return row != nullptr && row->torch != kNone ? std::optional(row->torch) : std::nullopt;
}

std::string type_name(OnnxType type) {
  const TypeRow* row = find_row(type);
  return row != nullptr ? std::string(row->name) : fmt::format("type {}", static_cast<int32_t>(type));
}

int64_t bits_per_element(OnnxType type) {
  const TypeRow* row = find_row(type);
  return row != nullptr ? row->bits : 0;
}

std::string dim_text(const OnnxDim& dim) {
  if (const auto* number = std::get_if<int64_t>(&dim)) {
    return std::to_string(*number);
  }
  const auto* name = std::get_if<std::string>(&dim);
  return name != nullptr ? *name : "?";
}

bool OnnxTensor::is_pending() const {
  return std::holds_alternative<WeightSource>(data) || std::holds_alternative<at::Tensor>(data) ||
         std::holds_alternative<ComputedBytes>(data);
}

std::optional<uint64_t> OnnxTensor::expected_bytes() const {
  const auto bits = static_cast<uint64_t>(bits_per_element(dtype));
  if (bits == 0) {
    return std::nullopt;
  }
  uint64_t total = bits;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(total, static_cast<uint64_t>(dim), &total)) {
      return std::nullopt;
    }
  }
  return total / 8 + (total % 8 != 0 ? 1 : 0);
}

const OnnxAttribute* OnnxNode::attribute(std::string_view wanted) const {
  for (const OnnxAttribute& attribute : attributes) {
    if (attribute.name == wanted) {
      return &attribute;
    }
  }
  return nullptr;
}

void OnnxModel::import_contrib_domain() {
  constexpr const char* kDomain = "com.microsoft";
  const bool used =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const OnnxNode& node) { return node.domain == kDomain; });
  if (used && !opset(kDomain)) {
    opsets.emplace_back(kDomain, 1);
  }
}

std::optional<int64_t> OnnxModel::opset(std::string_view domain) const {
  for (const auto& [name, version] : opsets) {
    if (name == domain || (domain.empty() && name == "ai.onnx")) {
      return version;
    }
  }
  return std::nullopt;
}

int64_t ir_version_for_opset(int64_t opset) {
  for (const IrRow& row : kIrVersions) {
    if (row.opset == opset) {
      return row.ir;
    }
  }
  throw Error(fmt::format("opset {} is not supported", opset), {},
              fmt::format("Use opset_version {} to {}.", kIrVersions.front().opset, kIrVersions.back().opset));
}

void for_each_inner_graph(const OnnxNode& node, const std::function<void(OnnxGraph&)>& visit) {
  for (const OnnxAttribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<OnnxGraph>>(&attribute.data)) {
      visit(**body);
    } else if (const auto* bodies = std::get_if<std::vector<std::shared_ptr<OnnxGraph>>>(&attribute.data)) {
      for (const auto& each : *bodies) {
        visit(*each);
      }
    }
  }
}

void for_each_graph(OnnxGraph& graph, const std::function<void(OnnxGraph&)>& visit) {
  visit(graph);
  for (const OnnxNode& node : graph.nodes) {
    for_each_inner_graph(node, [&](OnnxGraph& inner) { for_each_graph(inner, visit); });
  }
}

namespace {

// Names that the node takes, those that graphs inside it take from outside among them.
void add_uses(const OnnxNode& node, std::unordered_set<std::string>& used) {
  used.insert(node.inputs.begin(), node.inputs.end());
  for_each_inner_graph(node, [&](OnnxGraph& inner) {
    for (const OnnxNode& each : inner.nodes) {
      add_uses(each, used);
    }
    for (const OnnxValueInfo& output : inner.outputs) {
      used.insert(output.name);
    }
  });
}

}  // namespace

std::vector<const OnnxNode*> dead_nodes(const std::vector<const OnnxNode*>& nodes,
                                        const std::vector<OnnxValueInfo>& outputs) {
  std::unordered_set<std::string> used;
  for (const OnnxValueInfo& output : outputs) {
    used.insert(output.name);
  }
  std::vector<const OnnxNode*> dead;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {  // users before what they use
    const std::vector<std::string>& results = (*node)->outputs;
    if (std::any_of(results.begin(), results.end(), [&](const std::string& name) { return used.contains(name); })) {
      add_uses(**node, used);
    } else {
      dead.push_back(*node);
    }
  }
  return dead;
}

void remove_dead_nodes(OnnxGraph& graph) {
  std::vector<const OnnxNode*> nodes;
  for (const OnnxNode& node : graph.nodes) {
    nodes.push_back(&node);
  }
  const std::vector<const OnnxNode*> dead = dead_nodes(nodes, graph.outputs);
  const std::unordered_set<const OnnxNode*> is_dead(dead.begin(), dead.end());
  std::vector<OnnxNode> live;
  std::unordered_set<std::string> used;
  for (OnnxNode& node : graph.nodes) {
    if (!is_dead.contains(&node)) {
      add_uses(node, used);
      live.push_back(std::move(node));
    }
  }
  graph.nodes = std::move(live);
  for (const OnnxValueInfo& output : graph.outputs) {
    used.insert(output.name);
  }
  std::erase_if(graph.initializers, [&](const OnnxTensor& tensor) { return !used.contains(tensor.name); });
}

void detach_inner_graphs(OnnxGraph& graph) {
  const auto detach = [](std::shared_ptr<OnnxGraph>& inner) {
    inner = std::make_shared<OnnxGraph>(*inner);
    detach_inner_graphs(*inner);
  };
  for (OnnxNode& node : graph.nodes) {
    for (OnnxAttribute& attribute : node.attributes) {
      if (auto* body = std::get_if<std::shared_ptr<OnnxGraph>>(&attribute.data)) {
        detach(*body);
      } else if (auto* bodies = std::get_if<std::vector<std::shared_ptr<OnnxGraph>>>(&attribute.data)) {
        std::for_each(bodies->begin(), bodies->end(), detach);
      }
    }
  }
}

void rename_values(OnnxGraph& graph, const std::unordered_map<std::string, std::string>& names) {
  const auto rename = [&](std::string& name) {
    if (const auto found = names.find(name); found != names.end()) {
      name = found->second;
    }
  };
  detach_inner_graphs(graph);
  for_each_graph(graph, [&](OnnxGraph& each) {
    for (OnnxNode& node : each.nodes) {
      std::for_each(node.inputs.begin(), node.inputs.end(), rename);
      std::for_each(node.outputs.begin(), node.outputs.end(), rename);
    }
  });
}

namespace {

// Graph is OnnxGraph or const OnnxGraph.
template <typename Graph, typename Visit>
void visit_tensors(Graph& graph, const Visit& visit) {
  std::for_each(graph.initializers.begin(), graph.initializers.end(), visit);
  for (auto& node : graph.nodes) {
    for (auto& attribute : node.attributes) {
      if (auto* tensor = std::get_if<OnnxTensor>(&attribute.data)) {
        visit(*tensor);
      }
    }
    for_each_inner_graph(node, [&](OnnxGraph& inner) { visit_tensors<Graph>(inner, visit); });
  }
}

}  // namespace

void for_each_tensor(const OnnxGraph& graph, const std::function<void(const OnnxTensor&)>& visit) {
  visit_tensors(graph, visit);
}

void for_each_tensor(OnnxGraph& graph, const std::function<void(OnnxTensor&)>& visit) {
  detach_inner_graphs(graph);
  visit_tensors(graph, visit);
}

}  // namespace exporters::onnx
