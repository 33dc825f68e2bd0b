// One program for each thing that a graph, a signature or a state can have; tests/reference/check_pt2.py runs them.
#include "exporters/graph/deferred_tensor.h"
#include "exporters/passes/functionalize.h"
#include "exporters/weights/safetensors.h"
#include "exporters/weights/zip_archive.h"
#include "tests/pt2/saved_program.h"
#include "tests/support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/split.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

namespace exporters {
namespace {

using at::Tensor;
using testing::SavedProgram;

using Forward = std::function<PyTree(const NamedInputs&)>;

TraceRequest request(NamedInputs inputs, Forward forward, DynamicShapes shapes = {}) {
  TraceRequest request;
  request.module_class = "Sample";
  request.inputs = std::move(inputs);
  request.forward = std::move(forward);
  request.dynamic_shapes = std::move(shapes);
  return request;
}

Tensor in(const NamedInputs& inputs, size_t i) { return inputs.at(i).second.tensor(); }

// Given weights under two names, slices, transposes and an expanded row of one storage, then Python has the values, and
// no file is longer than what they cover.
TEST(SavedProgramTest, StateThatSharesStorage) {
  const Tensor table = at::randn({10, 6});
  const Tensor tied = table;
  const Tensor slice = table.slice(0, 2, 5);
  const Tensor strided = table.slice(1, 0, 6, 2);
  const Tensor turned = table.t();
  const Tensor expanded = at::randn({1, 6}).expand({4, 6});
  TraceRequest traced = request({{"x", at::randn({3, 6})}}, [=](const NamedInputs& inputs) {
    const Tensor x = in(inputs, 0);
    return PyTree::tuple({at::linear(x, table), at::linear(x, tied).matmul(table), at::linear(x, slice),
                          at::linear(x.slice(1, 0, 3), strided), x.matmul(turned), at::linear(x, expanded)});
  });
  traced.dynamic_shapes = {{"x", {{1, Dim::Static()}}}};
  traced.state = {{"table", table},           {"tied", tied},           {"slice", slice},
                  {"strided", strided, true}, {"turned", turned, true}, {"expanded", expanded, true, false}};

  SavedProgram saved("shared_storage", traced);

  saved.expect_call({{"x", at::randn({1, 6})}});
  saved.expect_call({{"x", at::randn({7, 6})}});
  saved.expect_refused({{"x", at::randn({7, 5})}});
}

// Given weights that a writer converts while it writes, and views of one, then the archive has each weight once, with
// the values that a conversion gives.
TEST(SavedProgramTest, StateThatIsConvertedWhileItIsWritten) {
  testing::TemporaryFolder folder;
  const Tensor stored = at::randn({6, 6}, at::kHalf);
  const Tensor other = at::randn({6, 6}, at::kHalf);
  save_safetensors(folder / "weights.safetensors", {{"other", other}, {"stored", stored}});
  const auto file = SafetensorsFile::open(folder / "weights.safetensors");
  auto deferred = [&](const std::string& name) {
    return defer_conversion(file->source(*file->find(name)), at::kHalf, {6, 6}, at::kFloat);
  };
  const Tensor weight = stored.to(at::kFloat);
  const Tensor turned = weight.t();
  const Tensor row = weight.select(0, 4);
  const Tensor second = other.to(at::kFloat);
  TraceRequest traced = request({{"x", at::randn({3, 6})}}, [=](const NamedInputs& inputs) {
    return PyTree(at::linear(in(inputs, 0), weight).matmul(turned) + row + at::linear(in(inputs, 0), second));
  });
  traced.dynamic_shapes = {{"x", {{1, Dim::Static()}}}};
  traced.state = {{"turned", turned}, {"weight", weight}, {"row", row, true}, {"other", second}};
  ExportedProgram program = trace(traced);
  const Tensor converted = deferred("stored");
  program.state.at("turned").tensor = converted.t();
  program.state.at("weight").tensor = converted;
  program.state.at("row").tensor = converted.select(0, 4);
  program.state.at("other").tensor = deferred("other");

  SavedProgram saved("converted", std::move(program), traced);

  saved.expect_call({{"x", at::randn({1, 6})}});
  saved.expect_call({{"x", at::randn({7, 6})}});
  const ZipArchive archive = ZipArchive::open(saved.file());
  EXPECT_EQ(archive.find("archive/data/weights/weight_0")->size, 144u);
  EXPECT_EQ(archive.find("archive/data/weights/weight_1")->size, 144u);
  EXPECT_EQ(archive.find("archive/data/weights/weight_2"), nullptr);
}

TEST(SavedProgramTest, BuffersAndConstants) {
  const Tensor persistent = at::randn({4});
  const Tensor fleeting = at::randn({4});
  TraceRequest traced = request({{"x", at::randn({2, 4})}}, [=](const NamedInputs& inputs) {
    return PyTree(in(inputs, 0) * persistent + fleeting * at::tensor({1.0F, 2.0F, 3.0F, 4.0F}));
  });
  traced.state = {{"running.mean", persistent, true}, {"running.scale", fleeting, true, false}};

  SavedProgram saved("buffers", traced);

  saved.expect_call({{"x", at::randn({1, 4})}});
  saved.expect_call({{"x", at::randn({5, 4})}});
  saved.expect_onnx();
}

TEST(SavedProgramTest, ConstantInputsOfEveryKindAndConstantOutputs) {
  const NamedInputs constants = {{"nothing", PyTree()},
                                 {"flag", PyTree(true)},
                                 {"count", PyTree(int64_t{3})},
                                 {"ratio", PyTree(0.25)},
                                 {"mode", PyTree(std::string("mean"))}};
  const auto inputs = [&](Tensor x) {
    NamedInputs all = {{"x", PyTree(std::move(x))}};
    all.insert(all.end(), constants.begin(), constants.end());
    return all;
  };
  SavedProgram saved("constant_inputs", request(inputs(at::randn({3})), [](const NamedInputs& all) {
                       return PyTree::dict({{"y", PyTree(in(all, 0) * 3)},
                                            {"none", PyTree()},
                                            {"count", PyTree(int64_t{3})},
                                            {"ratio", PyTree(0.25)},
                                            {"flag", PyTree(true)}});
                     }));

  saved.expect_call(inputs(at::randn({3})));
  saved.expect_call(inputs(at::randn({8})));
}

// Python cannot check a string with a quote when it has sample inputs: without them, guards are nodes of the graph.
TEST(SavedProgramTest, GuardsFireWithoutSampleInputs) {
  const auto inputs = [](int64_t length) {
    return NamedInputs{{"x", PyTree(at::randn({length, 2}))}, {"mode", PyTree(std::string("it's"))}};
  };
  SavedProgram saved("no_samples",
                     request(inputs(6),
                             [](const NamedInputs& all) {
                               const Tensor x = in(all, 0);
                               return PyTree(x.sym_size(0) != 5 ? x.reshape({-1, 4}) : x);
                             }),
                     SavedProgram::Nodes::kWithAsserts);

  saved.expect_no_samples();
  saved.expect_call(inputs(4));
  saved.expect_refused(inputs(3));
  saved.expect_refused(inputs(5));
}

TEST(SavedProgramTest, NestedInputs) {
  const auto inputs = [](int64_t length) {
    return NamedInputs{{"pair", PyTree::list({PyTree(at::randn({length})), PyTree(at::randn({2, length}))})},
                       {"options", PyTree::dict({{"inner", PyTree::dict({{"scale", PyTree(at::randn({length}))}})}})}};
  };
  SavedProgram saved("nested", request(inputs(5), [](const NamedInputs& all) {
                       const PyTree& pair = all[0].second;
                       const Tensor scale = all[1].second.at("inner.scale").tensor();
                       const Tensor sum = pair.children()[0].tensor() + pair.children()[1].tensor();
                       return PyTree::dict({{"sum", PyTree(sum)}, {"list", PyTree::list({PyTree(sum * scale)})}});
                     }));

  saved.expect_call(inputs(1));
  saved.expect_call(inputs(9));
}

// A list of tensors and a tuple of tensors as results of one call, and passed on.
TEST(SavedProgramTest, SeveralResultsOfOneCall) {
  SavedProgram saved("several_results",
                     request({{"x", at::randn({3, 6})}},
                             [](const NamedInputs& inputs) {
                               const std::vector<Tensor> parts = at::split(in(inputs, 0), 2, 1);
                               const auto [normed, mean, scale] =
                                   at::native_layer_norm(at::cat({parts[2], parts[0]}, 1), {4}, {}, {}, 1e-5);
                               return PyTree::tuple({PyTree(normed + mean), PyTree(parts[1]), PyTree(scale)});
                             },
                             {{"x", {{1, Dim::Static()}}}}));

  saved.expect_call({{"x", at::randn({1, 6})}});
  saved.expect_call({{"x", at::randn({8, 6})}});
}

// Sizes as integers and within lists.
TEST(SavedProgramTest, ArithmeticOnSizes) {
  SavedProgram saved(
      "size_arithmetic", request({{"x", at::randn({4, 3, 5})}}, [](const NamedInputs& inputs) {
        const Tensor x = in(inputs, 0);
        const c10::SymInt batch = x.sym_size(0);
        const c10::SymInt rows = x.sym_size(1);
        const Tensor flat = x.reshape_symint({batch * rows, x.sym_size(2)});
        const Tensor positions = at::arange(at::Scalar(rows + batch * 2), at::kLong);
        return PyTree::tuple({PyTree(flat), PyTree(positions), PyTree(at::zeros_symint({batch, (rows + 1) / 2}))});
      }));

  saved.expect_call({{"x", at::randn({1, 1, 5})}});
  saved.expect_call({{"x", at::randn({2, 7, 5})}});
  saved.expect_call({{"x", at::randn({6, 2, 3})}});
}

// Floats and conditions that are computed of sizes, as Python's exporter records them, and sizes as outputs.
TEST(SavedProgramTest, FloatsAndConditionsOnSizes) {
  const TraceRequest described = request({{"x", at::randn({4, 3})}}, [](const NamedInputs& inputs) {
    const Tensor x = in(inputs, 0);
    const auto rows = static_cast<double>(x.size(0));
    return PyTree::tuple({PyTree(x * (rows * 0.5) * std::sqrt(rows / 3)), PyTree(x.size(0)), PyTree(rows * 0.5)});
  });
  ExportedProgram program =
      trace(request({{"x", at::randn({4, 3})}}, [](const NamedInputs& inputs) { return PyTree(in(inputs, 0)); },
                    {{"x", {{1, Dim::Static()}}}}));
  Graph& graph = *program.graph;
  Value* x = graph.placeholders()[0];
  auto number = [&](std::string_view target, std::vector<Argument> args, Value::Kind kind) {
    return graph.add_output(graph.call(target, std::move(args)), kind);
  };
  auto product = [&](Value* tensor, Value* factor) {
    Value* result = graph.add_output(graph.call("aten.mul.Tensor", {tensor, factor}));
    result->meta() = x->meta();
    return result;
  };
  Value* rows = number("aten.sym_size.int", {x, 0}, Value::Kind::kSymInt);
  rows->sym() = x->meta().sizes[0];
  Value* half =
      number("_operator.mul", {number("torch.sym_float", {rows}, Value::Kind::kSymFloat), 0.5}, Value::Kind::kSymFloat);
  Value* third = number("_operator.truediv", {rows, 3}, Value::Kind::kSymFloat);
  Value* root = number("torch._sym_sqrt", {third}, Value::Kind::kSymFloat);
  Value* is_positive = number("_operator.gt", {rows, 0}, Value::Kind::kSymBool);
  graph.call("aten._assert_scalar.default", {is_positive, "there are rows"});
  const std::vector<Argument> outputs = {product(product(x, half), root), rows, half};
  graph.set_outputs(outputs);
  program.signature.outputs.clear();
  for (const Argument& output : outputs) {
    program.signature.outputs.push_back({OutputSpec::Kind::kUserOutput, output, {}});
  }
  program.out_spec = TreeSpec::tuple(std::vector<TreeSpec>(3));

  SavedProgram saved("floats", std::move(program), described);

  saved.expect_call({{"x", at::randn({1, 3})}});
  saved.expect_call({{"x", at::randn({7, 3})}});
}

// The functional form: what was written in place is an output, and the caller's tensor and the buffer get it.
TEST(SavedProgramTest, MutationsInTheSignature) {
  TraceRequest traced = request({{"x", at::randn({3, 4})}}, nullptr);
  const Tensor last = at::zeros({4});
  traced.state = {{"last", last, true}};
  traced.forward = [=](const NamedInputs& inputs) {
    Tensor x = in(inputs, 0);
    x.select(0, 0).mul_(2);
    Tensor(last).copy_(x.sum(0));
    return PyTree::tuple({PyTree(at::relu(x) + last), PyTree(x * 3)});
  };
  ExportedProgram program = trace(traced);
  functionalize(program);

  SavedProgram saved("mutations", std::move(program), traced);

  saved.expect_call({{"x", at::randn({1, 4})}});
  saved.expect_call({{"x", at::randn({5, 4})}});
}

// In-place on an input, on a buffer and through a view.
TEST(SavedProgramTest, WritesInPlace) {
  const Tensor counter = at::zeros({4});
  TraceRequest traced = request({{"x", at::randn({3, 4})}}, [=](const NamedInputs& inputs) {
    Tensor x = in(inputs, 0);
    x.select(0, 0).mul_(2);
    return PyTree(at::relu(x) + counter);
  });
  traced.state = {{"counter", counter, true}};

  SavedProgram saved("in_place", traced);

  saved.expect_call({{"x", at::randn({1, 4})}});
  saved.expect_call({{"x", at::randn({5, 4})}});
}

// A reshape to pairs holds for even lengths, and another branch was not taken.
TEST(SavedProgramTest, GuardsFire) {
  SavedProgram saved("guards",
                     request({{"x", at::randn({4, 6})}, {"y", at::randn({7})}}, [](const NamedInputs& inputs) {
                       const Tensor x = in(inputs, 0);
                       const Tensor y = in(inputs, 1);
                       Tensor result = x.reshape({-1, 4});
                       if (x.sym_size(0) != y.sym_size(0)) {
                         result = result + 1;
                       }
                       if (x.sym_size(1) + y.sym_size(0) <= 20) {
                         result = result * 2;
                       }
                       return PyTree(result);
                     }));

  saved.expect_call({{"x", at::randn({2, 4})}, {"y", at::randn({5})}});
  saved.expect_call({{"x", at::randn({6, 2})}, {"y", at::randn({1})}});
  saved.expect_refused({{"x", at::randn({3, 3})}, {"y", at::randn({5})}});
  saved.expect_refused({{"x", at::randn({4, 4})}, {"y", at::randn({4})}});
  saved.expect_refused({{"x", at::randn({4, 16})}, {"y", at::randn({5})}});
}

// Named and derived dims: bounds that Python takes for granted too, and axes that depend on each other.
TEST(SavedProgramTest, RangesAndDerivedAxesAreHeld) {
  SavedProgram saved(
      "ranges",
      request(
          {{"x", at::randn({4, 3})}, {"y", at::randn({9})}, {"z", at::randn({6})}},
          [](const NamedInputs& inputs) {
            return PyTree::tuple({PyTree(in(inputs, 0).sum(1)), PyTree(in(inputs, 1) * 2), PyTree(in(inputs, 2) + 1)});
          },
          {{"x", {{0, Dim::named("batch", 2, 8)}, {1, Dim::named("width", 1, 16)}}},
           {"y", {{0, Dim::derived("batch", 2, 1, {2, 8})}}},
           {"z", {{0, Dim::derived("half", 2, 0, {2, 5})}}}}));

  const auto inputs = [](int64_t batch, int64_t width, int64_t odd, int64_t even) {
    return NamedInputs{{"x", at::randn({batch, width})}, {"y", at::randn({odd})}, {"z", at::randn({even})}};
  };
  saved.expect_call(inputs(2, 1, 5, 4));
  saved.expect_call(inputs(8, 16, 17, 10));
  saved.expect_refused(inputs(1, 1, 3, 4));
  saved.expect_refused(inputs(9, 1, 19, 4));
  saved.expect_refused(inputs(2, 0, 5, 4));
  saved.expect_refused(inputs(2, 1, 6, 4));
  saved.expect_refused(inputs(2, 1, 5, 5));
  saved.expect_refused(inputs(2, 1, 5, 12));
}

// A sample of one row: Python must not take the axis for static.
TEST(SavedProgramTest, SampleSizesOfOneStayDynamic) {
  const Tensor weight = at::randn({5, 4});
  TraceRequest traced = request({{"x", at::randn({1, 1, 4})}}, [=](const NamedInputs& inputs) {
    const Tensor x = in(inputs, 0);
    return PyTree(at::linear(x, weight).softmax(-1) + x.sum(-1, true));
  });
  traced.state = {{"weight", weight}};

  SavedProgram saved("ones", traced);

  saved.expect_call({{"x", at::randn({1, 1, 4})}});
  saved.expect_call({{"x", at::randn({3, 1, 4})}});
  saved.expect_call({{"x", at::randn({2, 7, 4})}});
  saved.expect_onnx();
}

TEST(SavedProgramTest, SizesThatDependOnData) {
  SavedProgram saved("on_data",
                     request({{"x", at::randn({6})}},
                             [](const NamedInputs& inputs) {
                               const Tensor x = in(inputs, 0);
                               const Tensor found = at::nonzero(x > 0);
                               return PyTree::tuple({PyTree(found), PyTree(at::ones_symint({found.sym_size(0), 2}))});
                             }),
                     SavedProgram::Nodes::kWithAsserts);

  saved.expect_call({{"x", at::tensor({1.0F, -1.0F, 2.0F})}});
  saved.expect_call({{"x", at::tensor({-1.0F})}});
}

}  // namespace
}  // namespace exporters
