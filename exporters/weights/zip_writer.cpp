#include "exporters/weights/zip_writer.h"

#include "exporters/support/error.h"
#include "exporters/support/file_copy.h"
#include "exporters/weights/crc32.h"
#include "exporters/weights/zip_format.h"

#include <algorithm>

namespace exporters {
namespace {

using namespace zip;  // NOLINT(google-build-using-namespace): constants of the format

constexpr uint16_t kPaddingField = 0x4246;  // "FB": PyTorch's own
constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersionZip64 = 45;
constexpr uint16_t kNamesAreUtf8 = 0x0800;
constexpr uint16_t kFirstOfJanuary1980 = 0x0021;
constexpr uint64_t kElsewhere32 = 0xFFFFFFFF;
constexpr uint64_t kElsewhere16 = 0xFFFF;
constexpr uint64_t kAlignment = 64;
// What filesystems share are blocks; for less than a few of them it does not pay.
constexpr uint64_t kBlock = 4096;
constexpr uint64_t kShared = 16 * kBlock;

class Bytes {
 public:
  template <typename T>
  Bytes& number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      text_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
    }
    return *this;
  }
  Bytes& text(std::string_view value) {
    text_ += value;
    return *this;
  }
  std::string take() { return std::move(text_); }
  size_t size() const { return text_.size(); }

 private:
  std::string text_;
};

uint32_t in_32_bits(uint64_t value) { return static_cast<uint32_t>(std::min(value, kElsewhere32)); }

// From the version on, what both kinds of header have in common.
void append_common(Bytes& bytes, bool zip64, std::string_view name, uint64_t size, uint32_t crc, size_t extra) {
  constexpr uint16_t kStored = 0;
  constexpr uint16_t kMidnight = 0;
  bytes.number(zip64 ? kVersionZip64 : kVersion)
      .number(kNamesAreUtf8)
      .number(kStored)
      .number(kMidnight)
      .number(kFirstOfJanuary1980)
      .number(crc)
      .number(in_32_bits(size))
      .number(in_32_bits(size))
      .number(static_cast<uint16_t>(name.size()))
      .number(static_cast<uint16_t>(extra));
}

std::string zip64_field(std::initializer_list<uint64_t> values) {
  Bytes field;
  field.number(kZip64Field).number(static_cast<uint16_t>(8 * values.size()));
  for (const uint64_t value : values) {
    field.number(value);
  }
  return field.take();
}

}  // namespace

std::string ZipLayout::local_header(std::string_view name, uint64_t offset, uint64_t size, uint32_t crc,
                                    uint64_t alignment, uint64_t residue) const {
  ensure(name.size() <= kElsewhere16, "A zip archive takes no name of {} bytes", name.size());
  const bool zip64 = size >= kElsewhere32;
  std::string extra = zip64 ? zip64_field({size, size}) : std::string();
  constexpr uint64_t kFixed = 30;
  constexpr uint64_t kFieldHeader = 4;
  const uint64_t unpadded = offset + kFixed + name.size() + extra.size() + kFieldHeader;
  const uint64_t padding = (residue - unpadded) & (alignment - 1);
  extra += Bytes().number(kPaddingField).number(static_cast<uint16_t>(padding)).take() + std::string(padding, 'Z');

  Bytes header;
  header.number(kLocalHeader);
  append_common(header, zip64, name, size, crc, extra.size());
  return header.text(name).text(extra).take();
}

void ZipLayout::add(std::string_view name, uint64_t offset, uint64_t size, uint32_t crc) {
  entries_.push_back({std::string(name), offset, size, crc});
}

std::string ZipLayout::directory(uint64_t offset) const {
  Bytes bytes;
  for (const Entry& entry : entries_) {
    const bool zip64 = entry.size >= kElsewhere32 || entry.offset >= kElsewhere32;
    // The field holds what does not fit, in this order.
    const std::string extra = entry.size >= kElsewhere32 && entry.offset >= kElsewhere32
                                  ? zip64_field({entry.size, entry.size, entry.offset})
                              : entry.size >= kElsewhere32 ? zip64_field({entry.size, entry.size})
                              : zip64                      ? zip64_field({entry.offset})
                                                           : std::string();
    bytes.number(kDirectoryHeader).number(zip64 ? kVersionZip64 : kVersion);
    append_common(bytes, zip64, entry.name, entry.size, entry.crc, extra.size());
    constexpr uint16_t kNothing = 0;  // of a comment, a disk number, attributes
    bytes.number(kNothing).number(kNothing).number(kNothing).number(uint32_t{0});
    bytes.number(in_32_bits(entry.offset)).text(entry.name).text(extra);
  }
  const uint64_t size = bytes.size();
  const uint64_t count = entries_.size();
  const bool zip64 = offset >= kElsewhere32 || size >= kElsewhere32 || count >= kElsewhere16;
  if (zip64) {
    constexpr uint64_t kRestOfRecord = 44;
    bytes.number(kEnd64).number(kRestOfRecord).number(kVersionZip64).number(kVersionZip64);
    bytes.number(uint32_t{0}).number(uint32_t{0}).number(count).number(count).number(size).number(offset);
    bytes.number(kEnd64Locator).number(uint32_t{0}).number(offset + size).number(uint32_t{1});
  }
  const auto count_16 = static_cast<uint16_t>(std::min(count, kElsewhere16));
  bytes.number(kEnd).number(uint16_t{0}).number(uint16_t{0}).number(count_16).number(count_16);
  bytes.number(in_32_bits(size)).number(in_32_bits(offset)).number(uint16_t{0});
  return bytes.take();
}

void ZipWriter::add(std::string_view name, std::span<const std::byte> data) {
  const uint64_t offset = file_.size();
  const uint32_t crc = crc32_of(data);
  file_.write(layout_.local_header(name, offset, data.size(), crc, kAlignment));
  file_.write(data);
  record(name, offset, data.size(), crc);
}

template <typename HeaderOf, typename WriteData>
void ZipWriter::add_with_late_header(std::string_view name, uint64_t nbytes, HeaderOf header_of, WriteData write_data) {
  const uint64_t offset = file_.size();
  file_.reserve(header_of(offset, 0).size());
  const uint32_t crc = write_data();
  file_.write_at(offset, header_of(offset, crc));
  record(name, offset, nbytes, crc);
}

void ZipWriter::add_range(std::string_view name, const std::filesystem::path& source, uint64_t source_offset,
                          uint64_t nbytes, const std::function<void(uint64_t)>& progress) {
  const bool may_share = nbytes >= kShared;
  auto header_of = [&](uint64_t offset, uint32_t crc) {
    return layout_.local_header(name, offset, nbytes, crc, may_share ? kBlock : kAlignment,
                                may_share ? source_offset % kBlock : 0);
  };
  add_with_late_header(name, nbytes, header_of, [&] {
    uint32_t crc = 0;
    CopyOptions options;
    options.progress = progress;
    options.inspect = {.write = [&](std::span<const std::byte> bytes) { crc = crc32_of(bytes, crc); },
                       .write_zeros = [&](uint64_t count) { crc = crc32_of_zeros(count, crc); }};
    append_range(file_, source, source_offset, nbytes, options);
    return crc;
  });
}

void ZipWriter::add_pieces(std::string_view name, uint64_t nbytes, const std::function<void(const ByteSink&)>& produce,
                           const std::function<void(uint64_t)>& progress) {
  auto header_of = [&](uint64_t offset, uint32_t crc) {
    return layout_.local_header(name, offset, nbytes, crc, kAlignment);
  };
  add_with_late_header(name, nbytes, header_of, [&] {
    const uint64_t begin = file_.size();
    uint32_t crc = 0;
    auto count = [&](uint64_t written) {
      if (progress) {
        progress(written);
      }
    };
    produce({.write =
                 [&](std::span<const std::byte> bytes) {
                   crc = crc32_of(bytes, crc);
                   file_.write(bytes);
                   count(bytes.size());
                 },
             .write_zeros =
                 [&](uint64_t zeros) {
                   crc = crc32_of_zeros(zeros, crc);
                   file_.reserve(zeros);
                   count(zeros);
                 }});
    const uint64_t written = file_.size() - begin;
    ensure(written == nbytes, "{} of {} bytes of '{}' were written", written, nbytes, name);
    return crc;
  });
}

void ZipWriter::finish() { file_.write(layout_.directory(file_.size())); }

void ZipWriter::record(std::string_view name, uint64_t offset, uint64_t size, uint32_t crc) {
  layout_.add(name, offset, size, crc);
  // FNV-1a
  constexpr uint64_t kPrime = 0x100000001b3;
  for (const char c : name) {
    digest_ = (digest_ ^ static_cast<unsigned char>(c)) * kPrime;
  }
  digest_ = (digest_ ^ size) * kPrime;
  digest_ = (digest_ ^ crc) * kPrime;
}

std::string zip_text(const std::vector<std::pair<std::string, std::string>>& entries) {
  ZipLayout layout;
  std::string text;
  for (const auto& [name, data] : entries) {
    const uint64_t offset = text.size();
    const uint32_t crc = crc32_of(std::as_bytes(std::span(data)));
    text += layout.local_header(name, offset, data.size(), crc, kAlignment);
    text += data;
    layout.add(name, offset, data.size(), crc);
  }
  return text + layout.directory(text.size());
}

}  // namespace exporters
