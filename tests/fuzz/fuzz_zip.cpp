// Any bytes as a zip archive: an Error, or entries inside of it that do not overlap, each of which is an Error or
// unpacks.
#include "exporters/support/error.h"
#include "exporters/weights/zip_archive.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/memory_file.h"

#include <algorithm>

using exporters::ZipArchive;
using exporters::ZipEntry;

namespace {

constexpr uint64_t kMaxUnpacked = 16 << 20;

void check(const ZipArchive& archive, size_t size) {
  uint64_t stored = 0;
  for (const ZipEntry& entry : archive.entries()) {
    FUZZ_CHECK(entry.offset <= size && entry.compressed <= size - entry.offset);
    FUZZ_CHECK(archive.find(entry.name) == &entry);
    stored += entry.compressed;
    if (entry.size > kMaxUnpacked) {
      continue;
    }
    try {
      std::vector<std::byte> content(entry.size);
      archive.read(entry, content);
      if (entry.method == ZipEntry::Method::kStored) {
        archive.verify(entry);
        FUZZ_CHECK(std::ranges::equal(content, archive.stored_bytes(entry)));
      }
    } catch (const exporters::Error&) {
    }
  }
  FUZZ_CHECK(stored <= size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const exporters::testing::MemoryFile file(data, size);
  try {
    check(ZipArchive::open(file.path()), size);
  } catch (const exporters::Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).size() < 2'000);
  }
  return 0;
}
