#include "exporters/onnx/optimize/passes.h"

#include "exporters/onnx/ir_fixes.h"
#include "exporters/onnx/optimize/ort_fusions.h"
#include "exporters/passes/constant_folding.h"
#include "exporters/passes/cse.h"
#include "exporters/passes/dead_code.h"
#include "exporters/patching/effects.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <sstream>

namespace exporters::onnx {
namespace {

constexpr std::array kPasses = {
    OptimizerPass{"constant_folding",
                  "What follows from constants and buffers alone is computed once, by ATen, where the result is small; "
                  "weights are never touched.",
                  fold_constants, nullptr},
    OptimizerPass{"common_subexpressions",
                  "Equal computations are one: masks and rotary tables that each layer makes anew are made once.",
                  merge_equal_calls, merge_common_subexpressions},
    OptimizerPass{"identities",
                  "What gives its input back is no computation: Identity, Reshape and Expand to the own "
                  "sizes, Slice of a whole axis.",
                  nullptr, remove_identities},
    OptimizerPass{"casts",
                  "A Cast to the own type does nothing, and of two Casts the first does nothing where it "
                  "loses nothing.",
                  nullptr, remove_casts},
    OptimizerPass{"shape_arithmetic",
                  "Sizes that are known become numbers, and those of inner tensors are read from an input that has "
                  "them, so that they are computed once and reshapes take constants.",
                  nullptr, simplify_shapes},
    OptimizerPass{"transposes", "Two Transposes are one, or none, also with elementwise operators between them.",
                  nullptr, merge_transposes},
    OptimizerPass{"views", "Chains of Reshape, Squeeze, Unsqueeze, Slice and Concat are one operator.", nullptr,
                  merge_views},
    OptimizerPass{"gemm",
                  "A product of two matrices with what transposes its weight and adds its bias is one Gemm, "
                  "which takes weights as checkpoints have them.",
                  nullptr, fuse_gemm},
    OptimizerPass{"rotary_embedding",
                  "From opset 23 on, rotated halves of heads are one RotaryEmbedding instead of eight operators.",
                  nullptr, fuse_rotary_embedding},
    OptimizerPass{"dead_code", "What nobody takes is not computed, and its weights are not written.", remove_dead_calls,
                  remove_dead_nodes},
};

bool is_disabled(const OptimizerPass& pass, const std::vector<std::string>& disabled) {
  return std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end();
}

using Passes = std::vector<const OptimizerPass*>;

size_t run(const OptimizerPass& pass, GraphEditor& graph) {
  const std::vector<std::string> changed = pass.on_graph(graph);
  for (const std::string& node : changed) {
    record_effect("optimizer pass", "onnx", pass.name, place_of_node(node));
  }
  return changed.size();
}

// The graphs inside first: they are then what they stay, and one index of each graph serves all passes. A rewrite may
// make room for one before it. Each round but the last takes something away, so there are few; the limit is for those
// that only change something.
void run_until_nothing_changes(const Passes& passes, OnnxGraph& graph, EditScope& scope) {
  constexpr int kMostRounds = 6;
  for (const OnnxNode& node : graph.nodes) {
    for_each_inner_graph(node, [&](OnnxGraph& inner) { run_until_nothing_changes(passes, inner, scope); });
  }
  GraphEditor editor(graph, scope);
  for (int round = 0; round < kMostRounds; ++round) {
    size_t changes = 0;
    for (const OptimizerPass* pass : passes) {
      changes += run(*pass, editor);
    }
    if (changes == 0) {
      return;
    }
    editor.infer();
  }
}

constexpr OptimizerPass kQuickGelu = {
    "quick_gelu", "SiLU is one operator of ONNX Runtime instead of two standard ones.", nullptr, fuse_quick_gelu};

}  // namespace

void fuse_for_onnxruntime(OnnxModel& model) {
  EditScope scope = edit_scope(model);
  run_until_nothing_changes({&kQuickGelu}, model.graph, scope);
  model.import_contrib_domain();
}

std::span<const OptimizerPass> optimizer_passes() { return kPasses; }

void check_pass_names(const std::vector<std::string>& names) {
  std::vector<std::string_view> known;
  for (const OptimizerPass& pass : kPasses) {
    known.push_back(pass.name);
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(fmt::format("the ONNX optimizer has no pass {}", quote(name)), {}, suggest(name, known));
    }
  }
}

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream words(text);
  for (std::string name; std::getline(words, name, ',');) {
    names.push_back(name);
  }
  return names;
}

}  // namespace

ConfigField pass_names_field(std::string name, std::string help, std::vector<std::string>& value) {
  return {std::move(name), std::move(help), "a list of names of passes, such as [\"casts\", \"views\"]",
          [&value] { return nlohmann::json(value); },
          [&value](const nlohmann::json& given) {
            const bool is_list = given.is_array() && std::all_of(given.begin(), given.end(),
                                                                 [](const auto& each) { return each.is_string(); });
            if (!is_list && !given.is_string()) {
              return false;
            }
            std::vector<std::string> names =
                is_list ? given.get<std::vector<std::string>>() : split(given.get<std::string>());
            check_pass_names(names);
            value = std::move(names);
            return true;
          }};
}

void optimize_program(ExportedProgram& program, const std::vector<std::string>& disabled) {
  for (const OptimizerPass& pass : kPasses) {
    if (pass.on_program == nullptr || is_disabled(pass, disabled)) {
      continue;
    }
    const size_t changes = pass.on_program(program);
    for (size_t i = 0; i < changes; ++i) {
      record_effect("optimizer pass", "onnx", pass.name, {});
    }
  }
}

void optimize_model(OnnxModel& model, const std::vector<std::string>& disabled) {
  detach_inner_graphs(model.graph);
  Passes passes;
  for (const OptimizerPass& pass : kPasses) {
    if (pass.on_graph != nullptr && !is_disabled(pass, disabled)) {
      passes.push_back(&pass);
    }
  }
  EditScope scope = edit_scope(model);
  run_until_nothing_changes(passes, model.graph, scope);
}

size_t fold_constants(ExportedProgram& program) { return exporters::fold_constants(program); }

size_t merge_equal_calls(ExportedProgram& program) { return exporters::merge_common_subexpressions(*program.graph); }

size_t remove_dead_calls(ExportedProgram& program) { return eliminate_dead_code(*program.graph); }

}  // namespace exporters::onnx
