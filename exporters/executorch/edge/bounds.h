#pragma once

#include "exporters/graph/exported_program.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace exporters::executorch {

/// The largest sizes that a program's tensors can have: memory is planned for them. From the ranges of the symbols by
/// interval arithmetic, and from guards that limit an expression directly (past + new <= 512).
class Bounds {
 public:
  explicit Bounds(const ExportedProgram& program);
  Bounds(Bounds&&) noexcept;
  ~Bounds();

  Range range(const Expr& size) const;
  /// Throws Error when the size has no upper bound.
  int64_t upper(const Expr& size) const;
  /// Throws Error that names the value and its axis for a size without a bound or beyond 32 bits.
  std::vector<int32_t> sizes(const Value& value) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

bool is_static(const TensorMeta& meta);
/// How many of its sizes are symbolic.
int64_t symbolic_axes(const TensorMeta& meta);

}  // namespace exporters::executorch
