#include "exporters/weights/npy_header.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace exporters {
namespace {

using c10::ScalarType;

struct Descr {
  std::string_view name;  // without the byte order
  ScalarType type;
  uint64_t bytes;
};
constexpr std::array kDescrs{Descr{"b1", ScalarType::Bool, 1},         Descr{"u1", ScalarType::Byte, 1},
                             Descr{"i1", ScalarType::Char, 1},         Descr{"u2", ScalarType::UInt16, 2},
                             Descr{"i2", ScalarType::Short, 2},        Descr{"u4", ScalarType::UInt32, 4},
                             Descr{"i4", ScalarType::Int, 4},          Descr{"u8", ScalarType::UInt64, 8},
                             Descr{"i8", ScalarType::Long, 8},         Descr{"f2", ScalarType::Half, 2},
                             Descr{"f4", ScalarType::Float, 4},        Descr{"f8", ScalarType::Double, 8},
                             Descr{"c8", ScalarType::ComplexFloat, 8}, Descr{"c16", ScalarType::ComplexDouble, 16}};

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;

// Reads the dictionary literal "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" and nothing else of
// Python.
class DictReader {
 public:
  DictReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void run(NpyHeader& header) {
    expect('{');
    while (!take('}')) {
      std::string_view key = string();
      expect(':');
      read_member(key, header);
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty() || seen_ != 7) {
      refuse("its header is not a dictionary of descr, fortran_order and shape");
    }
  }

  [[noreturn]] void refuse(std::string_view problem) const {
    fail("{} is not a readable .npy file: {}", name_, problem);
  }

 private:
  void read_member(std::string_view key, NpyHeader& header) {
    constexpr std::array<std::string_view, 3> kKeys{"descr", "fortran_order", "shape"};
    auto which = static_cast<size_t>(std::find(kKeys.begin(), kKeys.end(), key) - kKeys.begin());
    if (which == kKeys.size() || (seen_ & (1u << which)) != 0) {
      refuse("its header has an odd entry " + quote(key));
    }
    seen_ |= 1u << which;
    if (which == 0) {
      read_descr(header);
    } else if (which == 1) {
      header.fortran_order = boolean();
    } else {
      header.shape = tuple();
    }
  }

  void read_descr(NpyHeader& header) {
    skip_space();
    if (text_.starts_with('[')) {
      refuse("it holds records, not numbers");
    }
    std::string_view descr = string();
    std::string_view order = descr.substr(0, 1);
    std::string_view kind = descr.substr(std::min<size_t>(1, descr.size()));
    auto it = std::find_if(kDescrs.begin(), kDescrs.end(), [&](const Descr& d) { return d.name == kind; });
    bool known_order = order == "<" || order == ">" || order == "|" || order == "=";
    if (it == kDescrs.end() || !known_order) {
      fail(
          "{} holds data of NumPy's type {}, which is not a plain number. Convert it before saving; for types that "
          "NumPy "
          "lacks, such as bfloat16, use safetensors",
          name_, quote(descr));
    }
    header.dtype = it->type;
    header.swapped = order == ">" && it->bytes > 1;
  }

  void skip_space() {
    size_t start = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(start == std::string_view::npos ? text_.size() : start);
  }
  bool take(char c) {
    skip_space();
    if (!text_.starts_with(c)) {
      return false;
    }
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) {
      refuse(fmt::format("'{}' is missing in its header before {}", c, quote(text_, 20)));
    }
  }
  std::string_view string() {
    skip_space();
    char mark = text_.empty() ? '\0' : text_[0];
    size_t end = mark == '\'' || mark == '"' ? text_.find(mark, 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      refuse("a string is missing in its header before " + quote(text_, 20));
    }
    std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    skip_space();
    for (std::string_view word : {"True", "False"}) {
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return word == "True";
      }
    }
    refuse("fortran_order is neither True nor False");
  }
  int64_t number() {
    skip_space();
    uint64_t value = 0;
    size_t digits = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
      value = digits < 19 ? value * 10 + static_cast<uint64_t>(text_[digits] - '0') : UINT64_MAX;
    }
    if (digits == 0 || value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      refuse("its shape has an entry that is no size: " + quote(text_, 24));
    }
    text_.remove_prefix(digits);
    // Python 2 wrote long integers with an L.
    if (text_.starts_with('L')) {
      text_.remove_prefix(1);
    }
    return static_cast<int64_t>(value);
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!take(')')) {
      if (values.size() == kMaxRank) {
        refuse(fmt::format("it has more than {} axes", kMaxRank));
      }
      values.push_back(number());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  const std::string& name_;
  unsigned seen_ = 0;
};

uint64_t data_bytes(const NpyHeader& header, const DictReader& reader) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  auto it = std::find_if(kDescrs.begin(), kDescrs.end(), [&](const Descr& d) { return d.type == header.dtype; });
  uint64_t all = it->bytes;
  bool empty = false;
  for (int64_t size : header.shape) {
    empty |= size == 0;
    uint64_t factor = size == 0 ? 1 : static_cast<uint64_t>(size);
    if (all > kMax / factor) {
      reader.refuse("its shape " + shape_text(header.shape) + " has more bytes than 64 bits can count");
    }
    all *= factor;
  }
  return empty ? 0 : all;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> start, uint64_t file_size, const std::string& name) {
  std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  DictReader none({}, name);
  if (!text.starts_with(kMagic) || text.size() < 12) {
    none.refuse("it does not begin as one");
  }
  auto version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) {
    none.refuse(fmt::format("it has format version {}; 1 to 3 are read", version));
  }
  uint64_t length_bytes = version == 1 ? 2 : 4;
  uint64_t length = 0;
  std::memcpy(&length, text.data() + 8, length_bytes);
  NpyHeader header;
  header.data_start = 8 + length_bytes + length;
  if (length > kMaxNpyHeader || header.data_start > text.size()) {
    none.refuse(fmt::format("it declares a header of {}, but has {}", bytes_text(length), bytes_text(file_size)));
  }
  DictReader reader(text.substr(8 + length_bytes, length), name);
  reader.run(header);
  header.nbytes = data_bytes(header, reader);
  if (header.nbytes != file_size - header.data_start) {
    reader.refuse(fmt::format("its data of shape {} needs {}, but there are {}", shape_text(header.shape),
                              bytes_text(header.nbytes), bytes_text(file_size - header.data_start)));
  }
  return header;
}

}  // namespace exporters
