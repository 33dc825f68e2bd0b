#pragma once

#include "exporters/onnx/emit/model.h"

#include <filesystem>
#include <string>

namespace exporters::onnx {

/// The model as an ONNX ModelProto message; the same model gives the same bytes.
/// Throws Error when a tensor's bytes are neither inline nor stored in a file, and when the message would exceed
/// protobuf's limit of 2 GB.
std::string serialize(const OnnxModel& model);

/// Writes `path`, and `path` + ".data" with the bytes of every tensor that is a WeightSource or an at::Tensor. The
/// data file is always made, if only empty. Both are written aside and renamed when complete.
/// Throws Error when a source is shorter than it should be, and on I/O failures.
void save_model(OnnxModel model, const std::filesystem::path& path);

}  // namespace exporters::onnx
