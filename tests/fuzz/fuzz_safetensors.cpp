// Any bytes as a safetensors file: an Error, or a header whose tensors tile the rest of the file.
#include "exporters/support/error.h"
#include "exporters/weights/safetensors_header.h"
#include "tests/fuzz/check.h"

#include <set>

using exporters::SafetensorsEntry;
using exporters::SafetensorsHeader;

namespace {

uint64_t elements(const SafetensorsEntry& entry) {
  uint64_t count = 1;
  for (int64_t size : entry.shape) {
    FUZZ_CHECK(size >= 0);
    count *= static_cast<uint64_t>(size);
  }
  return count;
}

void check(const SafetensorsHeader& header, size_t size) {
  uint64_t end = header.data_start;
  std::set<std::string> names;
  for (const SafetensorsEntry& entry : header.entries) {
    FUZZ_CHECK(entry.offset == end);
    uint64_t count = elements(entry);
    FUZZ_CHECK(count == 0 ? entry.nbytes == 0 : entry.nbytes % count == 0 && entry.nbytes / count <= 8);
    FUZZ_CHECK(names.insert(entry.name).second);
    end += entry.nbytes;
  }
  FUZZ_CHECK(end == size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check(exporters::parse_safetensors_header(std::as_bytes(std::span(data, size)), "fuzzed.safetensors"), size);
  } catch (const exporters::Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).find("fuzzed.safetensors") != std::string_view::npos);
    FUZZ_CHECK(std::string_view(error.what()).size() < 2'000);
  }
  return 0;
}
