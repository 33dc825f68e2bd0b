#pragma once

#include "exporters/graph/graph.h"
#include "exporters/symbolic/shape_env.h"

#include <ATen/core/Tensor.h>

#include <memory>

namespace exporters {

/// A tensor without data whose sizes and strides are expressions. It reports the device of its metadata (the CPU by
/// default), so that code which asks takes the path it takes with real tensors. Reading a size as a plain number makes
/// that axis static and the ShapeEnv reports it; reading data is an Error.
/// `sharing`: the fake tensor whose storage the new one views; by default it has its own.
at::Tensor make_fake(TensorMeta meta, const std::shared_ptr<ShapeEnv>& env, const at::Tensor& sharing = {});

/// A fake tensor of a real one's sizes, strides, dtype and device, with constants for sizes. Keeps the wrapped-number
/// mark that type promotion looks at.
at::Tensor fake_like(const at::Tensor& real, const std::shared_ptr<ShapeEnv>& env);

bool is_fake(const at::Tensor& tensor);

/// Metadata with what the ShapeEnv has learnt since applied. For a real tensor: its own.
TensorMeta meta_of(const at::Tensor& tensor);

/// Row-major strides.
std::vector<Expr> contiguous_strides(const std::vector<Expr>& sizes);
/// Whether the strides are those of the format for every valuation that the facts allow; sizes of 1 don't count.
bool is_contiguous(const TensorMeta& meta, const ShapeEnv& env,
                   c10::MemoryFormat format = c10::MemoryFormat::Contiguous);
/// Strides of a dense tensor in that format (contiguous, channels-last 2-D or 3-D).
std::vector<Expr> strides_of_format(const std::vector<Expr>& sizes, c10::MemoryFormat format);

}  // namespace exporters
