#pragma once

#include "exporters/onnx/emit/model.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace exporters::onnx {

/// The model as an ONNX ModelProto message; the same model gives the same bytes.
/// Throws Error when a tensor's bytes are neither inline nor stored in a file, and when the message would exceed
/// protobuf's limit of 2 GB.
std::string serialize(const OnnxModel& model);

/// Writes `path`, and `path` + ".data" with the bytes of every tensor that is a WeightSource or an at::Tensor. The
/// data file is always made, if only empty. Both are written aside and renamed when complete.
/// Throws Error when a source is shorter than it should be, and on I/O failures.
void save_model(OnnxModel model, const std::filesystem::path& path);

/// The same for several models by file name in one folder: bytes that more than one of them has are in the data file of
/// the first that has them, and the others refer to it.
void save_models(std::vector<std::pair<std::string, OnnxModel>> models, const std::filesystem::path& folder);

}  // namespace exporters::onnx
