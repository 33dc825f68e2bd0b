#include "exporters/onnx/shared_weights.h"

#include <algorithm>

namespace exporters::onnx {

namespace fs = std::filesystem;

void SharedWeights::Release::operator()(OrtPrepackedWeightsContainer* container) const {
  Ort::GetApi().ReleasePrepackedWeightsContainer(container);
}

SharedWeights::SharedWeights(fs::path folder) : folder_(std::move(folder)) {
  OrtPrepackedWeightsContainer* container = nullptr;
  Ort::ThrowOnError(Ort::GetApi().CreatePrepackedWeightsContainer(&container));
  packed_.reset(container);
}

std::shared_ptr<SharedWeights> SharedWeights::of(const fs::path& folder) {
  static std::mutex mutex;
  static std::map<fs::path, std::weak_ptr<SharedWeights>> open;
  const std::lock_guard lock(mutex);
  std::erase_if(open, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<SharedWeights>& slot = open[fs::canonical(folder)];
  std::shared_ptr<SharedWeights> weights = slot.lock();
  if (weights == nullptr || !weights->unchanged()) {
    weights = std::make_shared<SharedWeights>(folder);
    slot = weights;
  }
  return weights;
}

bool SharedWeights::unchanged() {
  const std::lock_guard lock(mutex_);
  return std::all_of(files_.begin(), files_.end(), [](const auto& each) { return each.second->unchanged(); });
}

std::shared_ptr<const MappedFile> SharedWeights::file(const std::string& location) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const MappedFile>& slot = files_[location];
  if (slot == nullptr) {
    slot = MappedFile::open(folder_ / location);
  }
  return slot;
}

std::vector<Ort::Value> SharedWeights::lend(const OnnxModel& model, Ort::SessionOptions& session) {
  static const Ort::MemoryInfo cpu = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  std::vector<Ort::Value> values;
  for (const OnnxTensor& tensor : model.graph.initializers) {
    const auto* stored = std::get_if<StoredBytes>(&tensor.data);
    const uint64_t nbytes = tensor.expected_bytes().value_or(0);
    if (stored == nullptr || nbytes == 0) {
      continue;
    }
    const auto bytes = file(stored->location)->bytes(stored->offset, nbytes);
    // ONNX Runtime reads initializers only; its API has no const.
    values.push_back(Ort::Value::CreateTensor(cpu, const_cast<std::byte*>(bytes.data()), nbytes, tensor.dims.data(),
                                              tensor.dims.size(),
                                              static_cast<ONNXTensorElementDataType>(tensor.dtype)));
    session.AddInitializer(tensor.name.c_str(), values.back());
  }
  return values;
}

}  // namespace exporters::onnx
