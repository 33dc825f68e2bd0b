#pragma once

#include "exporters/onnx/emit/writer.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace exporters::onnx {

/// A model that holds its weights, ready to be written. Weights go from their files into the model's without a copy in
/// memory.
class InlineModel {
 public:
  /// Equal weights of the main graph (tied ones) become one initializer. Throws Error for a message of more than
  /// protobuf's 2 GB, with the way out.
  explicit InlineModel(OnnxModel model);

  /// Throws Error when a source is shorter than it should be, and on I/O failures.
  void write(const std::filesystem::path& path) const;

 private:
  std::unique_ptr<OnnxModel> model_;  // parts_ point into it
  std::vector<MessagePart> parts_;
};

}  // namespace exporters::onnx
