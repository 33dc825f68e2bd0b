#include "exporters/fake/layout.h"

namespace exporters {
namespace {

// Note [Strides of a view]
// As computeStride in ATen/TensorUtils.cpp: the old axes fall into chunks that are contiguous in themselves, and each
// chunk must be made up of whole new axes. Sizes are compared by facts, so a chunk ends also where only particular
// sizes would join it to the next one.
class ViewStrides {
 public:
  ViewStrides(const ShapeEnv& env, const TensorMeta& meta, const std::vector<Expr>& sizes)
      : env_(env), meta_(meta), sizes_(sizes), strides_(sizes.size(), 1), next_(sizes.size()) {}

  std::optional<std::vector<Expr>> compute() {
    for (size_t d = meta_.sizes.size(); d-- > 0;) {
      if (is_one(meta_.sizes[d])) continue;
      if (chunk_numel_ && !same(meta_.strides[d], *chunk_numel_ * base_)) {
        if (!fill_chunk()) return std::nullopt;
        chunk_numel_.reset();
      }
      if (!chunk_numel_) {
        base_ = meta_.strides[d];
        chunk_numel_ = 1;
      }
      chunk_numel_ = *chunk_numel_ * meta_.sizes[d];
    }
    if (!chunk_numel_) chunk_numel_ = 1;
    if (!fill_chunk()) return std::nullopt;
    while (next_ > 0 && is_one(sizes_[next_ - 1])) {
      strides_[--next_] = *chunk_numel_ * base_;
    }
    return next_ == 0 ? std::optional(strides_) : std::nullopt;
  }

 private:
  bool same(const Expr& a, const Expr& b) const { return env_.is_true(eq(a, b)); }
  bool is_one(const Expr& size) const { return same(size, 1); }

  bool fill_chunk() {
    Expr numel = 1;
    while (!same(numel, *chunk_numel_)) {
      if (next_ == 0) return false;
      --next_;
      strides_[next_] = numel * base_;
      numel = numel * sizes_[next_];
    }
    return true;
  }

  const ShapeEnv& env_;
  const TensorMeta& meta_;
  const std::vector<Expr>& sizes_;
  std::vector<Expr> strides_;
  size_t next_;  // new axes from here on have their stride
  std::optional<Expr> chunk_numel_;
  Expr base_ = 1;
};

}  // namespace

std::optional<std::vector<Expr>> view_strides(const ShapeEnv& env, const TensorMeta& meta,
                                              const std::vector<Expr>& sizes) {
  if (is_contiguous(meta, env)) {
    return contiguous_strides(sizes);
  }
  return ViewStrides(env, meta, sizes).compute();
}

}  // namespace exporters
