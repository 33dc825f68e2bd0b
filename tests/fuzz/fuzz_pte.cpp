// Any bytes as an ExecuTorch program: an Error, or a program whose parts refer to each other and to the file as
// check() wants it, and whose memory stays within a multiple of the file's size.
#include "exporters/executorch/emit/reader.h"
#include "exporters/executorch/xnnpack/check_blob.h"
#include "exporters/support/error.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/memory_file.h"

using exporters::Error;
using exporters::WeightSource;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const exporters::testing::MemoryFile file(data, size);
  try {
    const exporters::executorch::Program program = exporters::executorch::read_program(file.path());
    size_t values = 0;
    for (const auto& method : program.methods) {
      values += method.values.size() + method.instructions.size();
    }
    FUZZ_CHECK(values <= size * 2 + 1024);
    for (const auto& bytes : program.constants) {
      const auto* source = std::get_if<WeightSource>(&bytes);
      FUZZ_CHECK(source != nullptr && source->offset + source->nbytes <= size);
    }
    exporters::executorch::check(program);
    exporters::executorch::xnnpack::check_delegates(program);
  } catch (const Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).size() < 4'000 + size);
  }
  return 0;
}
