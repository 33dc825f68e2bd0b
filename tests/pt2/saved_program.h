#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/interpreter/interpreter.h"
#include "exporters/trace/trace.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace exporters::testing {

/// Where programs for the Python side are kept: EXPORTERS_PT2_FILES, which ctest sets, else a folder below /tmp.
std::filesystem::path pt2_files();

/// The program's text, but for what a .pt2 file spells otherwise: it says of nodes outside of all modules that they are
/// the root's, and has a name of its own for a call that gives a tuple, which the reader gives to its first result.
std::string comparable_text(const ExportedProgram& program);

/// A program in a .pt2 file, with calls and their results, for tests/reference/check_pt2.py: it loads the file with
/// torch.export.load and makes the calls. Here the file is loaded too: it has to give the program's own text, and the
/// calls have to give what the forward gives.
class SavedProgram {
 public:
  /// Whether the graph is saved as it is, or with nodes that check sizes while it runs.
  enum class Nodes { kAsTraced, kWithAsserts };
  /// Traces, saves and loads.
  SavedProgram(std::string name, const TraceRequest& request, Nodes nodes = Nodes::kAsTraced);
  /// Saves and loads a program that does what the request's forward does.
  SavedProgram(std::string name, ExportedProgram program, const TraceRequest& request, Nodes nodes = Nodes::kAsTraced);
  /// Writes what the Python side is to do.
  ~SavedProgram();
  SavedProgram(const SavedProgram&) = delete;
  SavedProgram& operator=(const SavedProgram&) = delete;

  const ExportedProgram& program() const { return program_; }
  std::filesystem::path file() const;

  /// Python has to give what the forward gives for these inputs.
  void expect_call(const NamedInputs& inputs);
  /// Python's own model from a checkpoint of reference_models() gives what the program has to give.
  void expect_eager(const NamedInputs& inputs, const std::string& checkpoint);
  /// Python has to refuse these.
  void expect_refused(const NamedInputs& inputs);
  /// torch.onnx.export takes the program, and its model gives the same.
  void expect_onnx() { onnx_ = true; }
  /// The program has no `example_inputs` in Python.
  void expect_no_samples() { samples_ = false; }

 private:
  struct Call {
    std::string inputs;   ///< file names
    std::string outputs;  ///< empty: of the checkpoint's model
  };
  std::string write(const std::string& what, const std::vector<std::pair<std::string, at::Tensor>>& tensors);
  std::string write_inputs(const NamedInputs& inputs);

  std::string name_;
  TraceRequest request_;
  ExportedProgram program_;
  std::unique_ptr<Interpreter> loaded_;
  std::vector<Call> calls_;
  std::vector<std::string> refused_;
  std::string checkpoint_;
  std::vector<std::pair<std::string, PyTree>> constants_;
  bool onnx_ = false;
  bool samples_ = true;
  int written_ = 0;
};

}  // namespace exporters::testing
