#include "exporters/support/error.h"
#include "exporters/trace/trace.h"
#include "tests/support/error_of.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/split.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <string>
#include <vector>

namespace exporters {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

at::Tensor input(const NamedInputs& inputs, size_t i) { return inputs.at(i).second.tensor(); }

TraceRequest request(NamedInputs inputs, std::function<at::Tensor(const NamedInputs&)> forward) {
  TraceRequest result;
  result.module_class = "Test";
  result.inputs = std::move(inputs);
  result.forward = [forward = std::move(forward)](const NamedInputs& in) { return PyTree(forward(in)); };
  return result;
}

std::vector<std::string> targets(const ExportedProgram& program) {
  std::vector<std::string> result;
  for (const Node& node : *program.graph) {
    if (node.kind() == Node::Kind::kCall) {
      result.push_back(node.target());
    }
  }
  return result;
}

std::vector<std::string> sizes(const Value* value) {
  std::vector<std::string> result;
  for (const Expr& size : value->meta().sizes) {
    result.push_back(size.str());
  }
  return result;
}

const Value* only_output(const ExportedProgram& program) { return program.graph->outputs().at(0).value(); }

TEST(Trace, RecordsCompositeOpsWholeAndKeepsSizesSymbolic) {
  TraceRequest linear = request({{"x", at::rand({2, 3, 4})}}, nullptr);
  const at::Tensor weight = at::rand({5, 4});
  const at::Tensor bias = at::rand({5});
  linear.state = {{"fc.weight", weight}, {"fc.bias", bias}};
  linear.forward = [&](const NamedInputs& in) { return PyTree(at::relu(at::linear(input(in, 0), weight, bias))); };

  const ExportedProgram program = trace(linear);

  EXPECT_THAT(targets(program), ElementsAre("aten.linear.default", "aten.relu.default"));
  EXPECT_THAT(sizes(only_output(program)), ElementsAre("s0", "s1", "5"));
  ASSERT_EQ(program.signature.inputs.size(), 3u);
  EXPECT_EQ(program.signature.inputs[0].target, "fc.weight");
  EXPECT_EQ(program.signature.inputs[2].name, "x");
  // The last axis met a weight of 4 columns: it is static, and the program says so.
  ASSERT_EQ(program.specializations.size(), 1u);
  EXPECT_EQ(program.specializations[0].source.input, "x");
  EXPECT_EQ(program.specializations[0].source.axis, 2);
  EXPECT_EQ(program.specializations[0].value, 4);
  EXPECT_EQ(program.specializations[0].place.op, "aten::linear");
  EXPECT_NO_THROW(verify(program));
}

TEST(Trace, NamesTheModuleOfAParameterWhereTheModelEntersNoScope) {
  const at::Tensor weight = at::rand({4, 4});
  TraceRequest model = request({{"x", at::rand({2, 4})}}, nullptr);
  model.state = {{"encoder.layers.0.fc.weight", weight}};
  model.forward = [&](const NamedInputs& in) { return PyTree(at::relu(at::linear(input(in, 0), weight))); };

  const ExportedProgram program = trace(model);

  for (const Node& node : *program.graph) {
    if (node.kind() == Node::Kind::kCall) {
      EXPECT_EQ(node.place().module_path, "encoder.layers.0.fc") << node.describe();
    }
  }
}

// As torch::nn::Linear calls it: the weight goes in as a view, behind another module's result.
TEST(Trace, NamesTheModuleOfAParameterSeenThroughAView) {
  const at::Tensor norm = at::rand({4});
  const at::Tensor weight = at::rand({4, 4});
  TraceRequest model = request({{"x", at::rand({2, 4})}}, nullptr);
  model.state = {{"norm.weight", norm}, {"score.weight", weight}};
  model.forward = [&](const NamedInputs& in) { return PyTree(at::matmul(at::mul(input(in, 0), norm), weight.t())); };

  const ExportedProgram program = trace(model);

  std::map<std::string, std::string> paths;
  for (const Node& node : *program.graph) {
    if (node.kind() == Node::Kind::kCall) {
      paths[node.target()] = node.place().module_path;
    }
  }
  EXPECT_EQ(paths, (std::map<std::string, std::string>{
                       {"aten.mul.Tensor", "norm"}, {"aten.t.default", "score"}, {"aten.matmul.default", "score"}}));
}

TEST(Trace, NamesTheModuleOfAParameterThatWasSplit) {
  const at::Tensor weight = at::rand({6, 4});
  TraceRequest model = request({{"x", at::rand({2, 4})}}, nullptr);
  model.state = {{"qkv.weight", weight}};
  model.forward = [&](const NamedInputs& in) {
    const std::vector<at::Tensor> parts = at::split(weight, 2);
    return PyTree(at::linear(input(in, 0), parts[2]));
  };

  const ExportedProgram program = trace(model);

  for (const Node& node : *program.graph) {
    if (node.is_call("aten.linear.default")) {
      EXPECT_EQ(node.place().module_path, "qkv");
    }
  }
}

TEST(Trace, ATensorUnderTwoNamesIsUsedUnderTheFirst) {
  const at::Tensor table = at::rand({7, 4});
  TraceRequest model = request({{"ids", at::randint(0, 7, {2, 3}, at::kLong)}}, nullptr);
  model.state = {{"embedding.weight", table}, {"decoder.weight", table}};
  model.forward = [&](const NamedInputs& in) { return PyTree(at::linear(at::embedding(table, input(in, 0)), table)); };

  const ExportedProgram program = trace(model);

  EXPECT_THAT(targets(program), ElementsAre("aten.embedding.default", "aten.linear.default"));
  const Value* first = program.graph->placeholders().at(0);
  for (const Node& node : *program.graph) {
    if (node.target() == "aten.embedding.default") {
      EXPECT_EQ(node.arg(0).value(), first);
    } else if (node.target() == "aten.linear.default") {
      EXPECT_EQ(node.arg(1).value(), first);
    }
  }
  EXPECT_EQ(program.signature.inputs[1].target, "decoder.weight");
  EXPECT_NO_THROW(verify(program));
}

TEST(Trace, SampleSizesOfOneAndZeroStaySymbolic) {
  const ExportedProgram program =
      trace(request({{"x", at::rand({1, 0, 7})}}, [](const NamedInputs& in) { return at::relu(input(in, 0)); }));

  EXPECT_THAT(sizes(only_output(program)), ElementsAre("s0", "s1", "s2"));
  EXPECT_TRUE(program.specializations.empty());
  EXPECT_EQ(program.hints.at("s1"), 0);
}

TEST(Trace, ABroadcastSampleOfOneBecomesStaticAndIsReported) {
  const ExportedProgram program = trace(request({{"a", at::rand({1, 3})}, {"b", at::rand({2, 3})}},
                                                [](const NamedInputs& in) { return input(in, 0) + input(in, 1); }));

  ASSERT_EQ(program.specializations.size(), 1u);
  EXPECT_THAT(program.specializations[0].str(), HasSubstr("a"));
  EXPECT_EQ(program.specializations[0].value, 1);
  EXPECT_EQ(sizes(only_output(program)).size(), 2u);
}

TEST(Trace, ANamedDimThatTheModelFreezesIsAnErrorWithInputAxisAndOp) {
  TraceRequest model = request({{"x", at::rand({2, 4})}}, [](const NamedInputs& in) {
    return input(in, 0) + at::ones({2, 1});
  });
  model.dynamic_shapes = {{"x", {{0, Dim::named("batch", 1, 64)}}}};

  const std::string message = error_of([&] { trace(model); });

  EXPECT_THAT(message, HasSubstr("batch"));
  EXPECT_THAT(message, HasSubstr("aten::add.Tensor"));
}

TEST(Trace, RecordsInPlaceOpsAndViewsAsCalled) {
  const ExportedProgram program = trace(request({{"x", at::rand({2, 4})}}, [](const NamedInputs& in) {
    at::Tensor y = at::relu(input(in, 0));
    at::Tensor row = y.select(0, 0);
    row.add_(1.0);
    return y;
  }));

  EXPECT_THAT(targets(program), ElementsAre("aten.relu.default", "aten.select.int", "aten.add_.Scalar"));
}

TEST(Trace, ConstantsMadeInsideTheForwardAreLiftedWithTheirValues) {
  const ExportedProgram program = trace(request({{"x", at::rand({2, 3})}}, [](const NamedInputs& in) {
    return input(in, 0) + at::tensor({1.0f, 2.0f, 3.0f});
  }));

  EXPECT_THAT(targets(program), ElementsAre("aten.lift_fresh_copy.default", "aten.add.Tensor"));
  const at::Tensor lifted = program.state.at("lifted_tensor_0").tensor;
  EXPECT_TRUE(lifted.equal(at::tensor({1.0f, 2.0f, 3.0f})));
  EXPECT_NO_THROW(verify(program));
}

TEST(Trace, FactoriesAreOpsNotConstants) {
  const ExportedProgram program =
      trace(request({{"x", at::rand({2, 3})}}, [](const NamedInputs& in) { return input(in, 0) + at::zeros({3}); }));

  EXPECT_THAT(targets(program), ElementsAre("aten.zeros.default", "aten.add.Tensor"));
  EXPECT_TRUE(program.state.empty());
}

TEST(Trace, SizesInArgumentsBecomeGraphValues) {
  const ExportedProgram program = trace(request({{"x", at::rand({2, 3, 4})}}, [](const NamedInputs& in) {
    const at::Tensor x = input(in, 0);
    return x.view_symint({x.sym_size(0) * x.sym_size(1), 4});
  }));

  EXPECT_THAT(targets(program),
              ElementsAre("aten.sym_size.int", "aten.sym_size.int", "_operator.mul", "aten.view.default"));
  EXPECT_THAT(sizes(only_output(program)), ElementsAre("s0*s1", "4"));
  EXPECT_NO_THROW(verify(program));
}

TEST(Trace, ReadingASizeAsAPlainNumberMakesTheAxisStaticAndSaysWhich) {
  const ExportedProgram program = trace(request({{"x", at::rand({2, 3})}}, [](const NamedInputs& in) {
    const at::Tensor x = input(in, 0);
    return x.view({x.size(0), 3, 1});
  }));

  bool found = false;
  for (const Specialization& specialization : program.specializations) {
    found |= specialization.source.axis == 0 && specialization.value == 2;
  }
  EXPECT_TRUE(found);
}

TEST(Trace, ATensorUnderTwoNamesIsOneValue) {
  const at::Tensor weight = at::rand({7, 4});
  TraceRequest model = request({{"ids", at::randint(7, {2, 3}, at::kLong)}}, nullptr);
  model.state = {{"embedding.weight", weight}, {"head.weight", weight}};
  model.forward = [&](const NamedInputs& in) {
    return PyTree(at::linear(at::embedding(weight, input(in, 0)), weight));
  };

  const ExportedProgram program = trace(model);

  EXPECT_EQ(program.state.size(), 2u);
  EXPECT_EQ(program.graph->find("p_embedding_weight")->users().size(), 2u);
  EXPECT_NO_THROW(verify(program));
}

TEST(Trace, ASizeReadAsAPlainNumberIsSaidWithTheModuleThatComesNext) {
  const at::Tensor weight = at::rand({4, 4});
  TraceRequest model = request({{"x", at::rand({2, 3, 4})}}, nullptr);
  model.state = {{"encoder.fc.weight", weight}};
  model.forward = [&](const NamedInputs& in) {
    const int64_t length = input(in, 0).size(1);
    return PyTree(at::linear(input(in, 0), weight) / length);
  };

  const ExportedProgram program = trace(model);

  EXPECT_EQ(program.specializations.at(0).str(), "x axis 1 became static: 3 (encoder.fc, before aten::linear)");
}

TEST(Trace, NeverTouchesWeightBytes) {
  const size_t bytes = size_t{1} << 40;  // far more than there is memory, and not even readable
  void* unreadable = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(unreadable, MAP_FAILED);
  const at::Tensor weight = at::from_blob(unreadable, {int64_t{1} << 19, int64_t{1} << 19}, at::kFloat);
  TraceRequest model = request({{"x", at::rand({2, 8})}}, nullptr);
  model.state = {{"weight", weight}};
  model.forward = [&](const NamedInputs&) { return PyTree(at::relu(weight) + 1.0); };

  EXPECT_EQ(targets(trace(model)).size(), 2u);
  munmap(unreadable, bytes);
}

TEST(Trace, ReadingDataIsAnError) {
  const std::string message = error_of([] {
    trace(request({{"x", at::rand({2})}}, [](const NamedInputs& in) {
      return input(in, 0) + static_cast<const float*>(input(in, 0).const_data_ptr())[0];
    }));
  });

  EXPECT_THAT(message, HasSubstr("no data"));
}

TEST(Trace, AnUnknownNameInDynamicShapesListsTheInputs) {
  TraceRequest model = request({{"x", at::rand({2})}}, [](const NamedInputs& in) { return input(in, 0); });
  model.dynamic_shapes = {{"y", {{0, Dim::Static()}}}};

  EXPECT_THAT(error_of([&] { trace(model); }), HasSubstr("Inputs are: x"));
}

TEST(Trace, TheSameForwardGivesTheSameText) {
  const auto model =
      request({{"x", at::rand({2, 3})}}, [](const NamedInputs& in) { return at::relu(input(in, 0)) + input(in, 0); });

  EXPECT_EQ(trace(model).str(), trace(model).str());
}

}  // namespace
}  // namespace exporters
