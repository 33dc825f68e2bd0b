#include "exporters/executorch/xnnpack/serialize.h"

#include "exporters/executorch/xnnpack/blob_layout.h"
#include "exporters/support/error.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>
#include <schema_generated.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

namespace exporters::executorch::xnnpack {
namespace {

namespace fb = fb_xnnpack;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// ── The blob's outer layout ──

constexpr uint32_t kPaddedHeader = 32;
constexpr size_t kFlatbufferAlignment = 16;

constexpr uint64_t kByKey = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kExternalInput = 1;
constexpr uint32_t kExternalOutput = 2;
constexpr uint32_t kFlagTransposeB = 1;

// ── Kinds of nodes ──

fb::XNodeUnion type_of(Unary op) {
  switch (op) {
    case Unary::kSoftmax:
      return fb::XNodeUnion::XNNSoftmax;
    case Unary::kSigmoid:
      return fb::XNodeUnion::XNNSigmoid;
    case Unary::kClamp:
      return fb::XNodeUnion::XNNClamp;
    case Unary::kFloor:
      return fb::XNodeUnion::XNNFloor;
    case Unary::kCeil:
      return fb::XNodeUnion::XNNCeiling;
    case Unary::kSqrt:
      return fb::XNodeUnion::XNNSquareRoot;
    case Unary::kRsqrt:
      return fb::XNodeUnion::XNNReciprocalSquareRoot;
    case Unary::kHardswish:
      return fb::XNodeUnion::XNNHardswish;
    case Unary::kNegate:
      return fb::XNodeUnion::XNNNegate;
    case Unary::kSquare:
      return fb::XNodeUnion::XNNSquare;
    case Unary::kAbs:
      return fb::XNodeUnion::XNNAbs;
    case Unary::kConvert:
      return fb::XNodeUnion::XNNConvert;
    case Unary::kLog:
      return fb::XNodeUnion::XNNLog;
    case Unary::kGelu:
      return fb::XNodeUnion::XNNGelu;
    case Unary::kTanh:
      return fb::XNodeUnion::XNNTanh;
    case Unary::kExp:
      return fb::XNodeUnion::XNNExp;
    case Unary::kSin:
      return fb::XNodeUnion::XNNSin;
    case Unary::kCos:
      return fb::XNodeUnion::XNNCos;
    case Unary::kCopy:
      return fb::XNodeUnion::XNNCopy;
  }
  fail("an XNNPACK node of an unknown kind");
}

fb::XNodeUnion type_of(Binary op) {
  switch (op) {
    case Binary::kAdd:
      return fb::XNodeUnion::XNNAdd;
    case Binary::kSubtract:
      return fb::XNodeUnion::XNNSubtract;
    case Binary::kMultiply:
      return fb::XNodeUnion::XNNMultiply;
    case Binary::kDivide:
      return fb::XNodeUnion::XNNDiv;
    case Binary::kMinimum:
      return fb::XNodeUnion::XNNMinimum;
    case Binary::kMaximum:
      return fb::XNodeUnion::XNNMaximum;
    case Binary::kBatchMatmul:
    case Binary::kBatchMatmulTransposed:
      return fb::XNodeUnion::XNNBatchMatrixMultiply;
  }
  fail("an XNNPACK node of an unknown kind");
}

fb::XNodeUnion type_of(Convolution::Kind kind) {
  switch (kind) {
    case Convolution::Kind::kPlain:
      return fb::XNodeUnion::XNNConv2d;
    case Convolution::Kind::kDepthwise:
      return fb::XNodeUnion::XNNDepthwiseConv2d;
    case Convolution::Kind::kTransposed:
      return fb::XNodeUnion::XNNConvTranspose2d;
  }
  fail("an XNNPACK convolution of an unknown kind");
}

constexpr fb::XNodeUnion kConcatenations[] = {fb::XNodeUnion::XNNConcatenate2, fb::XNodeUnion::XNNConcatenate3,
                                              fb::XNodeUnion::XNNConcatenate4, fb::XNodeUnion::XNNConcatenate5};

uint64_t element_size(Datatype dtype) {
  switch (dtype) {
    case Datatype::kFp32:
    case Datatype::kInt32:
      return 4;
    case Datatype::kFp16:
      return 2;
    case Datatype::kQint8:
    case Datatype::kQcint8:
    case Datatype::kQdint8:
      return 1;
  }
  fail("an XNNPACK value of an unknown type");
}

// ── The graph's table ──

class GraphTable {
 public:
  explicit GraphTable(const XnnGraph& graph) : graph_(graph) {}

  const FlatBufferBuilder& build() {
    find_externals();
    std::vector<Offset<fb::XNode>> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      where_ = fmt::format("XNNPACK node {}", i);
      nodes.push_back(pack(graph_.nodes[i]));
    }
    std::vector<Offset<fb::XValue>> values;
    for (uint32_t i = 0; i < graph_.values.size(); ++i) {
      where_ = fmt::format("XNNPACK value {}", i);
      values.push_back(pack(i, graph_.values[i]));
    }
    const auto version = builder_.CreateString("0");
    const auto node_vector = builder_.CreateVector(nodes);
    const auto value_vector = builder_.CreateVector(values);
    const auto inputs = builder_.CreateVector(graph_.inputs);
    const auto outputs = builder_.CreateVector(graph_.outputs);
    const auto constants = pack_constants();
    const auto externs = static_cast<uint32_t>(graph_.inputs.size() + graph_.outputs.size());
    builder_.Finish(
        fb::CreateXNNGraph(builder_, version, node_vector, value_vector, externs, inputs, outputs, constants), "XN01");
    return builder_;
  }

 private:
  struct External {
    uint32_t id = kNoValue;
    uint32_t flags = 0;
  };

  void require(bool condition, std::string_view what) const {
    if (!condition) {
      throw Error(std::string(what), where_);
    }
  }

  uint32_t id(uint32_t value) const {
    require(value < graph_.values.size(), "a value that is not there");
    return value;
  }

  void find_externals() {
    where_ = "XNNPACK graph";
    uint32_t next = 0;
    for (const uint32_t input : graph_.inputs) {
      require(externals_.emplace(id(input), External{next++, kExternalInput}).second, "an input is listed twice");
    }
    for (const uint32_t output : graph_.outputs) {
      require(externals_.emplace(id(output), External{next++, kExternalOutput}).second,
              "an output is listed twice, or is an input that passes through");
    }
  }

  // ── Values ──

  uint32_t constant_index(const Value& value) {
    if (!value.constant) {
      return 0;
    }
    uint64_t needed = element_size(value.dtype);
    for (const uint32_t dim : value.dims) {
      needed *= dim;
    }
    require(nbytes_of(value.constant->bytes) == needed,
            fmt::format("its constant has {} bytes, dims and dtype need {}", nbytes_of(value.constant->bytes), needed));
    constants_.push_back(&*value.constant);
    return static_cast<uint32_t>(constants_.size());
  }

  Offset<fb::XValue> pack(uint32_t index, const Value& value) {
    require(value.dims.size() <= kMaxDims, "it has more than 6 dimensions");
    const auto external = externals_.contains(index) ? externals_.at(index) : External();
    // A scalar has one element on one axis.
    const std::vector<uint32_t> dims = value.dims.empty() ? std::vector<uint32_t>{1} : value.dims;
    const uint32_t buffer = constant_index(value);
    const auto tensor = fb::CreateXNNTensorValue(builder_, static_cast<fb::XNNDatatype>(value.dtype),
                                                 static_cast<uint32_t>(dims.size()), builder_.CreateVector(dims),
                                                 buffer, external.id, external.flags, index);
    if (const auto* channels = std::get_if<ChannelScales>(&value.quantization)) {
      const auto scales = builder_.CreateVector(channels->scales);
      const auto count = static_cast<uint32_t>(channels->scales.size());
      const auto quant = fb::CreatePerChannelQuant(builder_, scales, channels->channel_dim, 0, count);
      return quantized(tensor, fb::XNNQuantParams::PerChannelQuant, quant.Union());
    }
    if (const auto* rows = std::get_if<RowScales>(&value.quantization)) {
      const auto quant = fb::CreatePerTokenDynamicQuant(builder_, rows->nonbatch_dims);
      return quantized(tensor, fb::XNNQuantParams::PerTokenDynamicQuant, quant.Union());
    }
    return fb::CreateXValue(builder_, fb::XValueUnion::XNNTensorValue, tensor.Union());
  }

  Offset<fb::XValue> quantized(Offset<fb::XNNTensorValue> tensor, fb::XNNQuantParams type, Offset<void> params) {
    const auto value = fb::CreateXNNQuantizedTensorValue(builder_, tensor, type, params);
    return fb::CreateXValue(builder_, fb::XValueUnion::XNNQuantizedTensorValue, value.Union());
  }

  Offset<flatbuffers::Vector<Offset<fb::ConstantDataOffset>>> pack_constants() {
    const auto no_key = builder_.CreateString("");
    std::vector<Offset<fb::ConstantDataOffset>> result = {fb::CreateConstantDataOffset(builder_, 0, 0, no_key)};
    for (const Constant* constant : constants_) {
      const auto key = builder_.CreateString(constant->key);
      result.push_back(fb::CreateConstantDataOffset(builder_, kByKey, nbytes_of(constant->bytes), key));
    }
    return builder_.CreateVector(result);
  }

  // ── Nodes ──

  Offset<fb::XNode> pack(const Node& node) {
    Offset<fb::OutputMinMax> bounds = 0;
    if (node.bounds) {
      bounds = fb::CreateOutputMinMax(builder_, node.bounds->min, node.bounds->max);
    }
    const auto [type, table] = std::visit([&](const auto& op) { return pack_op(op); }, node.op);
    return fb::CreateXNode(builder_, type, table, 0, bounds);
  }

  using Packed = std::pair<fb::XNodeUnion, Offset<void>>;

  Packed pack_op(const UnaryNode& op) {
    return {type_of(op.op), fb::Create_XNNNode1x1(builder_, id(op.input), id(op.output), 0).Union()};
  }

  Packed pack_op(const BinaryNode& op) {
    const uint32_t flags = op.op == Binary::kBatchMatmulTransposed ? kFlagTransposeB : 0;
    return {type_of(op.op), fb::Create_XNNNode2x1(builder_, id(op.a), id(op.b), id(op.output), flags).Union()};
  }

  Packed pack_op(const FullyConnected& op) {
    const uint32_t bias = op.bias ? id(*op.bias) : kNoValue;
    const uint32_t flags = op.transposed ? kFlagTransposeWeights : 0;
    return {fb::XNodeUnion::XNNFullyConnected,
            fb::CreateXNNFullyConnected(builder_, id(op.input), id(op.filter), bias, id(op.output), flags).Union()};
  }

  Packed pack_op(const Transpose& op) {
    const auto permutation = builder_.CreateVector(op.permutation);
    return {fb::XNodeUnion::XNNStaticTranspose,
            fb::CreateXNNStaticTranspose(builder_, static_cast<uint32_t>(op.permutation.size()), permutation,
                                         id(op.input), id(op.output), 0)
                .Union()};
  }

  Packed pack_op(const Reshape& op) {
    require(std::count(op.shape.begin(), op.shape.end(), 0u) <= 1, "a reshape leaves more than one size open");
    const auto shape = builder_.CreateVector(op.shape);
    return {fb::XNodeUnion::XNNStaticReshape,
            fb::CreateXNNStaticReshape(builder_, static_cast<uint32_t>(op.shape.size()), shape, id(op.input),
                                       id(op.output), 0)
                .Union()};
  }

  Packed pack_op(const Slice& op) {
    const auto offsets = builder_.CreateVector(op.offsets);
    const auto sizes = builder_.CreateVector(op.sizes);
    return {fb::XNodeUnion::XNNStaticSlice, fb::CreateXNNStaticSlice(builder_, static_cast<uint32_t>(op.offsets.size()),
                                                                     offsets, sizes, id(op.input), id(op.output), 0)
                                                .Union()};
  }

  Packed pack_op(const Pad& op) {
    const auto before = builder_.CreateVector(op.before);
    const auto after = builder_.CreateVector(op.after);
    return {fb::XNodeUnion::XNNStaticConstantPad,
            fb::CreateXNNStaticConstantPad(builder_, before, after, op.value, id(op.input), id(op.output), 0).Union()};
  }

  Packed pack_op(const Concatenate& op) {
    require(op.inputs.size() >= 2 && op.inputs.size() <= 5, "a concatenation takes two to five values");
    std::vector<uint32_t> inputs(5, kNoValue);
    std::transform(op.inputs.begin(), op.inputs.end(), inputs.begin(), [&](uint32_t input) { return id(input); });
    return {kConcatenations[op.inputs.size() - 2], fb::Create_XNNCat(builder_, op.axis, inputs[0], inputs[1], inputs[2],
                                                                     inputs[3], id(op.output), 0, inputs[4])
                                                       .Union()};
  }

  Packed pack_op(const LeakyRelu& op) {
    return {fb::XNodeUnion::XNNLeakyReLU,
            fb::CreateXNNLeakyReLU(builder_, op.negative_slope, id(op.input), id(op.output), 0).Union()};
  }

  Packed pack_op(const Elu& op) {
    return {fb::XNodeUnion::XNNELU, fb::CreateXNNELU(builder_, op.alpha, id(op.input), id(op.output), 0).Union()};
  }

  Packed pack_op(const Convolution& op) {
    const uint32_t bias = op.bias ? id(*op.bias) : kNoValue;
    return {type_of(op.kind),
            fb::Create_XNNNodeConv(builder_, op.padding[0], op.padding[1], op.padding[2], op.padding[3], op.kernel[0],
                                   op.kernel[1], op.stride[0], op.stride[1], op.dilation[0], op.dilation[1],
                                   op.group_input_channels, op.group_output_channels, op.groups, op.adjustment[0],
                                   op.adjustment[1], id(op.input), id(op.filter), bias, id(op.output), 0)
                .Union()};
  }

  Packed pack_op(const Pooling& op) {
    const bool average = op.kind == Pooling::Kind::kAverage;
    return {average ? fb::XNodeUnion::XNNAvgPooling2d : fb::XNodeUnion::XNNMaxPooling2d,
            fb::Create_XNNPooling2D(builder_, op.padding[0], op.padding[1], op.padding[2], op.padding[3], op.window[0],
                                    op.window[1], op.stride[0], op.stride[1], op.dilation[0], op.dilation[1],
                                    id(op.input), id(op.output), 0)
                .Union()};
  }

  const XnnGraph& graph_;
  FlatBufferBuilder builder_;
  std::map<uint32_t, External> externals_;
  std::vector<const Constant*> constants_;
  std::string where_;
};

template <typename Number>
void append(std::string& text, Number number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

uint32_t XnnGraph::add(Value value) {
  values.push_back(std::move(value));
  return static_cast<uint32_t>(values.size() - 1);
}

std::string serialize(const XnnGraph& graph) {
  GraphTable table(graph);
  const FlatBufferBuilder& built = table.build();
  const uint32_t size = built.GetSize();
  const size_t padded = (size + kFlatbufferAlignment - 1) / kFlatbufferAlignment * kFlatbufferAlignment;
  std::string blob(kMagicOffset, '\0');
  blob += kMagic;
  append(blob, kHeaderLength);
  append(blob, kPaddedHeader);
  append(blob, size);
  append(blob, static_cast<uint32_t>(kPaddedHeader + padded));
  append(blob, uint64_t{0});  // constants are named data of the program
  blob.resize(kPaddedHeader);
  blob.append(reinterpret_cast<const char*>(built.GetBufferPointer()), size);
  blob.resize(kPaddedHeader + padded);
  return blob;
}

Delegate add_delegate(Program& program, const XnnGraph& graph) {
  Delegate delegate{std::string(kBackendId), program.add_blob(serialize(graph)), {}};
  for (const Value& value : graph.values) {
    if (value.constant) {
      program.add_named_data({value.constant->key, value.constant->bytes, 16});
    }
  }
  return delegate;
}

}  // namespace exporters::executorch::xnnpack
