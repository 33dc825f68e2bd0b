#pragma once

#include "exporters/framework/export_config.h"
#include "exporters/graph/exported_program.h"
#include "exporters/onnx/emit/model.h"
#include "exporters/onnx/optimize/graph_editor.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::onnx {

/// A rewrite that makes a model smaller or faster and changes no result. Its time is linear in the graph.
struct OptimizerPass {
  std::string_view name;  ///< "common_subexpressions"
  std::string_view reason;
  /// Rewrites the program before it is translated; gives how many nodes it took away or changed. May be null.
  size_t (*on_program)(ExportedProgram& program) = nullptr;
  /// Rewrites one graph of the translated model; gives the names of nodes that it changed. May be null.
  std::vector<std::string> (*on_graph)(GraphEditor& graph) = nullptr;
};

/// In the order they run. The list is run over until a round changes nothing.
std::span<const OptimizerPass> optimizer_passes();

/// Throws Error for a name that no pass has, with those that are near.
void check_pass_names(const std::vector<std::string>& names);

/// A config field that holds names of passes: a list, or one text with commas. Setting it throws as check_pass_names.
ConfigField pass_names_field(std::string name, std::string help, std::vector<std::string>& value);

/// Runs the passes but for those named in `disabled`. The program is functional (exporters/passes).
void optimize_program(ExportedProgram& program, const std::vector<std::string>& disabled);
/// The same over the model's graph and the graphs inside its nodes. value_info is read as facts and stays true.
void optimize_model(OnnxModel& model, const std::vector<std::string>& disabled);

// The passes over graphs.
std::vector<std::string> remove_dead_nodes(GraphEditor& graph);
std::vector<std::string> remove_identities(GraphEditor& graph);
std::vector<std::string> remove_casts(GraphEditor& graph);
std::vector<std::string> merge_common_subexpressions(GraphEditor& graph);
std::vector<std::string> simplify_shapes(GraphEditor& graph);
std::vector<std::string> merge_transposes(GraphEditor& graph);
std::vector<std::string> merge_views(GraphEditor& graph);
std::vector<std::string> fuse_gemm(GraphEditor& graph);
std::vector<std::string> fuse_rotary_embedding(GraphEditor& graph);

// The passes over programs.
size_t fold_constants(ExportedProgram& program);
size_t merge_equal_calls(ExportedProgram& program);
size_t remove_dead_calls(ExportedProgram& program);

}  // namespace exporters::onnx
