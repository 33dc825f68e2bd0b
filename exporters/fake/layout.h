#pragma once

#include "exporters/fake/fake_tensor.h"

#include <cstdint>
#include <optional>
#include <vector>

// Memory layouts as ATen chooses them. Layout decides speed and what can be a view, never values, so the questions here
// are answered at typical sizes and never become guards. A typical size is the sample's, or some size above 1 where the
// sample is 0 or 1 or there is none: a layout that holds for batch 1 only would be wrong for every other batch.
namespace exporters {

/// The expression at typical sizes.
int64_t typical(const ShapeEnv& env, const Expr& expr);

/// Tensor::suggest_memory_format(): channels-last when the strides ascend that way, also for slices.
c10::MemoryFormat suggest_memory_format(const ShapeEnv& env, const TensorMeta& meta);

/// Whether the elements fill their memory without gaps and overlaps, in some order of the axes.
bool is_dense(const ShapeEnv& env, const TensorMeta& meta);

/// Strides of `empty_like(meta)` with MemoryFormat::Preserve.
std::vector<Expr> preserved_strides(ShapeEnv& env, const TensorMeta& meta);

/// Strides of a fresh dense tensor whose axes are ordered in memory as TensorIterator orders them for these operands;
/// `sizes` is their broadcast.
std::vector<Expr> elementwise_strides(const ShapeEnv& env, c10::ArrayRef<TensorMeta> operands,
                                      const std::vector<Expr>& sizes);

/// A fresh tensor of the same sizes and dtype: `empty_like(meta, memory_format)`; preserve_format when none is given.
TensorMeta like(ShapeEnv& env, const TensorMeta& meta, std::optional<c10::MemoryFormat> format = {});

/// Strides under which the memory of `meta` can be seen with other sizes of as many elements; nothing where the facts
/// don't say that it can.
std::optional<std::vector<Expr>> view_strides(const ShapeEnv& env, const TensorMeta& meta,
                                              const std::vector<Expr>& sizes);

/// A fresh tensor of that size and dtype on the device of `like`, dense in the given format.
TensorMeta formatted(std::vector<Expr> sizes, c10::ScalarType dtype, const TensorMeta& like,
                     c10::MemoryFormat format = c10::MemoryFormat::Contiguous);

}  // namespace exporters
