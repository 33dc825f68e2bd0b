#pragma once

#include "exporters/onnx/emit/model.h"

#include <onnxruntime_cxx_api.h>

#include <filesystem>
#include <string>

namespace exporters::onnx {

/// The file of a model as ONNX Runtime runs it on this processor: optimized, and with its weights packed for matrix
/// products, which a session maps instead of packing them anew. Lies in `folder`, where it is made unless it is there
/// already for this model and its weights as they are now (sizes and modification times), this ONNX Runtime, this
/// processor and `settings`. A copy that is half made never shows. It is as large as the weights and what is packed of
/// them together.
/// `settings` says what of `options` changes the copy. Throws Error if the folder cannot be written or is something
/// else, and Ort::Exception for a model that ONNX Runtime refuses.
std::filesystem::path packed_model(const OnnxModel& model, const std::filesystem::path& path,
                                   const std::filesystem::path& folder, const std::string& settings, Ort::Env& env,
                                   Ort::SessionOptions options);

}  // namespace exporters::onnx
