#include "tests/passes/decompose_case.h"

#include "exporters/graph/op_name.h"
#include "exporters/interpreter/interpreter.h"
#include "exporters/passes/op_facts.h"
#include "exporters/support/error.h"
#include "exporters/trace/trace.h"
#include "tests/support/tensor_forward.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace exporters::decomposition {
namespace {

const std::map<char, int64_t> kSample = {{'b', 2}, {'s', 3}, {'t', 4}};
const std::vector<std::map<char, int64_t>> kOthers = {
    {{'b', 1}, {'s', 1}, {'t', 1}}, {{'b', 5}, {'s', 2}, {'t', 3}}, {{'b', 1}, {'s', 6}, {'t', 2}}};

struct Spec {
  char kind = 'f';
  std::vector<std::string> axes;
};

Spec parsed(const std::string& text) {
  Spec spec;
  std::string sizes = text;
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    spec.kind = text[0];
    sizes = text.substr(colon + 1);
  }
  std::istringstream words(sizes);
  for (std::string word; words >> word;) {
    spec.axes.push_back(word);
  }
  return spec;
}

bool is_letter(const std::string& axis) { return std::isalpha(static_cast<unsigned char>(axis[0])) != 0; }

at::Tensor filled(const Spec& spec, const std::vector<int64_t>& sizes, const at::Generator& random) {
  switch (spec.kind) {
    case 'p':
      return at::rand(sizes, random) * 0.8 + 0.1;
    case 'l':
      return at::randint(0, 3, sizes, random, at::kLong);
    case 'k':
      return at::randint(-4, 5, sizes, random, at::kLong);
    case 'm':
      return at::randint(0, 2, sizes, random, at::kBool);
    default:
      return at::randn(sizes, random);
  }
}

Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.clone());
  }
  return result;
}

Tensors run(const Interpreter& interpreter, const Tensors& inputs) {
  Tensors result;
  for (const PyTree::Leaf& leaf : interpreter.run(inputs)) {
    result.push_back(std::get<at::Tensor>(leaf));
  }
  return result;
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const bool same = c10::isFloatingType(expected.scalar_type())
                        ? at::allclose(actual.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance, true)
                        : at::equal(actual, expected);
  EXPECT_TRUE(same) << what << "\n" << actual << "\nexpected\n" << expected;
}

std::set<std::string> facts_of(const ExportedProgram& program) {
  std::set<std::string> facts;
  for (const Guard& guard : program.guards) {
    facts.insert(guard.condition.str());
  }
  for (const auto& [symbol, range] : program.range_constraints) {
    facts.insert(symbol + " " + range.str());
  }
  return facts;
}

}  // namespace

Tensors make_inputs(const Case& example, const std::map<char, int64_t>& sizes) {
  const at::Generator random = at::detail::createCPUGenerator(7);
  Tensors inputs;
  for (const std::string& text : example.inputs) {
    const Spec spec = parsed(text);
    std::vector<int64_t> shape;
    for (const std::string& axis : spec.axes) {
      shape.push_back(is_letter(axis) ? sizes.at(axis[0]) : std::stoll(axis));
    }
    inputs.push_back(filled(spec, shape, random));
  }
  return inputs;
}

ExportedProgram traced(const Case& example) {
  TraceRequest request;
  request.module_class = "Case";
  request.dynamic = false;
  const Tensors inputs = make_inputs(example, kSample);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = testing::input_name(i);
    request.inputs.emplace_back(name, inputs[i]);
    const std::vector<std::string> axes = parsed(example.inputs[i]).axes;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (is_letter(axes[axis])) {
        request.dynamic_shapes[name][static_cast<int64_t>(axis)] = Dim::Auto();
      }
    }
  }
  request.forward = testing::on_named_inputs(example.forward);
  return trace(request);
}

std::vector<std::string> outside_core(const Graph& graph) {
  std::vector<std::string> targets;
  for (const Node& node : graph) {
    const bool is_op = !node.is_placeholder() && !node.is_output() && is_dispatcher_target(node.target());
    if (is_op && !lookup_operator(node.target()).hasTag(at::Tag::core)) {
      targets.push_back(node.target());
    }
  }
  return targets;
}

void check(const Case& example, const DecompositionTable& table) {
  SCOPED_TRACE(example.name);
  const at::NoGradGuard no_grad;
  const auto whole = std::make_shared<ExportedProgram>(traced(example));
  std::shared_ptr<ExportedProgram> core;
  try {
    core = std::make_shared<ExportedProgram>(run_decompositions(*whole, table));
  } catch (const Error& error) {
    FAIL() << error.what() << "\n" << whole->str();
  }
  SCOPED_TRACE(core->str());
  verify(*core);
  EXPECT_TRUE(is_functional(*core->graph));
  EXPECT_THAT(outside_core(*core->graph), ::testing::IsEmpty());
  EXPECT_EQ(facts_of(*core), facts_of(*whole));
  const Interpreter before(whole);
  const Interpreter after(core);
  std::vector<std::map<char, int64_t>> all = kOthers;
  all.push_back(kSample);
  for (const std::map<char, int64_t>& sizes : all) {
    const Tensors inputs = make_inputs(example, sizes);
    const Tensors for_eager = copies(inputs);
    const Tensors for_before = copies(inputs);
    const Tensors for_after = copies(inputs);
    try {
      const Tensors expected = example.forward(for_eager);
      const Tensors undecomposed = run(before, for_before);
      const Tensors actual = run(after, for_after);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::string what = "output " + std::to_string(i) + " at " + ::testing::PrintToString(sizes);
        expect_close(actual[i], expected[i], example.tolerance, what + " against eager");
        expect_close(actual[i], undecomposed[i], example.tolerance, what + " against the undecomposed program");
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        expect_close(for_after[i], for_eager[i], example.tolerance, "input afterwards");
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << ::testing::PrintToString(sizes) << ": " << error.what();
    }
  }
}

}  // namespace exporters::decomposition
