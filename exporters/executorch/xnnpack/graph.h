#pragma once

#include "exporters/executorch/emit/program.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace exporters::executorch::xnnpack {

/// Element types of XNNPACK's values, as the blob's schema numbers them.
enum class Datatype : int16_t {
  kFp32 = 1,
  kFp16 = 2,
  kQint8 = 3,   ///< one scale
  kQcint8 = 6,  ///< a scale for each channel
  kQdint8 = 9,  ///< quantized at run time, a scale for each row
  kInt32 = 12,
};

/// A scale for each channel of a kQcint8 constant.
struct ChannelScales {
  int32_t channel_dim = 0;
  std::vector<float> scales;
};
/// A kQdint8 value: the last `nonbatch_dims` axes share one scale.
struct RowScales {
  int32_t nonbatch_dims = 1;
};

/// Bytes of a constant and the key that they have among the program's named data.
struct Constant {
  std::string key;
  Bytes bytes;
};

/// A value of the graph. An input or output is known to the delegate call by its place among the arguments.
struct Value {
  Datatype dtype = Datatype::kFp32;
  std::vector<uint32_t> dims;  ///< the largest sizes
  std::optional<Constant> constant;
  std::variant<std::monostate, ChannelScales, RowScales> quantization;
};

/// What bounds an output from both sides: relu and clamp, also merged into the node before them.
struct Bounds {
  float min = 0;
  float max = 0;
};

// The kinds of nodes. Members are value ids.

/// XNNPACK nodes of one input without parameters.
enum class Unary : uint8_t {
  kSoftmax,  ///< over the last axis
  kSigmoid,
  kClamp,  ///< to the node's bounds
  kFloor,
  kCeil,
  kSqrt,
  kRsqrt,
  kHardswish,
  kNegate,
  kSquare,
  kAbs,
  kConvert,  ///< between element types: quantizes at run time
  kLog,
  kGelu,  ///< by erf
  kTanh,
  kExp,
  kSin,
  kCos,
  kCopy,
};
struct UnaryNode {
  Unary op = Unary::kCopy;
  uint32_t input = 0;
  uint32_t output = 0;
};

enum class Binary : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMinimum,
  kMaximum,
  kBatchMatmul,
  kBatchMatmulTransposed,  ///< a · bᵀ, over the last two axes
};
struct BinaryNode {
  Binary op = Binary::kAdd;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t output = 0;
};

/// output = input · filterᵀ + bias with a filter of [out, in], or input · filter + bias with one of [in, out].
struct FullyConnected {
  uint32_t input = 0;
  uint32_t filter = 0;
  std::optional<uint32_t> bias;
  uint32_t output = 0;
  bool transposed = false;  ///< the filter is [in, out]
};

struct Transpose {
  std::vector<uint32_t> permutation;
  uint32_t input = 0;
  uint32_t output = 0;
};

/// A size of 0 is the one that remains; at most one is.
struct Reshape {
  std::vector<uint32_t> shape;
  uint32_t input = 0;
  uint32_t output = 0;
};

struct Slice {
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> sizes;
  uint32_t input = 0;
  uint32_t output = 0;
};

struct Pad {
  std::vector<uint32_t> before;
  std::vector<uint32_t> after;
  float value = 0;
  uint32_t input = 0;
  uint32_t output = 0;
};

/// Of two to five values.
struct Concatenate {
  uint32_t axis = 0;
  std::vector<uint32_t> inputs;
  uint32_t output = 0;
};

struct LeakyRelu {
  float negative_slope = 0.01f;
  uint32_t input = 0;
  uint32_t output = 0;
};

struct Elu {
  float alpha = 1;
  uint32_t input = 0;
  uint32_t output = 0;
};

/// 2-D convolution of [n, h, w, c]: filters are [out, h, w, in / groups], for a depthwise one [1, h, w, out].
struct Convolution {
  enum class Kind : uint8_t { kPlain, kDepthwise, kTransposed };
  Kind kind = Kind::kPlain;
  std::array<uint32_t, 4> padding{};  ///< top, right, bottom, left
  std::array<uint32_t, 2> kernel{};   ///< height, width, as all pairs
  std::array<uint32_t, 2> stride{1, 1};
  std::array<uint32_t, 2> dilation{1, 1};
  std::array<uint32_t, 2> adjustment{};  ///< transposed ones: rows and columns added to the output
  uint32_t group_input_channels = 0;
  uint32_t group_output_channels = 0;
  uint32_t groups = 1;
  uint32_t input = 0;
  uint32_t filter = 0;
  std::optional<uint32_t> bias;
  uint32_t output = 0;
};

struct Pooling {
  enum class Kind : uint8_t { kAverage, kMaximum };
  Kind kind = Kind::kAverage;
  std::array<uint32_t, 4> padding{};  ///< top, right, bottom, left
  std::array<uint32_t, 2> window{};
  std::array<uint32_t, 2> stride{1, 1};
  std::array<uint32_t, 2> dilation{1, 1};
  uint32_t input = 0;
  uint32_t output = 0;
};

struct Node {
  std::variant<UnaryNode, BinaryNode, FullyConnected, Transpose, Reshape, Slice, Pad, Concatenate, LeakyRelu, Elu,
               Convolution, Pooling>
      op;
  std::optional<Bounds> bounds;
};

/// A graph that the XNNPACK delegate runs.
struct XnnGraph {
  std::vector<Value> values;
  std::vector<Node> nodes;        ///< in the order of execution
  std::vector<uint32_t> inputs;   ///< values, as the delegate call passes them; its outputs follow
  std::vector<uint32_t> outputs;  ///< values

  uint32_t add(Value value);
};

}  // namespace exporters::executorch::xnnpack
