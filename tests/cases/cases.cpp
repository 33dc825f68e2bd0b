#include "tests/cases/cases.h"

#include "exporters/interpreter/interpreter.h"
#include "exporters/onnx/convert.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/runner.h"
#include "exporters/passes/dead_code.h"
#include "exporters/passes/functionalize.h"
#include "exporters/pt2/load.h"
#include "exporters/pt2/save.h"
#include "exporters/support/error.h"
#include "exporters/trace/trace.h"
#include "tests/support/temporary_folder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace exporters::cases {
namespace {

Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.clone());
  }
  return result;
}

std::string shapes(const Tensors& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    text += ::testing::PrintToString(tensor.sizes().vec()) + " ";
  }
  return text;
}

std::vector<Tensors> all_inputs(const Case& example) {
  std::vector<Tensors> result = {example.sample};
  result.insert(result.end(), example.others.begin(), example.others.end());
  return result;
}

void expect_equal(const at::Tensor& actual, const at::Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const bool same = c10::isFloatingType(expected.scalar_type())
                        ? at::allclose(actual.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance,
                                       /*equal_nan=*/true)
                        : at::equal(actual, expected);
  EXPECT_TRUE(same) << what << "\n" << actual << "\nexpected\n" << expected;
}

Tensors interpret(const Interpreter& interpreter, const Tensors& inputs) {
  Tensors result;
  for (const PyTree::Leaf& leaf : interpreter.run(inputs)) {
    result.push_back(std::get<at::Tensor>(leaf));
  }
  return result;
}

ExportedProgram functional(const Case& example) {
  ExportedProgram program = traced(example);
  functionalize(program);
  eliminate_dead_code(*program.graph);
  verify(program);
  return program;
}

std::filesystem::path saved(const Case& example) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(::testing::TempDir()) /
                      (std::string("cases_") + test->test_suite_name() + "_" + test->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  save_model(to_onnx(example), folder / "model.onnx");
  return folder / "model.onnx";
}

Tensors run_onnx(const onnx::OnnxRunner& runner, const Tensors& inputs) {
  onnx::OnnxRunner::Inputs named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    named[testing::input_name(i)] = inputs[i];
  }
  Tensors result;
  for (const auto& [name, tensor] : runner.run(named)) {
    result.push_back(tensor);
  }
  return result;
}

// What a .pt2 file makes of the program.
std::shared_ptr<const ExportedProgram> through_pt2(const ExportedProgram& program) {
  const testing::TemporaryFolder folder;
  save_pt2(program, folder / "model.pt2");
  return load_pt2(folder / "model.pt2");
}

void expect_as_eager_in(const Interpreter& interpreter, const Case& example, const std::string& where) {
  for (const Tensors& inputs : all_inputs(example)) {
    const Tensors for_eager = copies(inputs);
    const Tensors for_program = copies(inputs);
    const Tensors expected = example.forward(for_eager);
    const Tensors actual = interpret(interpreter, for_program);

    const std::string what = where + shapes(inputs);
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_equal(actual[i], expected[i], example.tolerance, what + "output " + std::to_string(i));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      expect_equal(for_program[i], for_eager[i], 0, what + "input " + std::to_string(i) + " afterwards");
    }
  }
}

}  // namespace

ExportedProgram traced(const Case& example) {
  TraceRequest request;
  request.module_class = "Case";
  request.inputs = testing::named(example.sample);
  for (const auto& [name, tensor] : example.parameters) {
    request.state.push_back({name, tensor, false, true, {}});
  }
  request.dynamic_shapes = example.dynamic_shapes;
  request.forward = testing::on_named_inputs(example.forward);
  ExportedProgram program = trace(request);
  verify(program);
  return program;
}

onnx::OnnxModel to_onnx(const Case& example) { return onnx::to_onnx(functional(example)); }

void expect_as_eager_in_interpreter(const Case& example) {
  const at::NoGradGuard no_grad;
  const ExportedProgram program = traced(example);
  const Interpreter interpreter(std::make_shared<const ExportedProgram>(program));
  expect_as_eager_in(interpreter, example, "interpreter, inputs ");
  const Interpreter reloaded(through_pt2(program));
  expect_as_eager_in(reloaded, example, "interpreter, saved as .pt2 and loaded, inputs ");
}

void expect_as_eager_in_onnx(const Case& example) {
  const at::NoGradGuard no_grad;
  const onnx::OnnxRunner runner(saved(example));
  for (const Tensors& inputs : all_inputs(example)) {
    const Tensors expected = example.forward(copies(inputs));
    const Tensors actual = run_onnx(runner, inputs);

    const std::string what = "ONNX Runtime, inputs " + shapes(inputs);
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_equal(actual[i], expected[i], example.tolerance, what + "output " + std::to_string(i));
    }
  }
}

void expect_as_eager(const Case& example) {
  {
    SCOPED_TRACE("interpreter");
    EXPECT_NO_THROW(expect_as_eager_in_interpreter(example));
  }
  SCOPED_TRACE("ONNX");
  EXPECT_NO_THROW(expect_as_eager_in_onnx(example));
}

std::string interpreter_error(const Case& example, const Tensors& inputs) {
  const ExportedProgram program = traced(example);
  const Interpreter interpreter(std::make_shared<const ExportedProgram>(program));
  const Interpreter reloaded(through_pt2(program));
  EXPECT_NE(error_of([&] { interpret(reloaded, copies(inputs)); }), "no error") << "saved as .pt2 and loaded";
  return error_of([&] { interpret(interpreter, copies(inputs)); });
}

std::string onnx_error(const Case& example, const Tensors& inputs) {
  const onnx::OnnxRunner runner(saved(example));
  return error_of([&] { run_onnx(runner, inputs); });
}

std::vector<std::string> static_axes(const ExportedProgram& program) {
  std::vector<std::string> result;
  for (const Specialization& axis : program.specializations) {
    result.push_back(axis.source.input + " axis " + std::to_string(axis.source.axis) + " = " +
                     std::to_string(axis.value));
  }
  return result;
}

}  // namespace exporters::cases
