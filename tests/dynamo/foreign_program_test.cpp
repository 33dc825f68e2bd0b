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
    ExportSource source;
    source.architecture = "Toy";
    source.forward = [](const NamedInputs& inputs) { return PyTree(at::relu(find_input(inputs, "x")->tensor())); };
    DynamoConfig config;
    const ExportedModel model = DynamoExporter().export_model(source, {{"x", at::ones({3}, dtype)}}, config);
    const ExportedProgram& program = *dynamic_cast<const DynamoProgram&>(*model.component().program).program();
    for (Node& node : *program.graph) {
      if (node.is_call("aten.relu.default")) {
        change(node);
      }
    }
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

}  // namespace
}  // namespace exporters
