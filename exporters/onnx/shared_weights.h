#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/support/mapped_file.h"

#include <onnxruntime_cxx_api.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace exporters::onnx {

/// The weights of the models in one folder, for sessions that are open at the same time: the files are mapped once, and
/// what ONNX Runtime packs for its matrix products is kept once. It has to outlive the sessions.
class SharedWeights {
 public:
  /// Those that another session of this process uses, while their files are unchanged; else new ones. Thread-safe.
  static std::shared_ptr<SharedWeights> of(const std::filesystem::path& folder);

  explicit SharedWeights(std::filesystem::path folder);

  /// Lets a session take the external data of `model`'s graph from here. The model has been checked. Gives what has to
  /// live as long as the session.
  std::vector<Ort::Value> lend(const OnnxModel& model, Ort::SessionOptions& session);
  OrtPrepackedWeightsContainer* packed() const { return packed_.get(); }

 private:
  std::shared_ptr<const MappedFile> file(const std::string& location);
  bool unchanged();

  struct Release {
    void operator()(OrtPrepackedWeightsContainer* container) const;
  };

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  std::unique_ptr<OrtPrepackedWeightsContainer, Release> packed_;
};

}  // namespace exporters::onnx
