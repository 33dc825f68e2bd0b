// Any bytes as a JSON file: an Error, or a value that comes back from its own text.
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "tests/fuzz/check.h"

#include <nlohmann/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  nlohmann::json value;
  try {
    value = exporters::parse_json(text, "fuzzed.json");
  } catch (const exporters::Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).find("fuzzed.json") != std::string_view::npos);
    return 0;
  }
  // Compared as text: NaN does not equal itself.
  std::string first = exporters::pretty_json(value);
  FUZZ_CHECK(exporters::pretty_json(exporters::parse_json(first, "written.json")) == first);
  return 0;
}
