#include "exporters/weights/zip_archive.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"
#include "exporters/weights/crc32.h"
#include "exporters/weights/zip_format.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace exporters {
namespace {

using namespace zip;  // NOLINT(google-build-using-namespace): constants of the format

constexpr uint64_t kLocalHeaderSize = 30;
constexpr uint64_t kDirectoryHeaderSize = 46;
constexpr uint64_t kEndSize = 22;
constexpr uint64_t kEnd64Size = 56;
constexpr uint64_t kEnd64LocatorSize = 20;
constexpr uint16_t kEncrypted = 1;
// Deflate cannot do better than 258 bytes for 2 bits.
constexpr uint64_t kMaxRatio = 1040;

template <typename T>
T number_at(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

class DirectoryReader {
 public:
  explicit DirectoryReader(const MappedFile& file) : bytes_(file.bytes()), name_(quote(file.path().native(), 400)) {}

  std::vector<ZipEntry> run() {
    locate();
    std::vector<ZipEntry> entries;
    uint64_t position = start_;
    for (uint64_t i = 0; i < count_; ++i) {
      position = read_entry(position, entries);
    }
    check_overlaps(entries);
    return entries;
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(
        fmt::format("{} is not a readable zip archive: {}", name_, fmt::format(format, std::forward<Args>(args)...)));
  }

  bool fits(uint64_t offset, uint64_t nbytes) const {
    return offset <= bytes_.size() && nbytes <= bytes_.size() - offset;
  }

  // The end record is the last thing in the file but for a comment of at most 65,535 bytes.
  void locate() {
    if (bytes_.size() < kEndSize) {
      refuse("it has {}", bytes_text(bytes_.size()));
    }
    uint64_t last = bytes_.size() - kEndSize;
    uint64_t first = last > 0xFFFF ? last - 0xFFFF : 0;
    for (uint64_t position = last + 1; position-- > first;) {
      if (number_at<uint32_t>(bytes_, position) == kEnd &&
          number_at<uint16_t>(bytes_, position + 20) == bytes_.size() - position - kEndSize) {
        return read_end(position);
      }
    }
    refuse("it has no directory at its end; it has {} and may be cut off", bytes_text(bytes_.size()));
  }

  void read_end(uint64_t position) {
    uint16_t disk = number_at<uint16_t>(bytes_, position + 4);
    count_ = number_at<uint16_t>(bytes_, position + 10);
    uint64_t size = number_at<uint32_t>(bytes_, position + 12);
    start_ = number_at<uint32_t>(bytes_, position + 16);
    if (position >= kEnd64LocatorSize && number_at<uint32_t>(bytes_, position - kEnd64LocatorSize) == kEnd64Locator) {
      uint64_t end64 = number_at<uint64_t>(bytes_, position - kEnd64LocatorSize + 8);
      if (!fits(end64, kEnd64Size) || number_at<uint32_t>(bytes_, end64) != kEnd64) {
        refuse("its 64-bit directory record is not where it should be, at byte {}", end64);
      }
      disk = static_cast<uint16_t>(number_at<uint32_t>(bytes_, end64 + 16));
      count_ = number_at<uint64_t>(bytes_, end64 + 32);
      size = number_at<uint64_t>(bytes_, end64 + 40);
      start_ = number_at<uint64_t>(bytes_, end64 + 48);
    }
    if (disk != 0) {
      refuse("it is split over several files");
    }
    if (!fits(start_, size) || start_ + size > position || count_ > size / kDirectoryHeaderSize) {
      refuse("its directory of {} entries in {} at byte {} does not fit into its {}", count_, bytes_text(size), start_,
             bytes_text(bytes_.size()));
    }
    end_ = start_ + size;
  }

  uint64_t read_entry(uint64_t position, std::vector<ZipEntry>& entries) const {
    if (position > end_ || end_ - position < kDirectoryHeaderSize ||
        number_at<uint32_t>(bytes_, position) != kDirectoryHeader) {
      refuse("its directory is damaged at byte {}", position);
    }
    uint64_t name_size = number_at<uint16_t>(bytes_, position + 28);
    uint64_t extra_size = number_at<uint16_t>(bytes_, position + 30);
    uint64_t comment_size = number_at<uint16_t>(bytes_, position + 32);
    uint64_t next = position + kDirectoryHeaderSize + name_size + extra_size + comment_size;
    if (next > end_) {
      refuse("its directory is damaged at byte {}", position);
    }
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(bytes_.data()) + position + kDirectoryHeaderSize, name_size);
    uint16_t flags = number_at<uint16_t>(bytes_, position + 8);
    entry.method = static_cast<ZipEntry::Method>(number_at<uint16_t>(bytes_, position + 10));
    entry.crc = number_at<uint32_t>(bytes_, position + 16);
    entry.compressed = number_at<uint32_t>(bytes_, position + 20);
    entry.size = number_at<uint32_t>(bytes_, position + 24);
    entry.offset = number_at<uint32_t>(bytes_, position + 42);
    read_zip64_sizes(entry, bytes_.subspan(position + kDirectoryHeaderSize + name_size, extra_size));
    if ((flags & kEncrypted) != 0) {
      refuse("{} is encrypted", quote(entry.name));
    }
    if (!entry.name.ends_with('/')) {
      skip_local_header(entry);
      check_sizes(entry);
      entries.push_back(std::move(entry));
    }
    return next;
  }

  // Sizes of 4 GB and more are in an extra field, those and only those that are all ones in the header.
  void read_zip64_sizes(ZipEntry& entry, std::span<const std::byte> extra) const {
    constexpr uint32_t kElsewhere = std::numeric_limits<uint32_t>::max();
    while (extra.size() >= 4) {
      uint16_t id = number_at<uint16_t>(extra, 0);
      uint16_t size = number_at<uint16_t>(extra, 2);
      if (size > extra.size() - 4) {
        return;
      }
      std::span<const std::byte> field = extra.subspan(4, size);
      extra = extra.subspan(4 + size);
      if (id != kZip64Field) {
        continue;
      }
      for (uint64_t* value : {&entry.size, &entry.compressed, &entry.offset}) {
        if (*value == kElsewhere && field.size() >= 8) {
          *value = number_at<uint64_t>(field, 0);
          field = field.subspan(8);
        }
      }
      return;
    }
  }

  void skip_local_header(ZipEntry& entry) const {
    if (!fits(entry.offset, kLocalHeaderSize) || number_at<uint32_t>(bytes_, entry.offset) != kLocalHeader) {
      refuse("{} is not where the directory says, at byte {}", quote(entry.name), entry.offset);
    }
    entry.offset += kLocalHeaderSize + number_at<uint16_t>(bytes_, entry.offset + 26) +
                    number_at<uint16_t>(bytes_, entry.offset + 28);
  }

  void check_sizes(const ZipEntry& entry) const {
    if (!fits(entry.offset, entry.compressed)) {
      refuse("{} has {} at byte {}, outside of the archive's {}", quote(entry.name), bytes_text(entry.compressed),
             entry.offset, bytes_text(bytes_.size()));
    }
    if (entry.method == ZipEntry::Method::kStored && entry.size != entry.compressed) {
      refuse("{} is stored, but its sizes are {} and {}", quote(entry.name), bytes_text(entry.compressed),
             bytes_text(entry.size));
    }
    if (entry.method == ZipEntry::Method::kDeflated && entry.size / kMaxRatio > entry.compressed) {
      refuse("{} cannot unpack to {} from {}", quote(entry.name), bytes_text(entry.size), bytes_text(entry.compressed));
    }
    if (entry.method != ZipEntry::Method::kStored && entry.method != ZipEntry::Method::kDeflated) {
      refuse("{} is packed with method {}; stored and deflated (0 and 8) are read", quote(entry.name),
             static_cast<int>(entry.method));
    }
  }

  // Entries that share bytes are how a small archive unpacks to a giant one.
  void check_overlaps(const std::vector<ZipEntry>& entries) const {
    std::vector<const ZipEntry*> order;
    for (const ZipEntry& entry : entries) {
      order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (size_t i = 0; i < order.size(); ++i) {
      uint64_t limit = i + 1 < order.size() ? order[i + 1]->offset : start_;
      if (order[i]->offset + order[i]->compressed > limit) {
        refuse("{} overlaps what follows it", quote(order[i]->name));
      }
    }
  }

  std::span<const std::byte> bytes_;
  std::string name_;
  uint64_t start_ = 0;
  uint64_t end_ = 0;
  uint64_t count_ = 0;
};

// Unpacks raw deflate data as far as `target` reaches; returns how much that is.
uint64_t inflate_into(std::span<const std::byte> packed, std::span<std::byte> target, const std::string& where) {
  z_stream stream = {};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    fail("Cannot start unpacking {}", where);
  }
  constexpr size_t kMaxStep = 1u << 30;
  size_t taken = 0;
  size_t done = 0;
  int state = Z_OK;
  while (state == Z_OK && done < target.size()) {
    size_t available = std::min(packed.size() - taken, kMaxStep);
    size_t room = std::min(target.size() - done, kMaxStep);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(available);
    stream.next_out = reinterpret_cast<Bytef*>(target.data() + done);
    stream.avail_out = static_cast<uInt>(room);
    state = ::inflate(&stream, Z_NO_FLUSH);
    taken += available - stream.avail_in;
    done += room - stream.avail_out;
  }
  ::inflateEnd(&stream);
  // Z_BUF_ERROR: nothing more to take in; the caller sees that too little came out.
  if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) {
    fail("The data of {} is damaged", where);
  }
  return done;
}

void check_crc(const ZipEntry& entry, uint32_t crc, const std::string& where) {
  if (crc != entry.crc) {
    fail("The data of {} is damaged: its checksum is {:08x}, not {:08x}", where, crc, entry.crc);
  }
}

}  // namespace

ZipArchive::ZipArchive(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

ZipArchive ZipArchive::open(const std::filesystem::path& path) {
  ZipArchive archive(MappedFile::open(path));
  archive.entries_ = DirectoryReader(*archive.file_).run();
  for (size_t i = 0; i < archive.entries_.size(); ++i) {
    if (!archive.by_name_.emplace(archive.entries_[i].name, i).second) {
      fail("{} holds {} twice", quote(path.native(), 400), quote(archive.entries_[i].name));
    }
  }
  return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

std::span<const std::byte> ZipArchive::stored_bytes(const ZipEntry& entry) const {
  if (entry.method != ZipEntry::Method::kStored) {
    fail("{} in {} is compressed, where only stored data can be used", quote(entry.name), quote(path().native(), 400));
  }
  return file_->bytes(entry.offset, entry.size);
}

void ZipArchive::read(const ZipEntry& entry, std::span<std::byte> target) const {
  std::string where = quote(entry.name) + " in " + quote(path().native(), 400);
  if (target.size() != entry.size) {
    fail("{} has {}, not {}", where, bytes_text(entry.size), bytes_text(target.size()));
  }
  std::span<const std::byte> packed = file_->bytes(entry.offset, entry.compressed);
  if (entry.method == ZipEntry::Method::kStored) {
    std::copy(packed.begin(), packed.end(), target.begin());
  } else if (inflate_into(packed, target, where) != entry.size) {
    fail("The data of {} is damaged: it unpacks to less than the {} it declares", where, bytes_text(entry.size));
  }
  check_crc(entry, crc32_of(target), where);
}

void ZipArchive::verify(const ZipEntry& entry) const {
  constexpr size_t kStep = size_t{8} << 20;
  const std::span<const std::byte> bytes = stored_bytes(entry);
  file_->advise_sequential(entry.offset, entry.size);
  uint32_t crc = 0;
  for (size_t done = 0; done < bytes.size(); done += kStep) {
    const size_t count = std::min(kStep, bytes.size() - done);
    crc = crc32_of(bytes.subspan(done, count), crc);
    file_->advise_dont_need(entry.offset + done, count);
  }
  check_crc(entry, crc, quote(entry.name) + " in " + quote(path().native(), 400));
}

std::vector<std::byte> ZipArchive::read_start(const ZipEntry& entry, uint64_t count) const {
  std::vector<std::byte> start(std::min(count, entry.size));
  std::span<const std::byte> packed = file_->bytes(entry.offset, entry.compressed);
  if (entry.method == ZipEntry::Method::kStored) {
    std::copy_n(packed.begin(), start.size(), start.begin());
  } else {
    start.resize(inflate_into(packed, start, quote(entry.name) + " in " + quote(path().native(), 400)));
  }
  return start;
}

}  // namespace exporters
