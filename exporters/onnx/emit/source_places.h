#pragma once

#include "exporters/onnx/emit/model.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace exporters::onnx {

/// Places for tensors that stay in the files they come from: each such file has one location in the folder of the
/// models, and a tensor its own offset there.
class SourcePlaces {
 public:
  /// `locate` gives the location of a file, asked once for each.
  using Locate = std::function<std::string(const std::filesystem::path& file)>;

  /// Makes every WeightSource of the graph StoredBytes. Throws Error when a source's size is not dims × element size,
  /// or its file has become shorter.
  void place(OnnxGraph& graph, const Locate& locate);

 private:
  struct Place {
    std::string location;
    uint64_t size = 0;  ///< of the file
  };
  std::map<std::string, Place> by_file_;
};

/// The location of `file` for models in `folder`. ONNX Runtime opens files in the model's folder or below it, and no
/// others: Throws Error for those, with the ways out.
std::string location_below(const std::filesystem::path& folder, const std::filesystem::path& file);

}  // namespace exporters::onnx
