// Composite ops, one by one: decomposed into core ATen with symbolic sizes, and compared with the real op.
#include "tests/passes/decompose_case.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace exporters::decomposition {
namespace {

using X = const Tensors&;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Decompositions : public testing::TestWithParam<Case> {};

TEST_P(Decompositions, GiveCoreOpsWithTheSameValues) { check(GetParam()); }

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

// NaN, infinities and zero among the values.
at::Tensor with_specials(const at::Tensor& x) {
  const at::Tensor infinite = at::where(x > 1, kInfinity, x);
  return at::where(x < -1, -kInfinity, infinite);
}

const std::vector<Case> kActivations = {
    {"silu", {"b s"}, [](X x) { return Tensors{at::silu(x[0])}; }},
    {"mish", {"b s"}, [](X x) { return Tensors{at::mish(x[0] * 10)}; }},
    {"softplus", {"b s"}, [](X x) { return Tensors{at::softplus(x[0] * 10, 2.0, 15.0)}; }},
    {"hardswish", {"b s"}, [](X x) { return Tensors{at::hardswish(x[0] * 4)}; }},
    {"hardsigmoid", {"b s"}, [](X x) { return Tensors{at::hardsigmoid(x[0] * 4)}; }},
    {"relu6", {"b s"}, [](X x) { return Tensors{at::relu6(x[0] * 8)}; }},
    {"selu", {"b s"}, [](X x) { return Tensors{at::selu(x[0])}; }},
    {"celu", {"b s"}, [](X x) { return Tensors{at::celu(x[0], 1.5)}; }},
    {"log_sigmoid", {"b s"}, [](X x) { return Tensors{at::log_sigmoid(x[0] * 40)}; }},
    {"softshrink", {"b s"}, [](X x) { return Tensors{at::softshrink(x[0], 0.4)}; }},
    {"hardshrink", {"b s"}, [](X x) { return Tensors{at::hardshrink(x[0], 0.4)}; }},
    {"threshold", {"b s"}, [](X x) { return Tensors{at::threshold(x[0], 0.1, 7)}; }},
    {"prelu", {"b 4 s", "4"}, [](X x) { return Tensors{at::prelu(x[0], x[1])}; }},
    {"glu", {"b 6 s"}, [](X x) { return Tensors{at::glu(x[0], 1)}; }},
    {"logit",
     {"p: b s"},
     [](X x) {
       return Tensors{at::logit(x[0], 0.2), at::logit(x[0])};
     }},
    {"softmax", {"b s t"}, [](X x) { return Tensors{at::softmax(x[0], 1)}; }},
    {"log_softmax", {"b s t"}, [](X x) { return Tensors{at::log_softmax(x[0], -1)}; }},
    {"silu_bfloat16",
     {"b s"},
     [](X x) {
       return Tensors{at::silu(x[0].to(at::kBFloat16)), at::softplus(x[0].to(at::kHalf))};
     },
     1e-2},
    {"dropout_in_evaluation", {"b s"}, [](X x) { return Tensors{at::dropout(x[0] + 1, 0.5, false)}; }},
    {"alpha_dropout_in_evaluation", {"b s"}, [](X x) { return Tensors{at::alpha_dropout(x[0] + 1, 0.5, false)}; }},
};

const std::vector<Case> kArithmetic = {
    {"rsub",
     {"b s", "s"},
     [](X x) {
       return Tensors{at::rsub(x[0], x[1], 2), at::rsub(x[0], 3, 2)};
     }},
    {"addcmul", {"b s", "b s", "s"}, [](X x) { return Tensors{at::addcmul(x[0], x[1], x[2], 0.5)}; }},
    {"addcdiv", {"b s", "b s", "p: s"}, [](X x) { return Tensors{at::addcdiv(x[0], x[1], x[2], 0.5)}; }},
    {"lerp",
     {"b s", "b s", "p: b s"},
     [](X x) {
       return Tensors{at::lerp(x[0], x[1], 0.3), at::lerp(x[0], x[1], 0.8), at::lerp(x[0], x[1], x[2])};
     }},
    {"square",
     {"b s", "k: s"},
     [](X x) {
       return Tensors{at::square(x[0]), at::square(x[1])};
     }},
    {"frac", {"b s"}, [](X x) { return Tensors{at::frac(x[0] * 3)}; }},
    {"sgn",
     {"b s", "k: s"},
     [](X x) {
       return Tensors{at::sgn(x[0]), at::sgn(x[1])};
     }},
    {"deg2rad",
     {"b s"},
     [](X x) {
       return Tensors{at::deg2rad(x[0]), at::rad2deg(x[0])};
     }},
    {"exp2", {"b s"}, [](X x) { return Tensors{at::exp2(x[0])}; }},
    {"sinc",
     {"b s"},
     [](X x) {
       return Tensors{at::sinc(x[0]), at::sinc(x[0] * 0)};
     }},
    {"erfc", {"b s"}, [](X x) { return Tensors{at::erfc(x[0])}; }, 1e-5},
    {"xlogy",
     {"b s", "p: b s"},
     [](X x) {
       return Tensors{at::xlogy(x[0], x[1]), at::xlogy(x[0] * 0, x[1] * 0)};
     }},
    {"special_xlog1py", {"b s", "p: b s"}, [](X x) { return Tensors{at::special_xlog1py(x[0], x[1])}; }},
    {"logaddexp",
     {"b s", "b s"},
     [](X x) {
       return Tensors{at::logaddexp(x[0], x[1]), at::logaddexp2(x[0], x[1]),
                      at::logaddexp(x[0] - kInfinity, x[1] - kInfinity)};
     }},
    {"nan_to_num",
     {"b s"},
     [](X x) {
       return Tensors{at::nan_to_num(with_specials(x[0])), at::nan_to_num(with_specials(x[0]), 1, 2, 3)};
     }},
    {"heaviside",
     {"b s", "b s"},
     [](X x) {
       return Tensors{at::heaviside(x[0], x[1]), at::heaviside(x[0] * 0, x[1])};
     }},
    {"isinf_signs",
     {"b s"},
     [](X x) {
       return Tensors{at::isposinf(with_specials(x[0])), at::isneginf(with_specials(x[0])),
                      at::isfinite(with_specials(x[0]))};
     }},
    {"isclose", {"b s", "b s"}, [](X x) { return Tensors{at::isclose(x[0], x[1], 0.5, 0.5)}; }},
    {"clamp_min_max",
     {"b s", "s"},
     [](X x) {
       return Tensors{at::clamp_min(x[0], 0.1), at::clamp_max(x[0], 0.1), at::clamp_min(x[0], x[1]),
                      at::clamp_max(x[0], x[1]), at::clip(x[0], -0.5, 0.5)};
     }},
    {"fmax_fmin",
     {"b s", "s"},
     [](X x) {
       return Tensors{at::fmax(x[0].log(), x[1]), at::fmin(x[0].log(), x[1])};
     }},
    {"hypot",
     {"b s", "s"},
     [](X x) {
       return Tensors{at::hypot(x[0], x[1]), at::hypot(x[0] * 0, x[1] * 0)};
     }},
    {"floor_divide",
     {"b s", "p: s", "k: s"},
     [](X x) {
       return Tensors{at::floor_divide(x[0], x[1]), at::floor_divide(x[2], 2)};
     }},
    {"float_power", {"p: b s"}, [](X x) { return Tensors{at::float_power(x[0], 1.5)}; }},
    {"true_divide",
     {"b s", "p: s"},
     [](X x) {
       return Tensors{at::true_divide(x[0], x[1]), at::divide(x[0], 3)};
     }},
    {"special_entr",
     {"p: b s"},
     [](X x) {
       return Tensors{at::special_entr(x[0]), at::special_entr(x[0] - 0.5)};
     }},
    {"special_expit_log1p",
     {"p: b s"},
     [](X x) {
       return Tensors{at::special_expit(x[0]), at::special_log1p(x[0])};
     }},
    {"masked_fill",
     {"b s", "m: b s"},
     [](X x) {
       return Tensors{at::masked_fill(x[0], x[1], -1.5), at::masked_fill(x[0], x[1], at::sum(x[0]))};
     }},
    {"where_numbers",
     {"b s", "m: b s", "k: b s"},
     [](X x) {
       return Tensors{at::where(x[1], 2.5, x[0]), at::where(x[1], x[2], 1.5), at::where(x[1], 1, 0),
                      at::where(x[1], x[2], 3)};
     }},
    {"numbers_promote",
     {"k: b s", "b s"},
     [](X x) { return Tensors{x[0] + 1, x[0] * 1.5, 1 - x[1], 2 / x[1], x[0] - 2, x[1] + 3}; }},
    {"copysign_ldexp", {"b s", "k: s"}, [](X x) { return Tensors{at::ldexp(x[0], x[1])}; }},
    {"and_or_xor",
     {"k: b s", "k: s"},
     [](X x) {
       return Tensors{at::__and__(x[0], x[1]), at::__or__(x[0], x[1]), at::__xor__(x[0], x[1])};
     }},
};

const std::vector<Case> kReductions = {
    {"sum",
     {"b s", "k: s"},
     [](X x) {
       return Tensors{at::sum(x[0]), at::sum(x[1]), at::nansum(x[0].log(), {1})};
     }},
    {"all",
     {"m: b s", "b s"},
     [](X x) {
       return Tensors{at::all(x[0]), at::all(x[0], 1, true), at::all(x[1], 0)};
     }},
    {"count_nonzero",
     {"k: b s"},
     [](X x) {
       return Tensors{at::count_nonzero(x[0]), at::count_nonzero(x[0], at::IntArrayRef{1}),
                      at::count_nonzero(x[0], at::IntArrayRef{0, 1})};
     }},
    {"max_min",
     {"b s", "k: s"},
     [](X x) {
       return Tensors{at::max(x[0]), at::min(x[0]), at::max(x[1])};
     }},
    {"max_other",
     {"b s", "s"},
     [](X x) {
       return Tensors{at::max(x[0], x[1]), at::min(x[0], x[1])};
     }},
    {"aminmax",
     {"b s"},
     [](X x) {
       const auto [low, high] = at::aminmax(x[0], 1, true);
       return Tensors{low, high};
     }},
    {"std_var",
     {"b 4 6"},
     [](X x) {
       const auto [var, mean] = at::var_mean(x[0], {1, 2}, 0, true);
       const auto [deviation, mean_too] = at::std_mean(x[0], {1}, 1, false);
       return Tensors{at::std(x[0], {2}, 1, true), at::var(x[0]), at::std(x[0]), var, mean, deviation, mean_too};
     }},
    {"logsumexp",
     {"b s t"},
     [](X x) {
       return Tensors{at::logsumexp(x[0], {1}), at::logsumexp(x[0] - kInfinity, {1, 2}, true)};
     }},
    {"norms",
     {"b s t"},
     [](X x) {
       return Tensors{at::linalg_vector_norm(x[0], 2, {2}),
                      at::linalg_vector_norm(x[0], 1, {1, 2}, true),
                      at::linalg_vector_norm(x[0], kInfinity),
                      at::linalg_vector_norm(x[0], 3, {0}),
                      at::norm(x[0], 2, {1}, true),
                      at::norm(x[0]),
                      at::frobenius_norm(x[0], {1, 2})};
     }},
    {"dist",
     {"b s", "s"},
     [](X x) {
       return Tensors{at::dist(x[0], x[1], 2), at::pairwise_distance(x[0], x[0] + 1)};
     }},
    {"cosine_similarity", {"b s", "b s"}, [](X x) { return Tensors{at::cosine_similarity(x[0], x[1], 1)}; }},
    {"trace", {"4 4"}, [](X x) { return Tensors{at::trace(x[0])}; }},
    {"mean_nanmean",
     {"b s"},
     [](X x) {
       return Tensors{at::mean(x[0]), at::nanmean(x[0].log(), {1})};
     }},
    {"losses",
     {"b s", "b s"},
     [](X x) {
       return Tensors{at::mse_loss(x[0], x[1]), at::l1_loss(x[0], x[1]), at::smooth_l1_loss(x[0], x[1], 0, 0.7),
                      at::huber_loss(x[0], x[1], 2, 0.5)};
     }},
    {"cross_entropies",
     {"p: b s", "p: b s", "b s"},
     [](X x) {
       return Tensors{at::binary_cross_entropy(x[0], x[1]), at::binary_cross_entropy_with_logits(x[2], x[1]),
                      at::kl_div(x[2], x[0], 2)};
     }},
};

const std::vector<Case> kLayouts = {
    {"transposes",
     {"b s t"},
     [](X x) {
       return Tensors{at::transpose(x[0], 0, -1) + 1, at::t(x[0][0]) + 1, at::swapaxes(x[0], 1, 2) + 1, x[0].mT() + 1,
                      at::movedim(x[0], 0, 2) + 1};
     }},
    {"reshapes",
     {"b s t"},
     [](X x) {
       return Tensors{x[0].reshape_symint({-1, x[0].sym_size(2)}), at::flatten(x[0], 0, 1), at::ravel(x[0].mT()),
                      at::unflatten(x[0], 0, {1, -1})};
     }},
    {"reshape_of_a_transpose",
     {"b s 4"},
     [](X x) {
       return Tensors{x[0].transpose(1, 2).reshape_symint({-1, x[0].sym_size(1)})};
     }},
    {"unbind_chunk_split",
     {"b 5 s"},
     [](X x) {
       const auto parts = at::unbind(x[0], 1);
       const auto chunks = at::chunk(x[0], 2, 1);
       const auto split = at::split(x[0], 2, 1);
       return Tensors{parts[0] + parts[4], chunks[0].sum(1) + chunks[1].sum(1), split[2] + 1,
                      at::tensor_split(x[0], 3, 1)[1] + 0};
     }},
    {"squeeze",
     {"3 1 4 1"},
     [](X x) {
       return Tensors{at::squeeze(x[0].select(0, 0)) + 1, at::squeeze(x[0], 1) + 0};
     }},
    {"expand_broadcast",
     {"b 1", "1 s"},
     [](X x) {
       const auto both = at::broadcast_tensors({x[0], x[1]});
       return Tensors{both[0] * both[1], x[0].expand_as(both[0]) + 1};
     }},
    {"narrow_unfold", {"b 6"}, [](X x) { return Tensors{at::narrow(x[0], 1, 2, 3) + 1}; }},
    {"diagonals",
     {"b 4"},
     [](X x) {
       return Tensors{at::diag_embed(x[0]), at::diag_embed(x[0], 1), at::diag_embed(x[0], -2, 0, 1)};
     }},
    {"diagonal_scatter", {"3 4 5", "5 3"}, [](X x) { return Tensors{at::diagonal_scatter(x[0], x[1], 0, 0, 1)}; }},
    {"pixels",
     {"b 8 s t"},
     [](X x) {
       return Tensors{at::pixel_shuffle(x[0], 2), at::pixel_unshuffle(at::pixel_shuffle(x[0], 2), 2),
                      at::channel_shuffle(x[0], 4)};
     }},
    {"roll",
     {"b s"},
     [](X x) {
       return Tensors{at::roll(x[0], {1}, {1}), at::roll(x[0], {-2, 1}, {0, 1}), at::roll(x[0], {3})};
     }},
    {"rot90",
     {"b s t"},
     [](X x) {
       return Tensors{at::rot90(x[0], 1, {1, 2}), at::rot90(x[0], -1, {0, 2}), at::fliplr(x[0])};
     }},
    {"triangles",
     {"b s t"},
     [](X x) {
       return Tensors{at::tril(x[0]), at::triu(x[0], 1), at::tril(x[0], -1)};
     }},
    {"stacks",
     {"b s", "b s"},
     [](X x) {
       return Tensors{at::stack({x[0], x[1]}, 1), at::hstack({x[0], x[1]}), at::vstack({x[0], x[1]}),
                      at::column_stack({x[0], x[1]}), at::dstack({x[0], x[1]})};
     }},
    {"tile_repeat",
     {"b s"},
     [](X x) {
       return Tensors{at::tile(x[0], {2, 1, 3}), x[0].repeat({2, 2})};
     }},
    {"block_diag",
     {"b s", "2 3"},
     [](X x) {
       return Tensors{at::block_diag({x[0], x[1]})};
     }},
    {"meshgrid",
     {"b", "s"},
     [](X x) {
       const auto grid = at::meshgrid({x[0], x[1]}, "ij");
       return Tensors{grid[0] + 1, grid[1] * 2};
     }},
    {"pads",
     {"b 3 5"},
     [](X x) {
       return Tensors{at::pad(x[0], {1, 2}, "constant", 3.0), at::pad(x[0], {1, 1}, "replicate")};
     }},
};

const std::vector<Case> kIndexing = {
    {"index_add", {"b 4", "b 3", "l: 3"}, [](X x) { return Tensors{at::index_add(x[0], 1, x[2], x[1], 2)}; }},
    {"index_copy",
     {"b 4", "b 1"},
     [](X x) { return Tensors{at::index_copy(x[0], 1, at::full({1}, 2, at::kLong), x[1])}; }},
    {"index_fill", {"b 4", "l: 2"}, [](X x) { return Tensors{at::index_fill(x[0], 1, x[1], 1.5)}; }},
    {"take", {"b 4", "l: s"}, [](X x) { return Tensors{at::take(x[0], x[1])}; }},
    {"take_along_dim", {"b 4", "l: b 2"}, [](X x) { return Tensors{at::take_along_dim(x[0], x[1], 1)}; }},
    {"put", {"b 4", "l: 1", "1"}, [](X x) { return Tensors{at::put(x[0], x[1], x[2])}; }},
    {"one_hot", {"l: b s"}, [](X x) { return Tensors{at::one_hot(x[0], 5)}; }},
    {"scatter",
     {"b 4", "l: b 1", "b 1"},
     [](X x) {
       return Tensors{at::scatter(x[0], 1, x[1], x[2]), at::scatter(x[0], 1, x[1], 2.0),
                      at::scatter(x[0], 1, x[1], x[2], "add")};
     }},
    {"argsort", {"b s"}, [](X x) { return Tensors{at::argsort(x[0], int64_t{1}, false)}; }},
};

const std::vector<Case> kFactories = {
    {"constants",
     {"b s"},
     [](X x) {
       return Tensors{at::zeros_like(x[0]) + 1, at::ones_like(x[0], at::kLong), x[0].new_zeros({2, 3}),
                      x[0].new_full({2}, 5), x[0].new_ones({3})};
     }},
    {"sized_constants",
     {"b s"},
     [](X x) {
       return Tensors{at::zeros_symint(x[0].sym_sizes()) + x[0], at::ones_symint(x[0].sym_sizes()) - x[0]};
     }},
    {"arange",
     {"b s"},
     [](X x) {
       return Tensors{at::arange(x[0].sym_size(1)) + x[0], at::arange(1, 4) * 2, at::arange(0.5, 3.5)};
     }},
    {"eye",
     {"s"},
     [](X x) {
       return Tensors{at::eye_symint(x[0].sym_size(0)) * x[0], at::eye(2, 3) + 0};
     }},
    {"linspace",
     {"b"},
     [](X x) {
       return Tensors{at::linspace(-1, 2, 7) + x[0].sum(), at::linspace(3, 3, 1) + x[0]};
     }},
};

const std::vector<Case> kNormalization = {
    {"layer_norm", {"b s 8", "8", "8"}, [](X x) { return Tensors{at::layer_norm(x[0], {8}, x[1], x[2], 1e-5)}; }},
    {"group_norm", {"b 6 s", "6", "6"}, [](X x) { return Tensors{at::group_norm(x[0], 2, x[1], x[2])}; }},
    {"batch_norm_in_evaluation",
     {"b 4 s", "4", "4", "4", "p: 4"},
     [](X x) { return Tensors{at::batch_norm(x[0], x[1], x[2], x[3], x[4], false, 0.1, 1e-5, false)}; }},
    {"instance_norm",
     {"b 4 6", "4", "4"},
     [](X x) { return Tensors{at::instance_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, false)}; }},
    {"rms_norm",
     {"b s 8", "8"},
     [](X x) {
       return Tensors{at::rms_norm(x[0], {8}, x[1], 1e-5), at::rms_norm(x[0], {8})};
     }},
};

const std::vector<Case> kProducts = {
    {"linear",
     {"b s 8", "5 8", "5"},
     [](X x) {
       return Tensors{at::linear(x[0], x[1], x[2]), at::linear(x[0], x[1])};
     }},
    {"linear_of_matrix_and_vector",
     {"b 8", "5 8", "8"},
     [](X x) {
       return Tensors{at::linear(x[0], x[1]), at::linear(x[2], x[1])};
     }},
    {"matmul",
     {"b 4 s 6", "b 1 6 t", "6 t", "6"},
     [](X x) {
       return Tensors{at::matmul(x[0], x[1]), at::matmul(x[0], x[2]), at::matmul(x[0], x[3]), at::matmul(x[3], x[2]),
                      at::matmul(x[3], x[3])};
     }},
    {"matmul_3d", {"b s 6", "b 6 t"}, [](X x) { return Tensors{at::matmul(x[0], x[1])}; }},
    {"einsum",
     {"b s 6", "b t 6"},
     [](X x) {
       return Tensors{at::einsum("bsd,btd->bst", {x[0], x[1]})};
     }},
    {"tensordot",
     {"b 4 5", "4 5 6"},
     [](X x) {
       return Tensors{at::tensordot(x[0], x[1], {1, 2}, {0, 1})};
     }},
    {"baddbmm",
     {"b s t", "b s 4", "b 4 t"},
     [](X x) {
       return Tensors{at::baddbmm(x[0], x[1], x[2], 0.5, 2), at::baddbmm(x[0], x[1], x[2], 0)};
     }},
    {"addbmm", {"s t", "b s 4", "b 4 t"}, [](X x) { return Tensors{at::addbmm(x[0], x[1], x[2])}; }},
    {"vectors",
     {"s 4", "4", "4", "s"},
     [](X x) {
       return Tensors{at::mv(x[0], x[1]),    at::addmv(x[3], x[0], x[1], 0.5, 2),
                      at::dot(x[1], x[2]),   at::vdot(x[1], x[2]),
                      at::outer(x[1], x[3]), at::inner(x[0], x[1])};
     }},
    {"addr", {"s 4", "s", "4"}, [](X x) { return Tensors{at::addr(x[0], x[1], x[2], 2, 3)}; }},
    {"kron", {"b 2", "2 3"}, [](X x) { return Tensors{at::kron(x[0], x[1])}; }},
    {"cross", {"b 3", "b 3"}, [](X x) { return Tensors{at::linalg_cross(x[0], x[1])}; }},
    {"attention",
     {"b 4 s 6", "b 4 t 6", "b 4 t 6"},
     [](X x) {
       return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2]),
                      at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, false, 0.3)};
     }},
    {"attention_with_masks",
     {"b 4 s 6", "b 4 t 6", "b 4 t 6", "b 1 s t", "m: b 1 s t"},
     [](X x) {
       return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], x[3]),
                      at::scaled_dot_product_attention(x[0], x[1], x[2], x[4])};
     }},
    {"causal_attention",
     {"b 4 s 6", "b 4 s 6", "b 4 s 6"},
     [](X x) { return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, true)}; }},
    {"grouped_attention",
     {"b 4 s 6", "b 2 t 6", "b 2 t 6"},
     [](X x) { return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, false, c10::nullopt, true)}; }},
    {"convolutions",
     {"b 4 10", "6 4 3", "6", "b 4 8 8", "6 2 3 3"},
     [](X x) {
       return Tensors{at::conv1d(x[0], x[1], x[2], 1, 1), at::conv2d(x[3], x[4], {}, 2, 1, 1, 2)};
     }},
    {"transposed_convolution",
     {"b 4 s 8", "4 3 2 2"},
     [](X x) { return Tensors{at::conv_transpose2d(x[0], x[1], {}, 2)}; }},
    {"same_padding", {"b 4 10", "6 4 3"}, [](X x) { return Tensors{at::conv1d(x[0], x[1], {}, 1, "same")}; }},
};

const std::vector<Case> kResampling = {
    {"max_pools",
     {"b 3 8", "b 3 8 8"},
     [](X x) {
       return Tensors{at::max_pool1d(x[0], 2), at::max_pool2d(x[1], {2, 2}, {2, 2}, {1, 1})};
     }},
    {"adaptive_pools",
     {"b 3 8", "b 3 8 8"},
     [](X x) {
       return Tensors{at::adaptive_avg_pool1d(x[0], 1), at::adaptive_avg_pool2d(x[1], {1, 1}),
                      at::adaptive_avg_pool2d(x[1], {2, 2})};
     }},
    {"upsampling",
     {"b 3 4 5"},
     [](X x) {
       return Tensors{at::upsample_nearest2d(x[0], {8, 10}), at::upsample_bilinear2d(x[0], {8, 10}, false),
                      at::upsample_nearest1d(x[0].select(2, 0), 7), at::upsample_linear1d(x[0].select(2, 0), 7, true)};
     }},
    {"embedding", {"l: b s", "5 4"}, [](X x) { return Tensors{at::embedding(x[1], x[0])}; }},
};

INSTANTIATE_TEST_SUITE_P(Activations, Decompositions, testing::ValuesIn(kActivations), case_name);
INSTANTIATE_TEST_SUITE_P(Arithmetic, Decompositions, testing::ValuesIn(kArithmetic), case_name);
INSTANTIATE_TEST_SUITE_P(Reductions, Decompositions, testing::ValuesIn(kReductions), case_name);
INSTANTIATE_TEST_SUITE_P(Layouts, Decompositions, testing::ValuesIn(kLayouts), case_name);
INSTANTIATE_TEST_SUITE_P(Indexing, Decompositions, testing::ValuesIn(kIndexing), case_name);
INSTANTIATE_TEST_SUITE_P(Factories, Decompositions, testing::ValuesIn(kFactories), case_name);
INSTANTIATE_TEST_SUITE_P(Normalization, Decompositions, testing::ValuesIn(kNormalization), case_name);
INSTANTIATE_TEST_SUITE_P(Products, Decompositions, testing::ValuesIn(kProducts), case_name);
INSTANTIATE_TEST_SUITE_P(Resampling, Decompositions, testing::ValuesIn(kResampling), case_name);

}  // namespace
}  // namespace exporters::decomposition
