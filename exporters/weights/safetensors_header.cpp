#include "exporters/weights/safetensors_header.h"

#include "exporters/support/error.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_set>

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is mapped as it is");

namespace exporters {
namespace {

using c10::ScalarType;

struct Dtype {
  std::string_view name;
  ScalarType type;
  uint64_t bytes;
};

// In the format's order, which is by alignment.
constexpr std::array kDtypes{Dtype{"BOOL", ScalarType::Bool, 1},
                             Dtype{"U8", ScalarType::Byte, 1},
                             Dtype{"I8", ScalarType::Char, 1},
                             Dtype{"F8_E5M2", ScalarType::Float8_e5m2, 1},
                             Dtype{"F8_E4M3", ScalarType::Float8_e4m3fn, 1},
                             Dtype{"F8_E8M0", ScalarType::Float8_e8m0fnu, 1},
                             Dtype{"F8_E4M3FNUZ", ScalarType::Float8_e4m3fnuz, 1},
                             Dtype{"F8_E5M2FNUZ", ScalarType::Float8_e5m2fnuz, 1},
                             Dtype{"I16", ScalarType::Short, 2},
                             Dtype{"U16", ScalarType::UInt16, 2},
                             Dtype{"F16", ScalarType::Half, 2},
                             Dtype{"BF16", ScalarType::BFloat16, 2},
                             Dtype{"I32", ScalarType::Int, 4},
                             Dtype{"U32", ScalarType::UInt32, 4},
                             Dtype{"F32", ScalarType::Float, 4},
                             Dtype{"C64", ScalarType::ComplexFloat, 8},
                             Dtype{"F64", ScalarType::Double, 8},
                             Dtype{"I64", ScalarType::Long, 8},
                             Dtype{"U64", ScalarType::UInt64, 8}};

// The format knows them, but their elements are not whole bytes.
constexpr std::array<std::string_view, 3> kSubByteDtypes{"F4", "F6_E2M3", "F6_E3M2"};

constexpr uint64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxRank = 64;
constexpr size_t kLengthBytes = 8;

const Dtype* find_dtype(std::string_view name) {
  auto it = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& dtype) { return dtype.name == name; });
  return it == kDtypes.end() ? nullptr : &*it;
}

// What a file is that is not safetensors, told by its first bytes.
struct OtherFormat {
  std::string_view start;
  std::string_view what;
  std::string_view hint;
};
constexpr std::array kOtherFormats{
    OtherFormat{"version https://git-lfs", "a git-lfs pointer, not the weights themselves",
                "Run `git lfs pull` in the repository, or download the file again."},
    OtherFormat{"<!DOCTYPE", "a web page, probably an error of the server it was downloaded from",
                "Download it again."},
    OtherFormat{"<!doctype", "a web page, probably an error of the server it was downloaded from",
                "Download it again."},
    OtherFormat{"<html", "a web page, probably an error of the server it was downloaded from", "Download it again."},
    OtherFormat{"<HTML", "a web page, probably an error of the server it was downloaded from", "Download it again."},
    OtherFormat{"<?xml", "an XML text, probably an error of the server it was downloaded from", "Download it again."},
    OtherFormat{"{", "a JSON text, not a safetensors file", "An index file must be called *.safetensors.index.json."},
    OtherFormat{"PK\x03\x04", "a zip archive, as PyTorch's .bin, .pt and .pt2 files are",
                "Convert it to safetensors first."},
    OtherFormat{"GGUF", "a GGUF file", "Use the model's original safetensors files."},
    OtherFormat{"\x1f\x8b", "compressed with gzip", "Unpack it first."},
    OtherFormat{"\x80\x02", "a Python pickle", "Convert it to safetensors first."},
    OtherFormat{"\x89HDF", "an HDF5 file", "Convert it to safetensors first."},
    OtherFormat{"Entry not found", "the answer of a server that did not have the file", "Download it again."},
    OtherFormat{"Repository not found", "the answer of a server that did not have the file", "Download it again."},
};

// Errors of one file: all begin with its name.
class Reporter {
 public:
  explicit Reporter(const std::string& file) : file_(quote(file, 400)) {}

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(
        fmt::format("{} is not a valid safetensors file: {}", file_, fmt::format(format, std::forward<Args>(args)...)));
  }
  template <typename... Args>
  [[noreturn]] void refuse_damaged(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(fmt::format("{} is damaged: {}", file_, fmt::format(format, std::forward<Args>(args)...)), {},
                "Download or copy the file again.");
  }
  void refuse_other_formats(std::string_view start) const {
    for (const OtherFormat& format : kOtherFormats) {
      if (start.starts_with(format.start)) {
        throw Error(fmt::format("{} is {}", file_, format.what), {}, std::string(format.hint));
      }
    }
  }

 private:
  std::string file_;
};

// Takes the header's JSON events and nothing but the format's shape:
//   {"__metadata__": {string: string…}, name: {"dtype": string, "shape": [uint…], "data_offsets": [uint, uint]}…}
// Other members of a tensor are skipped, as the format's own reader does. Streaming, so that a header of 100 MB
// does not become a tree of gigabytes.
class HeaderReader {
 public:
  HeaderReader(SafetensorsHeader& header, const Reporter& reporter, uint64_t file_size)
      : header_(header), reporter_(reporter), data_size_(file_size - header.data_start) {}

  bool null() { return state_ == State::kMetadataValue ? leave(State::kTensors) : other("null"); }
  bool boolean(bool) { return other("a boolean"); }
  bool number_integer(int64_t value) { return in_numbers() ? refuse_number(std::to_string(value)) : other("a number"); }
  bool number_float(double, const std::string& text) { return in_numbers() ? refuse_number(text) : other("a number"); }
  bool binary(nlohmann::json::binary_t&) { return false; }

  bool number_unsigned(uint64_t value) {
    if (!in_numbers()) {
      return other("a number");
    }
    if (value > kMaxInt) {
      return refuse_number(std::to_string(value));
    }
    if (state_ == State::kShape) {
      if (entry_.shape.size() == kMaxRank) {
        reporter_.refuse("tensor {} has more than {} axes", quote(entry_.name), kMaxRank);
      }
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (offsets_ == 2) {
      reporter_.refuse("tensor {} has more than two data_offsets", quote(entry_.name));
    }
    (offsets_ == 0 ? begin_ : end_) = value;
    ++offsets_;
    return true;
  }

  bool string(std::string& value) {
    if (state_ == State::kMetadataText) {
      header_.metadata.emplace(std::move(key_), std::move(value));
      return leave(State::kMetadata);
    }
    if (state_ == State::kDtype) {
      set_dtype(value);
      return leave(State::kTensor);
    }
    return other("a string");
  }

  bool start_object(size_t) {
    switch (state_) {
      case State::kStart:
        return leave(State::kTensors);
      case State::kMetadataValue:
        return leave(State::kMetadata);
      case State::kTensorValue:
        seen_ = 0;
        offsets_ = 0;
        return leave(State::kTensor);
      default:
        return open_other("an object");
    }
  }
  bool end_object() {
    switch (state_) {
      case State::kTensors:
        return leave(State::kEnd);
      case State::kMetadata:
        return leave(State::kTensors);
      case State::kTensor:
        add_entry();
        return leave(State::kTensors);
      default:
        return close_other();
    }
  }
  bool start_array(size_t) {
    switch (state_) {
      case State::kShapeValue:
        entry_.shape.clear();
        return leave(State::kShape);
      case State::kOffsetsValue:
        return leave(State::kOffsets);
      default:
        return open_other("an array");
    }
  }
  bool end_array() {
    return state_ == State::kShape || state_ == State::kOffsets ? leave(State::kTensor) : close_other();
  }

  bool key(std::string& value) {
    switch (state_) {
      case State::kTensors:
        return tensor_or_metadata(value);
      case State::kMetadata:
        if (header_.metadata.contains(value)) {
          reporter_.refuse("the metadata key {} appears twice", quote(value));
        }
        key_ = std::move(value);
        return leave(State::kMetadataText);
      case State::kTensor:
        return tensor_member(value);
      default:
        return true;
    }
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    std::string_view text = error.what();
    if (size_t end = text.find("] "); end != std::string_view::npos) {
      text.remove_prefix(end + 2);
    }
    reporter_.refuse("its header is not valid JSON at byte {}: {}", position, quote(text, 300));
  }

 private:
  enum class State {
    kStart,
    kTensors,
    kMetadataValue,
    kMetadata,
    kMetadataText,
    kTensorValue,
    kTensor,
    kDtype,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
    kSkip,
    kEnd
  };
  static constexpr size_t kMaxSkippedDepth = 128;

  bool leave(State next) {
    state_ = next;
    return true;
  }

  bool in_numbers() const { return state_ == State::kShape || state_ == State::kOffsets; }

  bool refuse_number(const std::string& text) {
    reporter_.refuse("tensor {} has {} in its {}, which must be whole numbers from 0 to {}", quote(entry_.name),
                     quote(text), state_ == State::kShape ? "shape" : "data_offsets", kMaxInt);
  }

  // A value that the format has no use for: skipped inside unknown members, refused elsewhere.
  bool other(std::string_view what) {
    if (state_ == State::kSkip) {
      return skipped_depth_ > 0 || leave(State::kTensor);
    }
    refuse_value(what);
  }
  bool open_other(std::string_view what) {
    if (state_ != State::kSkip) {
      refuse_value(what);
    }
    if (++skipped_depth_ > kMaxSkippedDepth) {
      reporter_.refuse("its header nests deeper than {}", kMaxSkippedDepth);
    }
    return true;
  }
  bool close_other() { return --skipped_depth_ > 0 || leave(State::kTensor); }

  [[noreturn]] void refuse_value(std::string_view what) {
    switch (state_) {
      case State::kStart:
        reporter_.refuse("its header is {}, not an object", what);
      case State::kMetadataValue:
        reporter_.refuse("__metadata__ is {}, not an object of strings", what);
      case State::kMetadataText:
        reporter_.refuse("the metadata key {} is {}, not a string", quote(key_), what);
      case State::kTensorValue:
        reporter_.refuse("tensor {} is described by {}, not by an object", quote(entry_.name), what);
      default:
        reporter_.refuse("tensor {} has {} as {}", quote(entry_.name), what,
                         state_ == State::kDtype                                   ? "dtype, not a string"
                         : state_ == State::kShapeValue || state_ == State::kShape ? "shape, not an array of numbers"
                                                                                   : "data_offsets, not two numbers");
    }
  }

  bool tensor_or_metadata(std::string& name) {
    if (name == "__metadata__") {
      if (std::exchange(has_metadata_, true)) {
        reporter_.refuse("the key '__metadata__' appears twice");
      }
      return leave(State::kMetadataValue);
    }
    if (!names_.insert(name).second) {
      reporter_.refuse("the tensor {} appears twice in its header", quote(name));
    }
    entry_ = {};
    entry_.name = std::move(name);
    return leave(State::kTensorValue);
  }

  bool tensor_member(const std::string& name) {
    struct Member {
      std::string_view name;
      State state;
    };
    static constexpr std::array kMembers{Member{"dtype", State::kDtype}, Member{"shape", State::kShapeValue},
                                         Member{"data_offsets", State::kOffsetsValue}};
    for (size_t i = 0; i < kMembers.size(); ++i) {
      if (kMembers[i].name == name) {
        if ((seen_ & (1u << i)) != 0) {
          reporter_.refuse("tensor {} has {} twice", quote(entry_.name), name);
        }
        seen_ |= 1u << i;
        return leave(kMembers[i].state);
      }
    }
    skipped_depth_ = 0;
    return leave(State::kSkip);
  }

  void set_dtype(const std::string& name) {
    dtype_ = find_dtype(name);
    if (dtype_ != nullptr) {
      entry_.dtype = dtype_->type;
      return;
    }
    if (std::find(kSubByteDtypes.begin(), kSubByteDtypes.end(), name) != kSubByteDtypes.end()) {
      reporter_.refuse("tensor {} has dtype {}, whose elements are smaller than a byte; that is not supported",
                       quote(entry_.name), name);
    }
    std::vector<std::string> names;
    for (const Dtype& dtype : kDtypes) {
      names.emplace_back(dtype.name);
    }
    reporter_.refuse("tensor {} has the unknown dtype {}. {}", quote(entry_.name), quote(name),
                     did_you_mean(name, names));
  }

  // The bytes that shape × dtype needs. Also with axes of size 0 the other axes must multiply to something that fits:
  // strides are computed from them.
  uint64_t needed_bytes() const {
    uint64_t all = dtype_->bytes;
    bool empty = false;
    for (int64_t size : entry_.shape) {
      empty |= size == 0;
      uint64_t factor = size == 0 ? 1 : static_cast<uint64_t>(size);
      if (all > kMaxInt / factor) {
        reporter_.refuse("tensor {} of shape {} and dtype {} would have more bytes than 64 bits can count",
                         quote(entry_.name), shape_text(entry_.shape), dtype_->name);
      }
      all *= factor;
    }
    return empty ? 0 : all;
  }

  void add_entry() {
    static constexpr std::array<std::string_view, 3> kMembers{"dtype", "shape", "data_offsets"};
    for (size_t i = 0; i < kMembers.size(); ++i) {
      if ((seen_ & (1u << i)) == 0) {
        reporter_.refuse("tensor {} has no {}", quote(entry_.name), kMembers[i]);
      }
    }
    if (offsets_ != 2) {
      reporter_.refuse("tensor {} has {} of its two data_offsets", quote(entry_.name), offsets_);
    }
    if (begin_ > end_) {
      reporter_.refuse("tensor {} begins at {} and ends before it, at {}", quote(entry_.name), begin_, end_);
    }
    uint64_t needed = needed_bytes();
    if (needed != end_ - begin_) {
      reporter_.refuse("tensor {} of shape {} and dtype {} needs {}, but its data_offsets [{}, {}] hold {}",
                       quote(entry_.name), shape_text(entry_.shape), dtype_->name, bytes_text(needed), begin_, end_,
                       bytes_text(end_ - begin_));
    }
    if (end_ > data_size_) {
      reporter_.refuse_damaged("tensor {} ends at byte {} of the file, but the file has only {}", quote(entry_.name),
                               header_.data_start + end_, bytes_text(header_.data_start + data_size_));
    }
    // The header's length may shift all data by a few bytes; within the data a tensor begins where its elements can
    // lie.
    const uint64_t element = dtype_->bytes;
    if (needed > 0 && begin_ % element != 0) {
      reporter_.refuse("tensor {} begins at the misaligned offset {}: elements of {} take {} bytes", quote(entry_.name),
                       begin_, dtype_->name, element);
    }
    entry_.offset = header_.data_start + begin_;
    entry_.nbytes = needed;
    header_.entries.push_back(std::move(entry_));
  }

  SafetensorsHeader& header_;
  const Reporter& reporter_;
  uint64_t data_size_;
  State state_ = State::kStart;
  std::unordered_set<std::string> names_;
  std::string key_;
  SafetensorsEntry entry_;
  const Dtype* dtype_ = nullptr;
  unsigned seen_ = 0;
  int offsets_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  bool has_metadata_ = false;
  size_t skipped_depth_ = 0;
};

// The length of the JSON text, proved to be inside the file.
uint64_t header_length(std::span<const std::byte> bytes, const Reporter& reporter) {
  std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  if (bytes.empty()) {
    reporter.refuse_damaged("it is empty (0 bytes)");
  }
  uint64_t length = 0;
  if (bytes.size() >= kLengthBytes) {
    std::memcpy(&length, bytes.data(), kLengthBytes);
    if (length <= kMaxSafetensorsHeader && length <= bytes.size() - kLengthBytes) {
      return length;
    }
  }
  reporter.refuse_other_formats(start);
  if (bytes.size() < kLengthBytes) {
    reporter.refuse_damaged("it has {}, less than the {} bytes of the header's length", bytes_text(bytes.size()),
                            kLengthBytes);
  }
  if (length > kMaxSafetensorsHeader) {
    reporter.refuse("it declares a header of {}; the limit is {}, and the file has {}", bytes_text(length),
                    bytes_text(kMaxSafetensorsHeader), bytes_text(bytes.size()));
  }
  reporter.refuse_damaged("it declares a header of {} behind its first 8, but the whole file has {}",
                          bytes_text(length), bytes_text(bytes.size()));
}

// Sorts by offset and holds the tensors against each other and against the file's end.
void check_layout(SafetensorsHeader& header, uint64_t file_size, const Reporter& reporter) {
  auto before = [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.offset, a.nbytes, a.name) < std::tie(b.offset, b.nbytes, b.name);
  };
  std::sort(header.entries.begin(), header.entries.end(), before);
  uint64_t end = header.data_start;
  const SafetensorsEntry* previous = nullptr;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.offset < end) {
      reporter.refuse(
          "tensors {} and {} overlap: the second begins at byte {} of the file, before the first ends at {}",
          quote(previous->name), quote(entry.name), entry.offset, end);
    }
    if (entry.offset > end) {
      reporter.refuse("there are {} of no tensor before {}, which begins at byte {} of the file",
                      bytes_text(entry.offset - end), quote(entry.name), entry.offset);
    }
    end = entry.offset + entry.nbytes;
    previous = &entry;
  }
  if (end != file_size) {
    reporter.refuse("its tensors end at byte {}, but the file has {}: the last {} belong to no tensor", end,
                    bytes_text(file_size), bytes_text(file_size - end));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, const std::string& file) {
  Reporter reporter(file);
  uint64_t length = header_length(bytes, reporter);
  SafetensorsHeader header;
  header.data_start = kLengthBytes + length;
  HeaderReader reader(header, reporter, bytes.size());
  std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  check_layout(header, bytes.size(), reporter);
  return header;
}

std::optional<std::string_view> safetensors_dtype_name(ScalarType type) {
  int rank = safetensors_dtype_rank(type);
  return rank < 0 ? std::nullopt : std::optional(kDtypes[static_cast<size_t>(rank)].name);
}

int safetensors_dtype_rank(ScalarType type) {
  auto it = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& dtype) { return dtype.type == type; });
  return it == kDtypes.end() ? -1 : static_cast<int>(it - kDtypes.begin());
}

}  // namespace exporters
