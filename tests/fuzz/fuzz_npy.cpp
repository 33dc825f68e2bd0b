// Any bytes as a .npy file: an Error, or a header whose data is exactly the rest of the file.
#include "exporters/support/error.h"
#include "exporters/weights/npy_header.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    exporters::NpyHeader header = exporters::parse_npy_header(std::as_bytes(std::span(data, size)), size, "fuzzed.npy");
    FUZZ_CHECK(header.data_start + header.nbytes == size);
    for (int64_t axis : header.shape) {
      FUZZ_CHECK(axis >= 0);
    }
  } catch (const exporters::Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).find("fuzzed.npy") != std::string_view::npos);
  }
  return 0;
}
