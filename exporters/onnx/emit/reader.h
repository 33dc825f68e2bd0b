#pragma once

#include "exporters/onnx/emit/model.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>

namespace exporters::onnx {

struct ReadOptions {
  /// Tensors with more inline bytes come as OmittedBytes.
  uint64_t keep_inline_bytes = std::numeric_limits<uint64_t>::max();
};

/// Reads an ONNX ModelProto message. The message may be hostile: memory stays within a small multiple of its size, and
/// anything malformed throws Error that says what and where. Kinds of content that this library has no use for
/// (training information, sparse tensors, type protos) are read over.
OnnxModel parse_model(std::string_view bytes, const ReadOptions& options = {});

/// Reads an .onnx file. Throws Error as above with the file's name, with a hint when the file is of another kind.
OnnxModel read_model(const std::filesystem::path& path, const ReadOptions& options = {});

/// Checks every tensor that is stored beside a model: its location is relative and stays inside `folder` (symbolic
/// links resolved), it has exactly the bytes that shape and type need, and the file has them.
/// Throws Error that names the initializer, the file, and both sizes.
void check_external_data(const OnnxModel& model, const std::filesystem::path& folder);

/// Makes every tensor that is stored beside a model in `folder` a WeightSource, so that the model can be saved
/// elsewhere. The data must have been checked.
void refer_to_external_data(OnnxModel& model, const std::filesystem::path& folder);

}  // namespace exporters::onnx
