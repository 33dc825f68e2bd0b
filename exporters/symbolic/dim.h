#pragma once

#include "exporters/symbolic/expr.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace exporters {

/// An inclusive interval of integers; the open ends are kMin and kMax.
struct Range {
  static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t min = kMin;
  int64_t max = kMax;

  bool contains(int64_t value) const { return min <= value && value <= max; }
  std::optional<int64_t> single() const { return min == max ? std::optional(min) : std::nullopt; }
  friend bool operator==(const Range&, const Range&) = default;
  std::string str() const;  ///< "[1, 512]", "[1, int_oo]"
};

/// What the caller says of one axis of one input, as torch.export's Dim.
class Dim {
 public:
  enum class Kind { kAuto, kStatic, kNamed };

  /// Symbolic; becomes static only where the model's code forces it, and the export then says so.
  static Dim Auto(std::optional<int64_t> min = {}, std::optional<int64_t> max = {});
  /// The sample's size.
  static Dim Static();
  /// Symbolic and shared by every axis of that name; an export in which it cannot stay so is an error.
  static Dim named(std::string name, int64_t min = 1, int64_t max = Range::kMax);
  /// A named dim times a factor plus an offset ("2*batch + 1"); throws Error for other expressions or a factor < 1.
  static Dim derived(std::string name, int64_t factor, int64_t offset, Range root_range = {1, Range::kMax});
  /// "batch", "2*batch", "s-1": named or derived.
  static Dim parse(std::string_view text);

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }  ///< of the root, for kNamed
  int64_t factor() const { return factor_; }
  int64_t offset() const { return offset_; }
  Range range() const { return range_; }  ///< of the root, for kNamed; of the axis, for kAuto
  std::string str() const;                ///< "Dim('batch', max=16)", "DimHint(AUTO)": the reference's repr

 private:
  Kind kind_ = Kind::kAuto;
  std::string name_;
  int64_t factor_ = 1;
  int64_t offset_ = 0;
  Range range_{0, Range::kMax};
};

/// Input name (dotted path of a leaf) → axis → what it is. Axes that are not listed take the export's default.
using DynamicShapes = std::map<std::string, std::map<int64_t, Dim>>;

}  // namespace exporters
