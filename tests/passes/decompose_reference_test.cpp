// The ops that are left of small modules, against those that torch.export's run_decompositions() leaves of the same.
#include "tests/passes/decompose_case.h"
#include "tests/reference/folder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>

namespace exporters::decomposition {
namespace {

using Targets = std::set<std::string>;
constexpr double kEps = 1e-5;

/// As in tests/reference/make_decompositions.py.
const std::vector<Case> kModules = {
    {"mlp", {"b 3 8", "5 8", "5"}, [](const Tensors& x) { return Tensors{at::silu(at::linear(x[0], x[1], x[2]))}; }},
    {"norm",
     {"b 3 8", "8", "8"},
     [](const Tensors& x) { return Tensors{at::gelu(at::layer_norm(x[0], {8}, x[1], x[2], kEps))}; }},
    {"rms_norm", {"b 3 8", "8"}, [](const Tensors& x) { return Tensors{at::rms_norm(x[0], {8}, x[1], kEps)}; }},
    {"attention",
     {"b 4 5 6", "b 4 5 6", "b 4 5 6"},
     [](const Tensors& x) { return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2])}; }},
    {"convolution",
     {"b 4 8 8", "6 4 3 3", "6", "6"},
     [](const Tensors& x) {
       const at::Tensor y = at::conv2d(x[0], x[1]);
       return Tensors{at::relu(at::batch_norm(y, {}, {}, x[2], x[3] * x[3], false, 0.1, kEps, false))};
     }},
    {"softmax", {"b 3 8"}, [](const Tensors& x) { return Tensors{at::log_softmax(at::softmax(x[0], -1), 1)}; }},
    {"layouts",
     {"b 3 8"},
     [](const Tensors& x) {
       const auto halves = x[0].transpose(1, 2).reshape({-1, 2, 12}).chunk(2, 2);
       return Tensors{at::stack(halves, 1)};
     }},
    {"einsum",
     {"b 3 8", "4 8"},
     [](const Tensors& x) {
       return Tensors{at::einsum("bsd,td->bst", {x[0], x[1]})};
     }},
    {"matmul", {"b 4 3 8", "8 5"}, [](const Tensors& x) { return Tensors{at::matmul(x[0], x[1])}; }},
    {"in_place",
     {"b 3"},
     [](const Tensors& x) {
       const at::Tensor y = x[0] * 2;
       y.select(1, 0).fill_(1);
       y.add_(x[0]);
       return Tensors{y};
     }},
    {"arithmetic",
     {"b 3", "b 3"},
     [](const Tensors& x) { return Tensors{at::addcmul(x[0], x[1], at::rsub(x[0], 1), 0.5).square().std(-1)}; }},
    {"choices",
     {"b 3"},
     [](const Tensors& x) { return Tensors{x[0].masked_fill(x[0] > 0, -1.0).clamp_min(-0.5) + at::tril(x[0])}; }},
};

/// Where the two differ, and why.
struct Difference {
  std::string module;
  Targets only_ours;
  Targets only_theirs;
  std::string reason;
};

const std::vector<Difference> kDifferences = {
    {"rms_norm",
     {"aten.add.Tensor"},
     {"aten.add.Scalar", "aten.pow.Tensor_Scalar"},
     "a square is a product, and arithmetic with a number is spelled alike everywhere"},
    {"attention",
     {"aten.mul.Tensor"},
     {"aten.any.dim", "aten.clone.default", "aten.eq.Scalar", "aten.full_like.default", "aten.logical_not.default",
      "aten.mul.Scalar", "aten.where.self"},
     "without a mask no query is blind, so none is looked for; the key is multiplied as it lies"},
    {"layouts",
     {"aten.unsqueeze.default"},
     {},
     "a stack is made of axes of length 1, not of a longer axis that is split"},
    {"in_place",
     {"aten.full_like.default", "aten.select_scatter.default"},
     {"aten.arange.start_step", "aten.clone.default", "aten.copy.default", "aten.eq.Scalar", "aten.expand.default",
      "aten.slice.Tensor", "aten.slice_scatter.default", "aten.unsqueeze.default", "aten.view.default",
      "aten.where.self"},
     "select_scatter is a core op and stays"},
    {"arithmetic", {"aten.neg.default"}, {"aten.sub.Tensor"}, "a number minus a tensor is the negated tensor plus it"},
    {"choices", {"aten.full.default"}, {"aten.scalar_tensor.default"}, "two core ops for one number"},
};

Targets reference_ops(const std::string& module) {
  std::ifstream file(exporters::testing::reference_folder("decompositions") / "ops.json");
  const nlohmann::json ops = nlohmann::json::parse(file);
  Targets targets;
  for (const auto& target : ops.at(module)) {
    targets.insert(target.get<std::string>());
  }
  return targets;
}

Targets our_ops(const Case& module) {
  const ExportedProgram program = run_decompositions(traced(module));
  Targets targets;
  for (const Node& node : *program.graph) {
    if (node.target().starts_with("aten.") && !node.target().starts_with("aten.sym_")) {
      targets.insert(node.target());
    }
  }
  return targets;
}

Targets without(const Targets& a, const Targets& b) {
  Targets result;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(result, result.end()));
  return result;
}

TEST(DecompositionReference, LeavesTheOpsThatTorchExportLeavesOrOthersForAReason) {
  for (const Case& module : kModules) {
    SCOPED_TRACE(module.name);
    const Targets ours = our_ops(module);
    const Targets theirs = reference_ops(module.name);
    const auto known = std::find_if(kDifferences.begin(), kDifferences.end(),
                                    [&](const Difference& each) { return each.module == module.name; });
    const Difference expected = known == kDifferences.end() ? Difference{} : *known;
    EXPECT_EQ(without(ours, theirs), expected.only_ours) << expected.reason;
    EXPECT_EQ(without(theirs, ours), expected.only_theirs) << expected.reason;
  }
}

TEST(DecompositionReference, TheModulesOfTheComparisonGiveTheSameValues) {
  for (const Case& module : kModules) {
    check(module);
  }
}

}  // namespace
}  // namespace exporters::decomposition
