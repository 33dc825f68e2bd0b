// Every registered translation against the real ATen op, and what the table says of each: calls are data, in the files
// beside this one.
#include "tests/onnx/ops/op_sample.h"

#include "exporters/graph/calls.h"
#include "exporters/graph/op_name.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/runner.h"
#include "exporters/onnx/translations/table.h"
#include "exporters/pt2/load.h"
#include "exporters/pt2/transformers_ops.h"
#include "tests/onnx/harness.h"
#include "tests/onnx/ops/number_ops.h"
#include "tests/onnx/support.h"
#include "tests/reference/folder.h"

#include <ATen/Context.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An entry of the table: op as registered, opset.
using Entry = std::pair<std::string, int64_t>;
using Names = std::set<std::string>;

// As built in: read before any test runs, of which some register more.
const std::vector<OnnxTranslationInfo> kBuiltIn = onnx_translation_table();

const std::vector<OnnxTranslationInfo>& table() { return kBuiltIn; }

// The entry that counts for a call.
Entry entry_of(const std::string& target, int64_t opset) {
  const std::string op = target.substr(0, target.rfind('.'));
  std::optional<Entry> found;
  for (const std::string& name : {op, target}) {  // one with the overload wins
    for (const OnnxTranslationInfo& info : table()) {
      if (info.op == name && info.opset <= opset) {
        found = found && found->first == name ? std::max(*found, Entry(name, info.opset)) : Entry(name, info.opset);
      }
    }
  }
  return found.value_or(Entry());
}

// The opsets at which something is written otherwise, and the default one.
std::set<int64_t> opsets_of(const OpSample& sample) {
  if (sample.opset) {
    return {*sample.opset};
  }
  std::set<int64_t> opsets = {kDefaultOpset};
  for (const OnnxTranslationInfo& info : table()) {
    if (info.op == sample.op || info.op == sample.op.substr(0, sample.op.rfind('.'))) {
      opsets.insert(info.opset);
    }
  }
  return opsets;
}

// What the nodes that work on values are. Casts, and arithmetic of sizes, are not told, unless there is nothing else.
void add_operators(const OnnxGraph& graph, std::set<std::string> data, Names& told, Names& others) {
  for (const OnnxValueInfo& input : graph.inputs) {
    data.insert(input.name);
  }
  for (const OnnxNode& node : graph.nodes) {
    const bool works_on_data = std::any_of(node.inputs.begin(), node.inputs.end(),
                                           [&](const std::string& input) { return data.contains(input); });
    const bool is_size = node.op_type == "Shape" || node.op_type == "Identity";
    const std::string name = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
    if (works_on_data && node.op_type != "Shape") {
      data.insert(node.outputs.begin(), node.outputs.end());
    }
    if (!is_size) {
      (works_on_data && node.op_type != "Cast" ? told : others).insert(name);
    }
  }
}

Names operators_of(const OnnxModel& model) {
  Names told;
  Names others;
  add_operators(model.graph, {}, told, others);
  return told.empty() ? others : told;
}

OnnxOptions options_at(int64_t opset) {
  OnnxOptions options;
  options.opset = opset;
  return options;
}

struct OpSampleTest : ::testing::TestWithParam<size_t> {
  static void SetUpTestSuite() { pt2::register_transformers_ops(); }
  const OpSample& sample() const { return op_samples()[GetParam()]; }
  Forward forward() const {
    return [sample = sample()](const Tensors& t) { return call_op(sample, t); };
  }
};

struct OnnxOp : OpSampleTest {};

void expect_shapes(const OnnxModel& model, const OpSample& sample) {
  const auto path = scratch_folder() / "model.onnx";
  save_model(model, path);
  const OnnxRunner runner(path);
  for (const SampleSizes& sizes : sizes_of(sample)) {
    const Tensors inputs = tensors_of(sample, sizes);
    OnnxRunner::Inputs bound;
    for (const OnnxValueInfo& info : runner.inputs()) {
      bound[info.name] = inputs.at(std::stoul(info.name.substr(1)));
    }
    const auto outputs = runner.run(bound);
    const Tensors expected = call_op(sample, inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(outputs[i].second.sizes(), expected[i].sizes());
      EXPECT_EQ(outputs[i].second.scalar_type(), expected[i].scalar_type());
    }
  }
}

TEST_P(OnnxOp, GivesWhatAtenGives) {
  at::manual_seed(static_cast<uint64_t>(GetParam()));
  std::vector<Tensors> inputs;
  for (const SampleSizes& sizes : sizes_of(sample())) {
    inputs.push_back(tensors_of(sample(), sizes));
  }
  for (const int64_t opset : opsets_of(sample())) {
    SCOPED_TRACE(opset);
    const ExportedProgram program = program_of(sample());
    if (!sample().refused.empty()) {
      EXPECT_THAT(error_of([&] { to_onnx(program, options_at(opset)); }), HasSubstr(sample().refused));
    } else if (sample().shapes_only) {
      expect_shapes(to_onnx(program, options_at(opset)), sample());
    } else {
      expect_same(program, forward(), inputs, options_at(opset), {sample().tolerance, sample().tolerance});
    }
  }
}

std::string sample_name(const ::testing::TestParamInfo<size_t>& info) {
  std::string name = op_samples()[info.param].op + "_" + std::to_string(info.param);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, OnnxOp, ::testing::Range(size_t{0}, op_samples().size()), sample_name);

// ── What the table says ──

// Higher-order ops have programs for arguments: those that Python wrote are run by Pt2Programs.
const std::map<std::string, std::string> kPrograms = {{"higher_order.cond", "conditional"},
                                                      {"higher_order.while_loop", "loops_conditionally"}};

// What the samples became, by entry.
std::map<Entry, Names> emitted() {
  pt2::register_transformers_ops();
  std::map<Entry, Names> result;
  for (const OpSample& sample : op_samples()) {
    for (const int64_t opset : sample.refused.empty() ? opsets_of(sample) : std::set<int64_t>()) {
      const Names operators = operators_of(to_onnx(program_of(sample), options_at(opset)));
      result[entry_of(sample.op, opset)].insert(operators.begin(), operators.end());
    }
  }
  return result;
}

// Models of larger programs that have the op, by entry.
std::map<Entry, OnnxModel> models_with() {
  std::map<Entry, OnnxModel> result;
  for (const auto& [op, number] : number_op_programs()) {
    result.emplace(entry_of(op + ".default", kDefaultOpset), to_onnx(number.program));
  }
  for (const auto& [op, folder] : kPrograms) {
    const auto program =
        load_pt2(exporters::testing::reference_folder("pt2_cases") / "programs" / folder / "model.pt2");
    for_each_call(*program->graph, [&, wanted = &op](const Node& node) {
      if (node.target() == *wanted) {
        result.emplace(Entry(*wanted, kLowestOpset), to_onnx(*program));
      }
    });
  }
  return result;
}

std::set<Entry> refusing() {
  std::set<Entry> result;
  for (const OpSample& sample : op_samples()) {
    for (const int64_t opset : sample.refused.empty() ? std::set<int64_t>() : opsets_of(sample)) {
      result.insert(entry_of(sample.op, opset));
    }
  }
  return result;
}

TEST(OnnxTranslationTable, EveryEntryIsRunByATest) {
  std::set<Entry> run = refusing();
  for (const auto& [entry, operators] : emitted()) {
    run.insert(entry);
  }
  for (const auto& [entry, model] : models_with()) {
    run.insert(entry);
  }
  for (const OnnxTranslationInfo& info : table()) {
    EXPECT_TRUE(run.contains({info.op, info.opset}))
        << info.op << " from opset " << info.opset << " has no sample: tests/onnx/ops/";
  }
}

// "Add Mul" → {"Add", "Mul"}
Names words(const std::string& text) {
  std::istringstream stream(text);
  Names result;
  for (std::string word; stream >> word;) {
    result.insert(word);
  }
  return result;
}

TEST(OnnxTranslationTable, SaysWhichOperatorsEachOpBecomes) {
  const std::map<Entry, Names> seen = emitted();
  const std::map<Entry, OnnxModel> models = models_with();
  for (const OnnxTranslationInfo& info : table()) {
    SCOPED_TRACE(fmt::format("{} from opset {}", info.op, info.opset));
    const Names told = words(info.notes.operators);
    if (const auto found = seen.find({info.op, info.opset}); found != seen.end()) {
      EXPECT_EQ(fmt::format("{}", fmt::join(told, " ")), fmt::format("{}", fmt::join(found->second, " ")));
    } else if (const auto model = models.find({info.op, info.opset}); model != models.end()) {
      EXPECT_THAT(op_types(model->second), ::testing::IsSupersetOf(told));
    } else {
      EXPECT_THAT(told, IsEmpty());  // refused
    }
  }
}

// What is refused is told, and what is told is refused.
TEST(OnnxTranslationTable, SaysWhatIsRefused) {
  const std::set<Entry> refused = refusing();
  for (const OnnxTranslationInfo& info : table()) {
    EXPECT_EQ(!info.notes.limits.empty(), refused.contains({info.op, info.opset}))
        << info.op << " from opset " << info.opset << ": " << info.notes.limits;
  }
}

}  // namespace
}  // namespace exporters::onnx
