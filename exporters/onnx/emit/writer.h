#pragma once

#include "exporters/onnx/emit/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace exporters::onnx {

/// The model as an ONNX ModelProto message; the same model gives the same bytes.
/// Throws Error when a tensor's bytes are neither inline nor stored in a file, and when the message would exceed
/// protobuf's limit of 2 GB.
std::string serialize(const OnnxModel& model);

/// A piece of a message: text, and after it the bytes of a tensor.
struct MessagePart {
  std::string text;
  const OnnxTensor* bytes = nullptr;  ///< null: no tensor follows
};

/// The message that holds the weights too, without a copy of them: the bytes of an initializer of the main graph that
/// are yet to be laid out have their place between the parts. The parts point into `model`. Throws Error as serialize
/// does; the bytes count towards the limit.
std::vector<MessagePart> serialize_in_parts(const OnnxModel& model);

}  // namespace exporters::onnx
