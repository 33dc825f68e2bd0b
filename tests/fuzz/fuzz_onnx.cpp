// Any bytes as an ONNX model: an Error, or a model that is written and read again without a change.
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/writer.h"
#include "exporters/support/error.h"
#include "tests/fuzz/check.h"

using exporters::Error;
using exporters::onnx::OnnxModel;

namespace {

// Some models that can be read are not written: those with kinds of attributes that are read over.
std::optional<std::string> written(const OnnxModel& model) {
  try {
    return exporters::onnx::serialize(model);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::optional<OnnxModel> model;
  try {
    model = exporters::onnx::parse_model({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).size() < 2'000 + size);
    return 0;
  }
  if (const auto once = written(*model)) {
    FUZZ_CHECK(written(exporters::onnx::parse_model(*once)) == once);
  }
  return 0;
}
