#include "exporters/executorch/edge/kernels.h"

#include "exporters/graph/op_name.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

namespace exporters::executorch {
namespace {

// What executorch 1.5.1 registers with its optimized kernel library. A test compares it with the runtime itself.
constexpr auto kKernels = std::to_array<std::string_view>({
    "aten::_adaptive_avg_pool2d.out",
    "aten::_cdist_forward.out",
    "aten::_conj_physical.out",
    "aten::_fft_c2r.out",
    "aten::_fft_r2c.out",
    "aten::_local_scalar_dense",
    "aten::_log_softmax.out",
    "aten::_native_batch_norm_legit.no_stats_out",
    "aten::_native_batch_norm_legit.out",
    "aten::_native_batch_norm_legit_no_training.out",
    "aten::_pdist_forward.out",
    "aten::_softmax.out",
    "aten::_to_copy.out",
    "aten::_upsample_bilinear2d_aa.out",
    "aten::abs.out",
    "aten::acos.out",
    "aten::acosh.out",
    "aten::add.Scalar_out",
    "aten::add.out",
    "aten::addmm.out",
    "aten::alias_copy.out",
    "aten::amax.out",
    "aten::amin.out",
    "aten::any.all_out",
    "aten::any.dims_out",
    "aten::any.out",
    "aten::arange.out",
    "aten::arange.start_out",
    "aten::argmax.out",
    "aten::argmin.out",
    "aten::as_strided_copy.out",
    "aten::asin.out",
    "aten::asinh.out",
    "aten::atan.out",
    "aten::atan2.out",
    "aten::atanh.out",
    "aten::avg_pool2d.out",
    "aten::bitwise_and.Scalar_out",
    "aten::bitwise_and.Tensor_out",
    "aten::bitwise_left_shift.Tensor_Scalar_out",
    "aten::bitwise_left_shift.Tensor_out",
    "aten::bitwise_not.out",
    "aten::bitwise_or.Scalar_out",
    "aten::bitwise_or.Tensor_out",
    "aten::bitwise_right_shift.Tensor_Scalar_out",
    "aten::bitwise_right_shift.Tensor_out",
    "aten::bitwise_xor.Scalar_out",
    "aten::bitwise_xor.Tensor_out",
    "aten::bmm.out",
    "aten::cat.out",
    "aten::ceil.out",
    "aten::clamp.Tensor_out",
    "aten::clamp.out",
    "aten::clone.out",
    "aten::constant_pad_nd.out",
    "aten::convolution.out",
    "aten::convolution_backward.out",
    "aten::copy.out",
    "aten::copy_",
    "aten::cos.out",
    "aten::cosh.out",
    "aten::cumsum.out",
    "aten::detach_copy.out",
    "aten::diagonal_copy.out",
    "aten::div.Scalar_mode_out",
    "aten::div.Scalar_out",
    "aten::div.out",
    "aten::div.out_mode",
    "aten::elu.out",
    "aten::embedding.out",
    "aten::empty.out",
    "aten::eq.Scalar_out",
    "aten::eq.Tensor_out",
    "aten::erf.out",
    "aten::exp.out",
    "aten::expand_copy.out",
    "aten::expm1.out",
    "aten::fill.Scalar_out",
    "aten::fill.Tensor_out",
    "aten::flip.out",
    "aten::floor.out",
    "aten::floor_divide.out",
    "aten::fmod.Scalar_out",
    "aten::fmod.Tensor_out",
    "aten::full.out",
    "aten::full_like.out",
    "aten::gather.out",
    "aten::ge.Scalar_out",
    "aten::ge.Tensor_out",
    "aten::gelu.out",
    "aten::glu.out",
    "aten::grid_sampler_2d.out",
    "aten::gt.Scalar_out",
    "aten::gt.Tensor_out",
    "aten::hardtanh.out",
    "aten::index.Tensor_out",
    "aten::index_put.out",
    "aten::index_put_",
    "aten::index_select.out",
    "aten::isinf.out",
    "aten::isnan.out",
    "aten::le.Scalar_out",
    "aten::le.Tensor_out",
    "aten::leaky_relu.out",
    "aten::lift_fresh_copy.out",
    "aten::linear.out",
    "aten::log.out",
    "aten::log10.out",
    "aten::log1p.out",
    "aten::log2.out",
    "aten::logical_and.out",
    "aten::logical_not.out",
    "aten::logical_or.out",
    "aten::logical_xor.out",
    "aten::logit.out",
    "aten::lt.Scalar_out",
    "aten::lt.Tensor_out",
    "aten::masked_fill.Scalar_out",
    "aten::masked_scatter.out",
    "aten::masked_select.out",
    "aten::max.dim_max",
    "aten::max.unary_out",
    "aten::max_pool2d_with_indices.out",
    "aten::max_pool2d_with_indices_backward.grad_input",
    "aten::maximum.out",
    "aten::mean.dtype_out",
    "aten::mean.out",
    "aten::min.dim_min",
    "aten::min.unary_out",
    "aten::minimum.out",
    "aten::mm.out",
    "aten::mul.Scalar_out",
    "aten::mul.out",
    "aten::narrow_copy.out",
    "aten::native_dropout.out",
    "aten::native_group_norm.out",
    "aten::native_layer_norm.out",
    "aten::ne.Scalar_out",
    "aten::ne.Tensor_out",
    "aten::neg.out",
    "aten::nonzero.out",
    "aten::ones.out",
    "aten::permute_copy.out",
    "aten::pixel_shuffle.out",
    "aten::pixel_unshuffle.out",
    "aten::pow.Scalar_out",
    "aten::pow.Tensor_Scalar_out",
    "aten::pow.Tensor_Tensor_out",
    "aten::prod.int_out",
    "aten::prod.out",
    "aten::rand.out",
    "aten::randn.out",
    "aten::reciprocal.out",
    "aten::reflection_pad1d.out",
    "aten::reflection_pad2d.out",
    "aten::reflection_pad3d.out",
    "aten::relu.out",
    "aten::remainder.Scalar_out",
    "aten::remainder.Tensor_out",
    "aten::repeat.out",
    "aten::repeat_interleave.Tensor_out",
    "aten::replication_pad1d.out",
    "aten::replication_pad2d.out",
    "aten::replication_pad3d.out",
    "aten::roll.out",
    "aten::round.out",
    "aten::rsqrt.out",
    "aten::rsub.Scalar_out",
    "aten::scalar_tensor.out",
    "aten::scatter.src_out",
    "aten::scatter.value_out",
    "aten::scatter_add.out",
    "aten::select_copy.int_out",
    "aten::select_scatter.out",
    "aten::sigmoid.out",
    "aten::sign.out",
    "aten::sin.out",
    "aten::sinh.out",
    "aten::slice_copy.Tensor_out",
    "aten::slice_scatter.out",
    "aten::split_copy.Tensor_out",
    "aten::split_with_sizes_copy.out",
    "aten::sqrt.out",
    "aten::squeeze_copy.dim_out",
    "aten::squeeze_copy.dims_out",
    "aten::stack.out",
    "aten::sub.Scalar_out",
    "aten::sub.out",
    "aten::sum.IntList_out",
    "aten::sym_numel",
    "aten::sym_size.int",
    "aten::t_copy.out",
    "aten::tan.out",
    "aten::tanh.out",
    "aten::topk.values",
    "aten::transpose_copy.int_out",
    "aten::tril.out",
    "aten::trunc.out",
    "aten::unbind_copy.int_out",
    "aten::unfold_copy.out",
    "aten::unsqueeze_copy.out",
    "aten::upsample_bilinear2d.vec_out",
    "aten::upsample_nearest2d.vec_out",
    "aten::var.correction_out",
    "aten::var.out",
    "aten::var_mean.correction_out",
    "aten::view_as_real_copy.out",
    "aten::view_copy.out",
    "aten::where.self_out",
    "aten::zeros.out",
    "dim_order_ops::_clone_dim_order.out",
    "dim_order_ops::_empty_dim_order.out",
    "dim_order_ops::_to_dim_order_copy.out",
    "et_copy::_d2h_copy.out",
    "et_copy::_h2d_copy.out",
    "executorch_prim::add.Scalar",
    "executorch_prim::ceil.Scalar",
    "executorch_prim::eq.Scalar",
    "executorch_prim::et_copy_index.tensor",
    "executorch_prim::et_view.default",
    "executorch_prim::floordiv.Scalar",
    "executorch_prim::floordiv.int",
    "executorch_prim::ge.Scalar",
    "executorch_prim::gt.Scalar",
    "executorch_prim::le.Scalar",
    "executorch_prim::lt.Scalar",
    "executorch_prim::mod.Scalar",
    "executorch_prim::mod.int",
    "executorch_prim::mul.Scalar",
    "executorch_prim::neg.Scalar",
    "executorch_prim::round.Scalar",
    "executorch_prim::sub.Scalar",
    "executorch_prim::sym_float.Scalar",
    "executorch_prim::sym_int.Scalar",
    "executorch_prim::sym_ite.Scalar",
    "executorch_prim::sym_max.Scalar",
    "executorch_prim::sym_min.Scalar",
    "executorch_prim::sym_not.Scalar",
    "executorch_prim::truediv.Scalar",
    "executorch_prim::trunc.Scalar",
});

struct SymKernel {
  std::string_view target;
  std::string_view kernel;
};
constexpr SymKernel kSymKernels[] = {
    {"_operator.add", "executorch_prim::add.Scalar"},
    {"_operator.sub", "executorch_prim::sub.Scalar"},
    {"_operator.mul", "executorch_prim::mul.Scalar"},
    {"_operator.floordiv", "executorch_prim::floordiv.Scalar"},
    {"_operator.mod", "executorch_prim::mod.Scalar"},
    {"_operator.truediv", "executorch_prim::truediv.Scalar"},
    {"_operator.neg", "executorch_prim::neg.Scalar"},
    {"_operator.eq", "executorch_prim::eq.Scalar"},
    {"_operator.lt", "executorch_prim::lt.Scalar"},
    {"_operator.le", "executorch_prim::le.Scalar"},
    {"_operator.gt", "executorch_prim::gt.Scalar"},
    {"_operator.ge", "executorch_prim::ge.Scalar"},
    {"math.trunc", "executorch_prim::trunc.Scalar"},
    {"math.ceil", "executorch_prim::ceil.Scalar"},
    {"torch.sym_min", "executorch_prim::sym_min.Scalar"},
    {"torch.sym_max", "executorch_prim::sym_max.Scalar"},
    {"torch.sym_float", "executorch_prim::sym_float.Scalar"},
    {"torch.sym_int", "executorch_prim::sym_int.Scalar"},
    {"torch.sym_not", "executorch_prim::sym_not.Scalar"},
    {"torch.sym_ite", "executorch_prim::sym_ite.Scalar"},
    {"aten.sym_size.int", "aten::sym_size.int"},
    {"aten.sym_numel.default", "aten::sym_numel"},
    {"aten._local_scalar_dense.default", "aten::_local_scalar_dense"},
};

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Arguments that choose the result's kind: an out= overload has the result for that.
bool is_option(std::string_view name) {
  return name == "dtype" || name == "layout" || name == "device" || name == "pin_memory";
}

// The kernels of each op that have a schema in ATen and give their results in outs.
const std::map<std::string, std::vector<Kernel>, std::less<>>& kernels_by_op() {
  static const auto kernels = [] {
    std::map<std::string, std::vector<Kernel>, std::less<>> result;
    for (const std::string_view full : kKernels) {
      const size_t dot = full.find('.');
      Kernel kernel{std::string(full.substr(0, dot)),
                    dot == std::string_view::npos ? std::string() : std::string(full.substr(dot + 1)), nullptr};
      const auto op = c10::Dispatcher::singleton().findSchema({kernel.name, kernel.overload});
      if (op && !op->schema().arguments().empty() && is_written(op->schema().arguments().back())) {
        kernel.schema = &op->schema();
        result[kernel.name].push_back(std::move(kernel));
      }
    }
    return result;
  }();
  return kernels;
}

// Whether the out= overload takes what the functional one takes.
bool computes(const c10::FunctionSchema& kernel, const c10::FunctionSchema& op) {
  size_t shared = 0;
  for (const c10::Argument& formal : kernel.arguments()) {
    if (is_written(formal)) {
      continue;
    }
    const auto index = op.argumentIndexWithName(formal.name());
    if (!index || !(*op.arguments()[*index].type() == *formal.type())) {
      return false;
    }
    ++shared;
  }
  const auto& formals = op.arguments();
  const auto options = std::count_if(formals.begin(), formals.end(), [&](const c10::Argument& formal) {
    return is_option(formal.name()) && !kernel.argumentIndexWithName(formal.name());
  });
  return shared + static_cast<size_t>(options) == formals.size();
}

const Kernel* find_by_schema(std::string_view target) {
  const auto op = find_operator(target);
  if (!op) {
    return nullptr;
  }
  const auto found = kernels_by_op().find(op->schema().name());
  if (found == kernels_by_op().end()) {
    return nullptr;
  }
  const auto kernel = std::find_if(found->second.begin(), found->second.end(),
                                   [&](const Kernel& each) { return computes(*each.schema, op->schema()); });
  return kernel == found->second.end() ? nullptr : &*kernel;
}

// "aten.add.Scalar" where a number stands for the other tensor of "aten.add.Tensor", else the target itself.
std::string target_for_numbers(const Node& node) {
  const std::string& target = node.target();
  const size_t overload = target.rfind('.') + 1;
  const auto op = find_operator(target);
  if (!op || target.compare(overload, 6, "Tensor") != 0 || node.arg_count() < 2 ||
      op->schema().arguments()[1].type()->kind() != c10::TypeKind::TensorType ||
      (node.arg(1).is_value() && node.arg(1).value()->is_tensor())) {
    return target;
  }
  return target.substr(0, overload) + "Scalar" + target.substr(overload + 6);
}

}  // namespace

std::span<const std::string_view> kernel_names() { return kKernels; }

bool has_kernel(std::string_view name) { return std::binary_search(kKernels.begin(), kKernels.end(), name); }

const Kernel* find_kernel(const Node& node) { return find_by_schema(target_for_numbers(node)); }

std::string_view find_sym_kernel(std::string_view target) {
  const auto* found = std::find_if(std::begin(kSymKernels), std::end(kSymKernels),
                                   [&](const SymKernel& each) { return each.target == target; });
  return found == std::end(kSymKernels) ? std::string_view() : found->kernel;
}

}  // namespace exporters::executorch
