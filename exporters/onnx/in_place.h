#pragma once

#include "exporters/onnx/emit/model.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace exporters::onnx {

/// A layer's cache that GroupQueryAttention takes, and gives with new tokens behind: keys and values may each be one
/// buffer on both sides, longer than what is in it. Nothing else in the graph goes by their length.
struct GrowingCache {
  std::array<std::string, 2> past;     ///< inputs: keys, values
  std::array<std::string, 2> present;  ///< outputs: keys, values
  std::string length;                  ///< what the graph calls the number of tokens in the present
};

/// Which outputs of a graph may lie where an input is.
struct InPlace {
  /// Input and output: the output is the input with some of its elements replaced, and nothing else reads the input.
  std::vector<std::pair<std::string, std::string>> replaced;
  std::vector<GrowingCache> caches;
};

InPlace outputs_in_place(const OnnxGraph& graph);

}  // namespace exporters::onnx
