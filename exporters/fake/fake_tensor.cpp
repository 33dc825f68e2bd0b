#include "exporters/fake/fake_tensor.h"

#include "exporters/fake/layout.h"
#include "exporters/fake/reshape_in_place.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/sym_node.h"

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/WrapDimMinimal.h>

namespace exporters {
namespace {

const char* const kNoData =
    "a traced tensor has no data: the model reads values directly (data_ptr, accessor), which cannot be exported";

std::vector<c10::SymInt> to_sym_ints(const std::vector<Expr>& exprs, const std::shared_ptr<ShapeEnv>& env) {
  std::vector<c10::SymInt> result;
  result.reserve(exprs.size());
  for (const Expr& expr : exprs) {
    result.push_back(to_sym_int(expr, env));
  }
  return result;
}

class FakeTensorImpl : public c10::TensorImpl {
 public:
  FakeTensorImpl(TensorMeta meta, std::shared_ptr<ShapeEnv> env, c10::Storage storage)
      : TensorImpl(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::Meta),
                   c10::scalarTypeToTypeMeta(meta.dtype)),
        meta_(std::move(meta)),
        env_(std::move(env)),
        sym_sizes_(to_sym_ints(meta_.sizes, env_)),
        sym_strides_(to_sym_ints(meta_.strides, env_)) {
    set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
    set_custom_device(true);
  }

  // What detaching and Tensor::data() make: the same kind of tensor over the same storage.
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_metadata_change) const override {
    auto copy = c10::make_intrusive<FakeTensorImpl>(meta_, env_, storage_);
    copy->set_version_counter(version);
    copy->set_allow_tensor_metadata_change(allow_metadata_change);
    return copy;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_metadata_change) const override {
    return shallow_copy_and_detach(version, allow_metadata_change);
  }

  const TensorMeta& meta() const { return meta_; }
  void set_meta(TensorMeta meta) {
    meta_ = std::move(meta);
    sym_sizes_ = to_sym_ints(meta_.sizes, env_);
    sym_strides_ = to_sym_ints(meta_.strides, env_);
  }
  const std::shared_ptr<ShapeEnv>& env() const { return env_; }

 protected:
  // Plain numbers: the caller's code cannot follow a symbol, so the axis becomes static and the ShapeEnv reports it.
  c10::IntArrayRef sizes_custom() const override { return specialize(meta_.sizes, plain_sizes_); }
  c10::IntArrayRef strides_custom() const override { return specialize(meta_.strides, plain_strides_); }
  int64_t size_custom(int64_t d) const override {
    return env_->specialize(meta_.sizes[static_cast<size_t>(c10::maybe_wrap_dim(d, dim_custom(), false))]);
  }
  int64_t numel_custom() const override {
    int64_t numel = 1;
    for (const int64_t size : sizes_custom()) {
      numel *= size;
    }
    return numel;
  }
  int64_t storage_offset_custom() const override { return env_->specialize(meta_.storage_offset); }

  int64_t dim_custom() const override { return meta_.dim(); }
  c10::Device device_custom() const override { return meta_.device; }
  c10::Layout layout_custom() const override { return meta_.layout; }

  c10::SymIntArrayRef sym_sizes_custom() const override { return sym_sizes_; }
  c10::SymInt sym_size_custom(int64_t d) const override {
    const auto axis = static_cast<size_t>(c10::maybe_wrap_dim(d, dim_custom(), false));
    return to_sym_int(env_->simplify(meta_.sizes[axis]), env_);
  }
  c10::SymIntArrayRef sym_strides_custom() const override { return sym_strides_; }
  c10::SymInt sym_numel_custom() const override { return to_sym_int(meta_.numel(), env_); }
  c10::SymInt sym_storage_offset_custom() const override { return to_sym_int(meta_.storage_offset, env_); }

  // Layout questions steer fast paths only, so they are answered by the facts and never become guards.
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override {
    return exporters::is_contiguous(meta_, *env_, format);
  }
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override { return is_dense(*env_, meta_); }
  bool is_strides_like_custom(at::MemoryFormat format) const override {
    return format != at::MemoryFormat::Contiguous && suggest_memory_format(*env_, meta_) == format;
  }

 private:
  c10::IntArrayRef specialize(const std::vector<Expr>& exprs, std::vector<int64_t>& plain) const {
    plain.clear();
    for (const Expr& expr : exprs) {
      plain.push_back(env_->specialize(expr));
    }
    return plain;
  }

  TensorMeta meta_;
  std::shared_ptr<ShapeEnv> env_;
  std::vector<c10::SymInt> sym_sizes_;
  std::vector<c10::SymInt> sym_strides_;
  mutable std::vector<int64_t> plain_sizes_;
  mutable std::vector<int64_t> plain_strides_;
};

c10::Storage empty_storage() {
  auto impl = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(0),
                                                    c10::DataPtr(nullptr, c10::Device(c10::kMeta)), nullptr, false);
  impl->release_data_and_set_meta_custom_data_ptr_error_msg_(kNoData);
  return c10::Storage(std::move(impl));
}

const FakeTensorImpl* as_fake(const at::Tensor& tensor) {
  return tensor.defined() ? dynamic_cast<const FakeTensorImpl*>(tensor.unsafeGetTensorImpl()) : nullptr;
}

std::vector<Expr> to_exprs(c10::IntArrayRef values) { return {values.begin(), values.end()}; }

bool strides_match(const TensorMeta& meta, const ShapeEnv& env, const std::vector<Expr>& expected) {
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    if (env.is_true(eq(meta.strides[d], expected[d])) || env.is_true(eq(meta.sizes[d], 1))) {
      continue;
    }
    return false;
  }
  return true;
}

}  // namespace

at::Tensor make_fake(TensorMeta meta, const std::shared_ptr<ShapeEnv>& env, const at::Tensor& sharing) {
  ensure(meta.sizes.size() == meta.strides.size(), "a fake tensor of rank {} has {} strides", meta.sizes.size(),
         meta.strides.size());
  c10::Storage storage = sharing.defined() ? sharing.storage() : empty_storage();
  return at::Tensor(c10::make_intrusive<FakeTensorImpl>(std::move(meta), env, std::move(storage)));
}

at::Tensor fake_like(const at::Tensor& real, const std::shared_ptr<ShapeEnv>& env) {
  at::Tensor fake = make_fake(meta_of(real), env);
  if (real.unsafeGetTensorImpl()->is_wrapped_number()) {
    fake.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return fake;
}

void reshape_in_place(const at::Tensor& fake, TensorMeta meta) {
  auto* impl = dynamic_cast<FakeTensorImpl*>(fake.unsafeGetTensorImpl());
  ensure(impl != nullptr, "the tensor is not a fake one");
  impl->set_meta(std::move(meta));
}

bool is_fake(const at::Tensor& tensor) { return as_fake(tensor) != nullptr; }

TensorMeta meta_of(const at::Tensor& tensor) {
  if (const FakeTensorImpl* fake = as_fake(tensor)) {
    TensorMeta meta = fake->meta();
    for (std::vector<Expr>* exprs : {&meta.sizes, &meta.strides}) {
      for (Expr& expr : *exprs) {
        expr = fake->env()->simplify(expr);
      }
    }
    meta.storage_offset = fake->env()->simplify(meta.storage_offset);
    return meta;
  }
  TensorMeta meta;
  meta.dtype = tensor.scalar_type();
  meta.device = tensor.device();
  meta.layout = tensor.layout();
  ensure(meta.layout == c10::kStrided, "tensors of layout {} cannot be exported", c10::str(meta.layout));
  meta.sizes = to_exprs(tensor.sizes());
  meta.strides = to_exprs(tensor.strides());
  meta.storage_offset = tensor.storage_offset();
  return meta;
}

std::vector<Expr> contiguous_strides(const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size(), 1);
  Expr product = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = product;
    // As ATen: an axis of size 0 counts as 1.
    product = product * (sizes[d] == Expr(0) ? Expr(1) : sizes[d]);
  }
  return strides;
}

std::vector<Expr> strides_of_format(const std::vector<Expr>& sizes, c10::MemoryFormat format) {
  const bool channels_last = (format == c10::MemoryFormat::ChannelsLast && sizes.size() == 4) ||
                             (format == c10::MemoryFormat::ChannelsLast3d && sizes.size() == 5);
  if (!channels_last) {
    ensure(format == c10::MemoryFormat::Contiguous, "memory format {} does not fit a tensor of rank {}",
           c10::str(format), sizes.size());
    return contiguous_strides(sizes);
  }
  std::vector<Expr> permuted{sizes[0]};
  permuted.insert(permuted.end(), sizes.begin() + 2, sizes.end());
  permuted.push_back(sizes[1]);
  const std::vector<Expr> strides = contiguous_strides(permuted);
  std::vector<Expr> result{strides[0], strides.back()};
  result.insert(result.end(), strides.begin() + 1, strides.end() - 1);
  return result;
}

bool is_contiguous(const TensorMeta& meta, const ShapeEnv& env, c10::MemoryFormat format) {
  if (format == c10::MemoryFormat::ChannelsLast && meta.dim() != 4) return false;
  if (format == c10::MemoryFormat::ChannelsLast3d && meta.dim() != 5) return false;
  if (format != c10::MemoryFormat::Contiguous && format != c10::MemoryFormat::ChannelsLast &&
      format != c10::MemoryFormat::ChannelsLast3d) {
    return false;
  }
  return strides_match(meta, env, strides_of_format(meta.sizes, format));
}

}  // namespace exporters
