#include "exporters/pt2/pickle_writer.h"

#include "exporters/support/error.h"

#include <bit>
#include <limits>
#include <utility>

namespace exporters::pt2 {
namespace {

std::string little_endian(uint64_t value, int nbytes) {
  std::string text;
  for (int i = 0; i < nbytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

}  // namespace

void PickleWriter::integer(int64_t value) {
  const bool is_short = value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
  const int nbytes = is_short ? 4 : 8;
  text_ += is_short ? "J" : "\x8a\x08";
  text_ += little_endian(static_cast<uint64_t>(value), nbytes);
}

void PickleWriter::number(double value) {
  op('G');
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 7; i >= 0; --i) {
    text_ += static_cast<char>(bits >> (8 * i));
  }
}

void PickleWriter::string(std::string_view value) {
  ensure(value.size() <= std::numeric_limits<uint32_t>::max(), "A string of {} bytes cannot be saved", value.size());
  op('X');
  text_ += little_endian(value.size(), 4);
  text_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  op('c');
  text_ += module;
  text_ += '\n';
  text_ += name;
  text_ += '\n';
}

std::string PickleWriter::finish() && {
  op('.');
  return std::move(text_);
}

}  // namespace exporters::pt2
