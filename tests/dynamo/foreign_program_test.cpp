// Programs from a file that name ops which must not run.
#include "exporters/dynamo/exporter.h"

#include "exporters/framework/export_target.h"
#include "exporters/framework/prepare_export.h"
#include "exporters/framework/registry.h"
#include "exporters/graph/graph.h"
#include "exporters/pt2/save.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

namespace exporters {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

class ForeignProgram : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_dynamo_backend);
  }

  // relu(x) of a tensor [3], with `change` made to its call, in a file.
  std::filesystem::path file_with(const std::function<void(Node&)>& change, at::ScalarType dtype = at::kFloat) {
    return file_of([](const at::Tensor& x) { return at::relu(x); }, "aten.relu.default", change, dtype);
  }

  // The same with an axis of any size.
  std::filesystem::path symbolic_file_with(const std::function<void(Node&)>& change) {
    dynamic_ = true;
    return file_with(change);
  }

  std::filesystem::path file_of(const std::function<at::Tensor(const at::Tensor&)>& forward, const std::string& target,
                                const std::function<void(Node&)>& change, at::ScalarType dtype = at::kFloat) {
    ExportSource source;
    source.architecture = "Toy";
    source.forward = [&](const NamedInputs& inputs) { return PyTree(forward(find_input(inputs, "x")->tensor())); };
    DynamoConfig config;
    config.dynamic = dynamic_;
    const ExportedModel model = DynamoExporter().export_model(source, {{"x", at::ones({3}, dtype)}}, config);
    const ExportedProgram& program = *dynamic_cast<const DynamoProgram&>(*model.component().program).program();
    int changed = 0;
    for (Node& node : *program.graph) {
      if (node.target() == target) {
        change(node);
        ++changed;
      }
    }
    EXPECT_EQ(changed, 1) << target;
    const std::filesystem::path file = folder_ / "program.pt2";
    save_pt2(program, file);
    return file;
  }

  std::string run_error(const std::filesystem::path& file) {
    return error_of([&] { DynamoRunner runner(DynamoExporter().open_program(file)); });
  }

  std::string export_error(const std::filesystem::path& file) {
    ExportRequest request;
    request.source = file;
    request.format = "dynamo";
    return error_of([&] { export_target(request); });
  }

  testing::TemporaryFolder folder_;
  bool dynamic_ = false;
};

TEST_F(ForeignProgram, RunsAsItWasSaved) {
  DynamoRunner runner(DynamoExporter().open_program(file_with([](Node&) {})));
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(at::allclose(runner.run({{"x", x}}).tensor(), x));
}

TEST_F(ForeignProgram, CannotOpenFiles) {
  const std::filesystem::path victim = folder_ / "victim";
  std::ofstream(victim) << "precious";
  const std::filesystem::path file = file_with([&](Node& node) {
    node.set_target("aten.from_file.default");
    node.set_args({victim.string(), true, 3});
    node.set_kwargs({});
  });

  EXPECT_THAT(run_error(file), AllOf(HasSubstr("aten.from_file.default"), HasSubstr("register_shape_function")));
  EXPECT_THAT(export_error(file), HasSubstr("aten.from_file.default"));
  EXPECT_EQ(testing::read_text(victim), "precious");
}

// Writes where the values of its argument say.
TEST_F(ForeignProgram, CannotCallKernelsThatTrustTheirArguments) {
  const std::filesystem::path file = file_with(
      [](Node& node) {
        node.set_target("aten._convert_indices_from_csr_to_coo.default");
        node.set_args({node.arg(0), node.arg(0)});
      },
      at::kLong);
  EXPECT_THAT(run_error(file), HasSubstr("aten._convert_indices_from_csr_to_coo.default"));
  EXPECT_THAT(export_error(file), HasSubstr("aten._convert_indices_from_csr_to_coo.default"));
}

TEST_F(ForeignProgram, CannotMakeSparseTensorsFromUncheckedParts) {
  const std::filesystem::path file = file_with([](Node& node) {
    node.set_target("aten._sparse_csr_tensor_unsafe.default");
    node.set_args({node.arg(0), node.arg(0), node.arg(0), Argument::List{2, 2}});
  });
  EXPECT_THAT(run_error(file), HasSubstr("aten._sparse_csr_tensor_unsafe.default"));
}

TEST_F(ForeignProgram, IsDescribedWhateverItCalls) {
  const std::filesystem::path file = file_with([](Node& node) {
    node.set_target("aten.from_file.default");
    node.set_args({std::string("nowhere"), true, 3});
  });
  const auto program = DynamoExporter().load_program(file);
  EXPECT_EQ(DynamoExporter().describe_program(*program).ops.at("aten.from_file.default"), 1);
}

// Composite ops without a shape function of their own are in programs of Python.
TEST_F(ForeignProgram, MayCallWhatOnlyCallsOtherOps) {
  const std::filesystem::path file = file_with([](Node& node) { node.set_target("aten.absolute.default"); });
  DynamoRunner runner(DynamoExporter().open_program(file));
  EXPECT_TRUE(at::allclose(runner.run({{"x", at::ones({3}).neg()}}).tensor(), at::ones({3})));
}

// ── What a file says of its values ──

TEST_F(ForeignProgram, IsLoweredAsItWasSaved) {
  EXPECT_EQ(export_error(file_with([](Node&) {})), "no error");
  EXPECT_EQ(export_error(symbolic_file_with([](Node&) {})), "no error");
}

TEST_F(ForeignProgram, IsNotLoweredWithAFalseDtype) {
  const auto file = file_with([](Node& node) { node.output()->meta().dtype = at::kDouble; });
  EXPECT_THAT(export_error(file), AllOf(HasSubstr("'relu' is Float, in the program it is Double"), HasSubstr("relu")));
}

TEST_F(ForeignProgram, IsNotLoweredWithAFalseRank) {
  const auto file = file_with([](Node& node) {
    node.output()->meta().sizes = {1, 3};
    node.output()->meta().strides = {3, 1};
  });
  EXPECT_THAT(export_error(file), HasSubstr("'relu' has 1 axes, in the program it has 2"));
}

TEST_F(ForeignProgram, IsNotLoweredWithAFalseSize) {
  const auto file = file_with([](Node& node) { node.output()->meta().sizes[0] = 4; });
  EXPECT_THAT(export_error(file), HasSubstr("Axis 0 of the result 'relu' is 3, in the program it is 4"));
}

// Equal at the sample size, 3, or at no size but 0.
TEST_F(ForeignProgram, IsNotLoweredWithASizeThatDependsOnOthersInAnotherWay) {
  for (const auto& lie : {+[](const Expr&) { return Expr(3); }, +[](const Expr& size) { return size * 2; },
                          +[](const Expr& size) { return floordiv(size, 3) * 3; },
                          +[](const Expr& size) { return max(size, 4); }}) {
    const auto file = symbolic_file_with([&](Node& node) {
      Expr& size = node.output()->meta().sizes[0];
      ASSERT_TRUE(size.as_symbol().has_value());
      size = lie(size);
    });
    EXPECT_THAT(export_error(file), HasSubstr("Axis 0 of the result 'relu' is s"));
  }
}

TEST_F(ForeignProgram, IsNotLoweredWithAFalseNumber) {
  dynamic_ = true;
  const auto doubled = [](const at::Tensor& x) { return x.new_zeros_symint({x.sym_size(0) * 2}); };
  EXPECT_EQ(export_error(file_of(doubled, "_operator.mul", [](Node&) {})), "no error");
  const auto file =
      file_of(doubled, "_operator.mul", [](Node& node) { node.output()->sym() = node.output()->sym() + 1; });
  EXPECT_THAT(export_error(file), HasSubstr("The number"));
}

// Running builds on nothing that the file says of its values.
TEST_F(ForeignProgram, RunsWhateverItSaysOfItsValues) {
  DynamoRunner runner(DynamoExporter().open_program(
      symbolic_file_with([](Node& node) { node.output()->meta().sizes[0] = node.output()->meta().sizes[0] * 2; })));
  EXPECT_TRUE(at::allclose(runner.run({{"x", at::ones({5})}}).tensor(), at::ones({5})));
}

}  // namespace
}  // namespace exporters
