// One small program for each thing that a .pt2 can hold: tests/reference/make_pt2_cases.py.
#include "exporters/interpreter/interpreter.h"
#include "exporters/passes/functionalize.h"
#include "exporters/passes/op_facts.h"
#include "exporters/pt2/load.h"
#include "exporters/weights/safetensors.h"
#include "tests/pt2/recorded.h"
#include "tests/reference/folder.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace exporters {
namespace {

using ::testing::AllOf;
using testing::difference;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::numbered;
namespace fs = std::filesystem;

fs::path programs() { return testing::reference_folder("pt2_cases") / "programs"; }
std::shared_ptr<ExportedProgram> load(const std::string& name) { return load_pt2(programs() / name / "model.pt2"); }

class LoadedProgram : public ::testing::TestWithParam<std::string> {};

TEST_P(LoadedProgram, GivesWhatTheModuleGives) {
  size_t calls = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(programs() / GetParam())) {
    const std::string file = entry.path().filename();
    // Loaded anew for each call: some write to their buffers.
    if (file.starts_with("io_")) {
      EXPECT_LE(difference(load(GetParam()), entry.path()), 1e-6) << file;
      ++calls;
    } else if (file.starts_with("refused_")) {
      EXPECT_NE(error_of([&] { Interpreter(load(GetParam())).run(numbered(entry.path(), "in")); }), "no error") << file;
    }
  }
  EXPECT_GE(calls, 1u);
}

// What the forward writes to, the caller finds written.
TEST_P(LoadedProgram, WritesToInputsAsTheModuleDoes) {
  const fs::path file = programs() / GetParam() / "io_0.safetensors";
  const std::vector<at::Tensor> inputs = numbered(file, "in");
  const std::vector<at::Tensor> after = numbered(file, "after");
  Interpreter(load(GetParam())).run(inputs);
  for (size_t i = 0; i < std::min(inputs.size(), after.size()); ++i) {
    if (inputs[i].sizes() == after[i].sizes()) {
      EXPECT_TRUE(at::allclose(inputs[i].to(at::kDouble), after[i].to(at::kDouble))) << i;
    }
  }
}

// A functional program gives the same, and tells of what it writes in its signature.
TEST_P(LoadedProgram, GivesTheSameWithoutInPlaceOps) {
  if (GetParam() == "shared_parts") {
    EXPECT_THAT(error_of([&] { functionalize(*load(GetParam())); }),
                AllOf(HasSubstr("'later'"), HasSubstr("'strided' shares its memory")));
    return;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(programs() / GetParam())) {
    const std::string file = entry.path().filename();
    if (file.starts_with("io_")) {
      const std::shared_ptr<ExportedProgram> program = load(GetParam());
      functionalize(*program);
      verify(*program);
      EXPECT_TRUE(is_functional(*program->graph));
      EXPECT_LE(difference(program, entry.path()), 1e-6) << file << program->str();
    }
  }
}

TEST_P(LoadedProgram, PrintsTheSameTwice) { EXPECT_EQ(load(GetParam())->str(), load(GetParam())->str()); }

INSTANTIATE_TEST_SUITE_P(All, LoadedProgram,
                         ::testing::Values("mutates_input", "mutates_buffer", "non_persistent", "scalars",
                                           "dynamic_int", "float_sizes", "interpolates", "counts", "nested", "spread",
                                           "named_tuple", "lists", "broadcasts_lists", "linear", "unused", "affine",
                                           "derived", "conditional", "conditional_layers", "loops",
                                           "loops_conditionally", "without_gradients", "dtypes", "out_variants",
                                           "out_resized", "in_place_shapes", "in_place_parts", "channels_last",
                                           "recurrent", "shared_storage", "shared_parts", "tied", "tied_by_passing",
                                           "mutates_input_decomposed", "mutates_buffer_decomposed", "lists_decomposed",
                                           "float_sizes_decomposed", "conditional_decomposed",
                                           "conditional_layers_decomposed", "tied_decomposed"),
                         [](const auto& info) { return info.param; });

TEST(LoadPt2, ElementsOfListsNeedNoGetitem) {
  const auto program = load("lists");
  bool found = false;
  for (const Node& node : *program->graph) {
    EXPECT_NE(node.target(), "_operator.getitem");
    if (node.target() == "aten.split_with_sizes.default" || node.target() == "aten.split.sizes") {
      EXPECT_EQ(node.value()->kind(), Value::Kind::kTensorList);
      EXPECT_EQ(node.value()->elements().size(), 3u);
      found = true;
    }
  }
  EXPECT_TRUE(found);
}

TEST(LoadPt2, StateHasBuffersThatAreNotPersistentAndConstants) {
  const auto program = load("non_persistent");
  std::map<InputSpec::Kind, size_t> kinds;
  for (const InputSpec& input : program->signature.inputs) {
    ++kinds[input.kind];
    EXPECT_TRUE(input.kind != InputSpec::Kind::kBuffer || input.persistent == (input.target == "kept")) << input.target;
  }
  EXPECT_EQ(kinds[InputSpec::Kind::kBuffer], 2u);
  EXPECT_EQ(kinds[InputSpec::Kind::kTensorConstant], 2u);
  EXPECT_EQ(kinds[InputSpec::Kind::kUserInput], 1u);
}

TEST(LoadPt2, ConstantInputsKeepTheirSlots) {
  const auto program = load("scalars");
  EXPECT_EQ(program->signature.user_inputs().size(), 1u);
  std::vector<Argument> constants;
  for (const InputSpec& input : program->signature.inputs) {
    if (input.kind == InputSpec::Kind::kConstantInput) {
      constants.push_back(input.constant);
    }
  }
  EXPECT_THAT(constants, ElementsAre(Argument(2), Argument(1.5), Argument(true), Argument("add"), Argument()));
}

TEST(LoadPt2, RangesGuardsAndHintsAreRead) {
  const auto linear = load("linear");
  ASSERT_EQ(linear->range_constraints.size(), 1u);
  EXPECT_EQ(linear->range_constraints.begin()->second.max, 16);
  EXPECT_EQ(linear->hints.begin()->second, 2);
  const std::string message = error_of([&] { Interpreter(linear).run(std::vector{at::zeros({17, 4})}); });
  EXPECT_THAT(message, HasSubstr("17"));
  EXPECT_THAT(message, HasSubstr("[0, 16]"));
}

// torch.export writes a lower bound of 2 for every size, and lets 0 and 1 pass.
TEST(LoadPt2, ALowerBoundOfTwoIsNone) {
  const auto program = load("affine");
  ASSERT_FALSE(program->range_constraints.empty());
  for (const auto& [symbol, range] : program->range_constraints) {
    EXPECT_EQ(range.min, 0) << symbol;
  }
}

TEST(LoadPt2, NodesNameTheirModulesAndLines) {
  const auto program = load("linear");
  EXPECT_EQ(program->module_class, "Sequential");
  std::vector<std::string> places;
  for (const Node& node : *program->graph) {
    if (node.kind() == Node::Kind::kCall) {
      places.push_back(node.place().module_path + " " + node.place().module_class);
    }
  }
  EXPECT_THAT(places, ElementsAre("0 Linear", "1 ReLU", "2 Linear"));
}

TEST(LoadPt2, SubgraphsAreReadVerifiedAndPrinted) {
  const std::map<std::string, std::string> ops = {{"conditional", "higher_order.cond"},
                                                  {"loops", "higher_order.while_loop"},
                                                  {"without_gradients", "higher_order.wrap_with_set_grad_enabled"}};
  for (const auto& [name, op] : ops) {
    const auto program = load(name);
    EXPECT_THAT(program->str(), HasSubstr(op)) << name;
    size_t graphs = 0;
    for (const Node& node : *program->graph) {
      for (const Argument& argument : node.args()) {
        if (const auto* graph = argument.get_if<GraphArgument>()) {
          EXPECT_GT(graph->graph->size(), 1u);
          ++graphs;
        }
      }
    }
    EXPECT_GE(graphs, 1u) << name;
  }
}

// ── Weights ──

TEST(LoadPt2, WeightsAreViewsOfTheFileWithTheirPlaces) {
  for (const char* name : {"linear", "tied_by_passing"}) {
    const auto program = load(name);
    for (const auto& [target, state] : program->state) {
      ASSERT_TRUE(state.source.has_value()) << target;
      EXPECT_EQ(state.source->key, target);
      EXPECT_EQ(state.source->nbytes, state.tensor.nbytes());
      std::ifstream file(state.source->file, std::ios::binary);
      file.seekg(static_cast<std::streamoff>(state.source->offset));
      std::string bytes(state.source->nbytes, '\0');
      file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      EXPECT_EQ(bytes, std::string(static_cast<const char*>(state.tensor.const_data_ptr()), state.tensor.nbytes()));
    }
  }
}

TEST(LoadPt2, TensorsThatShareAStorageShareItHere) {
  auto program = load("shared_storage");
  const at::Tensor whole = program->state.at("whole").tensor;
  for (const char* view : {"row", "column", "transposed", "tail", "head"}) {
    EXPECT_TRUE(program->state.at(view).tensor.is_alias_of(whole)) << view;
  }
  EXPECT_FALSE(program->state.at("expanded").tensor.is_alias_of(whole));
  EXPECT_TRUE(at::equal(program->state.at("row").tensor, whole[1]));
  EXPECT_TRUE(at::equal(program->state.at("transposed").tensor, whole.t()));

  program = load("shared_parts");
  EXPECT_TRUE(program->state.at("later").tensor.is_alias_of(program->state.at("strided").tensor));
}

// Only what lies in the file as a dense row-major tensor has a place there.
TEST(LoadPt2, StridedViewsHaveNoSource) {
  const auto program = load("shared_storage");
  EXPECT_TRUE(program->state.at("row").source.has_value());
  EXPECT_FALSE(program->state.at("column").source.has_value());
  EXPECT_FALSE(program->state.at("expanded").source.has_value());
}

// A run that writes to a buffer changes the program, and never the file.
TEST(LoadPt2, BuffersAreWrittenToInMemoryOnly) {
  const auto program = load("mutates_buffer");
  Interpreter(program).run(std::vector{at::ones({2, 3})});
  EXPECT_EQ(program->state.at("count").tensor.item<float>(), 3);
  EXPECT_EQ(load("mutates_buffer")->state.at("count").tensor.item<float>(), 2);
}

}  // namespace
}  // namespace exporters
