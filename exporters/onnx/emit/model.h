#pragma once

#include "exporters/graph/exported_program.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace exporters::onnx {

class ComputedData;
struct OnnxGraph;

/// TensorProto.DataType of the ONNX specification.
enum class OnnxType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3Fn = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

/// Throws Error for a torch dtype that ONNX does not have.
OnnxType onnx_type(c10::ScalarType dtype);
/// Nothing for an ONNX type that torch does not have.
std::optional<c10::ScalarType> scalar_type(OnnxType type);
/// "float32", "int64": torch's names where it has the type; "type 99" for an unknown number.
std::string type_name(OnnxType type);
/// Bits of one element; 0 for strings and unknown types.
int64_t bits_per_element(OnnxType type);

/// An axis of a value: a number, a name (dim_param), or unknown.
using OnnxDim = std::variant<std::monostate, int64_t, std::string>;
std::string dim_text(const OnnxDim& dim);  ///< "8", "batch", "?"

struct OnnxValueInfo {
  std::string name;
  OnnxType dtype = OnnxType::kUndefined;     ///< kUndefined for a value that is not a tensor
  std::optional<std::vector<OnnxDim>> dims;  ///< nothing when the rank is unknown
};

/// A tensor's little-endian bytes inside the model message.
struct InlineBytes {
  std::string bytes;
};
/// Bytes in a file beside the model.
struct StoredBytes {
  std::string location;  ///< relative to the model's folder
  uint64_t offset = 0;
  std::optional<uint64_t> length;  ///< the writer always states it
};
/// Inline bytes that the reader was told not to keep.
struct OmittedBytes {
  uint64_t nbytes = 0;
};

/// A range of bytes that are made while they are written.
struct ComputedBytes {
  std::shared_ptr<const ComputedData> data;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
};

struct OnnxTensor {
  std::string name;
  OnnxType dtype = OnnxType::kUndefined;
  std::vector<int64_t> dims;
  /// WeightSource, at::Tensor and ComputedBytes are yet to be laid out in the external data file (see external_data.h).
  std::variant<InlineBytes, StoredBytes, OmittedBytes, WeightSource, at::Tensor, ComputedBytes> data;

  /// The bytes are yet to be laid out.
  bool is_pending() const;
  /// dims × element size, or nothing on overflow, negative dims or a type without a size.
  std::optional<uint64_t> expected_bytes() const;
};

struct OnnxAttribute {
  /// std::monostate stands for a kind that this library reads over (sparse tensors, type protos).
  using Data = std::variant<std::monostate, float, int64_t, std::string, OnnxTensor, std::shared_ptr<OnnxGraph>,
                            std::vector<float>, std::vector<int64_t>, std::vector<std::string>,
                            std::vector<std::shared_ptr<OnnxGraph>>>;
  std::string name;
  Data data;
};

struct OnnxNode {
  std::string name;
  std::string op_type;
  std::string domain;               ///< empty for the standard operators
  std::vector<std::string> inputs;  ///< an empty name is an input left out
  std::vector<std::string> outputs;
  std::vector<OnnxAttribute> attributes;

  const OnnxAttribute* attribute(std::string_view name) const;
};

struct OnnxGraph {
  std::string name = "main_graph";
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs;
  std::vector<OnnxValueInfo> outputs;
  std::vector<OnnxValueInfo> value_info;
};

/// Visits the graphs in a node's attributes (the branches of If, the body of Loop), not those inside them.
void for_each_inner_graph(const OnnxNode& node, const std::function<void(OnnxGraph&)>& visit);
/// Visits a graph, then those inside it at any depth.
void for_each_graph(OnnxGraph& graph, const std::function<void(OnnxGraph&)>& visit);
/// Copies of a graph share the graphs inside its nodes: makes them, at any depth, this graph's own.
void detach_inner_graphs(OnnxGraph& graph);
/// Gives values other names where nodes take or give them, those of graphs inside nodes included, which become the
/// graph's own.
void rename_values(OnnxGraph& graph, const std::unordered_map<std::string, std::string>& names);
/// Of a graph's nodes, in order, those of which no output is used by another node, by a graph inside one, or as an
/// output of the graph: users before what they use.
std::vector<const OnnxNode*> dead_nodes(const std::vector<const OnnxNode*>& nodes,
                                        const std::vector<OnnxValueInfo>& outputs);
/// Removes the dead nodes of a graph, then the initializers that nothing uses.
void remove_dead_nodes(OnnxGraph& graph);

/// Visits every tensor of a graph: initializers, tensors in attributes, and those of nested graphs.
void for_each_tensor(const OnnxGraph& graph, const std::function<void(const OnnxTensor&)>& visit);
/// The same, to change them, after detach_inner_graphs.
void for_each_tensor(OnnxGraph& graph, const std::function<void(OnnxTensor&)>& visit);

/// A model's metadata_props: keys are not always unique, and their order is kept.
using OnnxMetadata = std::vector<std::pair<std::string, std::string>>;

/// An ONNX model as this library writes and reads it.
struct OnnxModel {
  int64_t ir_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;  ///< domain ("" is the standard one) → version
  std::string producer_name;
  std::string producer_version;
  OnnxGraph graph;
  OnnxMetadata metadata;
  std::vector<std::string> functions;  ///< "domain::name" of model-local functions; read only

  std::optional<int64_t> opset(std::string_view domain = "") const;
  /// Adds the domain of ONNX Runtime's own operators to `opsets` where a node of the main graph is of it.
  void import_contrib_domain();
};

/// The oldest IR version that carries an opset of the standard domain; opsets 18 to 24. Throws Error for others.
int64_t ir_version_for_opset(int64_t opset);

}  // namespace exporters::onnx
