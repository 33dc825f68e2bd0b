#include "exporters/pt2/schema.h"

#include "exporters/graph/op_name.h"

#include <algorithm>
#include <array>
#include <utility>

namespace exporters::pt2 {
namespace {

template <typename T, size_t N>
using Table = std::array<std::pair<T, int64_t>, N>;

constexpr auto kDtypes = std::to_array<std::pair<c10::ScalarType, int64_t>>({
    {c10::ScalarType::Byte, 1},
    {c10::ScalarType::Char, 2},
    {c10::ScalarType::Short, 3},
    {c10::ScalarType::Int, 4},
    {c10::ScalarType::Long, 5},
    {c10::ScalarType::Half, 6},
    {c10::ScalarType::Float, 7},
    {c10::ScalarType::Double, 8},
    {c10::ScalarType::ComplexHalf, 9},
    {c10::ScalarType::ComplexFloat, 10},
    {c10::ScalarType::ComplexDouble, 11},
    {c10::ScalarType::Bool, 12},
    {c10::ScalarType::BFloat16, 13},
    {c10::ScalarType::UInt16, 28},
    {c10::ScalarType::Float8_e4m3fn, 29},
    {c10::ScalarType::Float8_e5m2, 30},
    {c10::ScalarType::Float8_e4m3fnuz, 31},
    {c10::ScalarType::Float8_e5m2fnuz, 32},
    {c10::ScalarType::Float8_e8m0fnu, 33},
    {c10::ScalarType::UInt32, 34},
    {c10::ScalarType::UInt64, 35},
});

constexpr auto kLayouts = std::to_array<std::pair<c10::Layout, int64_t>>({
    {c10::kSparse, 1},
    {c10::kSparseCsr, 2},
    {c10::kSparseCsc, 3},
    {c10::kSparseBsr, 4},
    {c10::kSparseBsc, 5},
    {c10::kMkldnn, 6},
    {c10::kStrided, 7},
});

constexpr auto kMemoryFormats = std::to_array<std::pair<c10::MemoryFormat, int64_t>>({
    {c10::MemoryFormat::Contiguous, 1},
    {c10::MemoryFormat::ChannelsLast, 2},
    {c10::MemoryFormat::ChannelsLast3d, 3},
    {c10::MemoryFormat::Preserve, 4},
});

template <typename T, size_t N>
std::optional<int64_t> code_of(const Table<T, N>& table, T value) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.first == value; });
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

template <typename T, size_t N>
std::optional<T> value_of(const Table<T, N>& table, int64_t code) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.second == code; });
  return found == table.end() ? std::nullopt : std::optional(found->first);
}

constexpr std::string_view kOpsPrefix = "torch.ops.";

}  // namespace

std::optional<int64_t> dtype_code(c10::ScalarType dtype) { return code_of(kDtypes, dtype); }
std::optional<c10::ScalarType> dtype_from_code(int64_t code) { return value_of(kDtypes, code); }
std::optional<int64_t> layout_code(c10::Layout layout) { return code_of(kLayouts, layout); }
std::optional<c10::Layout> layout_from_code(int64_t code) { return value_of(kLayouts, code); }
std::optional<int64_t> memory_format_code(c10::MemoryFormat format) { return code_of(kMemoryFormats, format); }
std::optional<c10::MemoryFormat> memory_format_from_code(int64_t code) { return value_of(kMemoryFormats, code); }

std::string target_to_schema(std::string_view target) {
  const bool is_op = is_dispatcher_target(target) || is_higher_order_target(target);
  return (is_op ? std::string(kOpsPrefix) : std::string()) + std::string(target);
}

std::string target_from_schema(std::string_view text) {
  if (text.starts_with(kOpsPrefix)) {
    text.remove_prefix(kOpsPrefix.size());
  }
  return std::string(text);
}

}  // namespace exporters::pt2
