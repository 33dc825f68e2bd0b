#pragma once

#include "exporters/interpreter/interpreter.h"
#include "tests/interpreter/graph_builder.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace exporters {

/// The names of the calls, in order.
inline std::vector<std::string> calls(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph) {
    if (node.kind() == Node::Kind::kCall) {
      names.push_back(node.name());
    }
  }
  return names;
}

/// A program to be built over the input x, float32 [4, 3].
struct PassTest : ::testing::Test {
  GraphBuilder builder;
  Value* x = builder.input("x", at::randn({4, 3}));

  /// The program verifies, and gives to the bit what the builder's calls gave.
  void expect_same_results(const std::shared_ptr<ExportedProgram>& program) {
    verify(*program);
    const auto results = Interpreter(program).run(builder.fresh_inputs());
    ASSERT_EQ(results.size(), builder.expected().size());
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(at::equal(std::get<at::Tensor>(results[i]), builder.expected()[i])) << "output " << i;
    }
  }
};

}  // namespace exporters
