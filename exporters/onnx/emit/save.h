#pragma once

#include "exporters/onnx/emit/model.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace exporters::onnx {

/// Where the weights of a saved model are that are bytes of a file already (WeightSource). Whatever the way, the file
/// `<model>.data` is there, if only empty: Python's reader of export folders asks for it.
enum class WeightsMode {
  /// Copied into `<model>.data`, behind them the tensors that have another form than in a file: the folder stands
  /// alone.
  kCopy,
  /// Their files under names of the folder (hard links), `<model>.data`, `<model>.data.2`, and so on; tensors of
  /// another
  /// form in `<model>.data`, or `<model>.data.extra` beside links. The onnx checker and onnx_ir's reading of values
  /// refuse hard links.
  kLink,
  /// In their own files, which have to be in the folder or below it; tensors of another form in `<model>.data`.
  kReference,
  /// Part of the message, which protobuf limits to 2 GB.
  kInline,
};

struct SaveOptions {
  WeightsMode weights = WeightsMode::kCopy;
  /// Where the folder will be once it is complete, for kReference. Empty: where it is.
  std::filesystem::path target = {};
};

/// Writes `path` and its external data. Each file is written aside and renamed when complete, the model last.
/// Throws Error when a source is shorter than it should be, when the weights cannot be where `options` wants them (with
/// the way out), and on I/O failures.
void save_model(OnnxModel model, const std::filesystem::path& path, const SaveOptions& options = {});

/// The same for several models by file name in one folder: bytes that more than one of them has are in the data file of
/// the first that has them, and the others refer to it. (Inline, each model has its own.)
void save_models(std::vector<std::pair<std::string, OnnxModel>> models, const std::filesystem::path& folder,
                 const SaveOptions& options = {});

}  // namespace exporters::onnx
