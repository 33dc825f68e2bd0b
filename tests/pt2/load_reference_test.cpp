// Programs that the reference exported of models of many families: tests/reference/make_pt2.py.
#include "exporters/interpreter/interpreter.h"
#include "exporters/passes/decompose.h"
#include "exporters/passes/op_facts.h"
#include "exporters/pt2/load.h"
#include "exporters/pt2/save.h"
#include "tests/pt2/recorded.h"
#include "tests/pt2/saved_program.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace exporters {
namespace {

using testing::difference;
using testing::error_of;
using testing::numbered;
namespace fs = std::filesystem;

std::vector<fs::path> sorted(const fs::path& folder) {
  std::vector<fs::path> entries(fs::directory_iterator(folder), {});
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<fs::path> models() {
  std::vector<fs::path> folders;
  for (const fs::path& entry : sorted(testing::reference_folder("pt2"))) {
    if (fs::exists(entry / "model.pt2")) {
      folders.push_back(entry);
    }
  }
  return folders;
}

// The same kernels on the same numbers in the same order: what is left is how a matrix product splits its sums where
// eager fuses what the program has apart.
constexpr double kTolerance = 1e-6;

TEST(ReferencePrograms, GiveWhatTheModelsGive) {
  EXPECT_GE(models().size(), 38u);
  for (const fs::path& model : models()) {
    SCOPED_TRACE(model.filename());
    const std::shared_ptr<const ExportedProgram> program = load_pt2(model / "model.pt2");
    EXPECT_FALSE(program->module_class.empty());
    size_t shapes = 0;
    for (const fs::path& file : sorted(model)) {
      if (file.filename().native().starts_with("io_")) {
        EXPECT_LE(difference(program, file), kTolerance) << file.filename();
        ++shapes;
      }
    }
    EXPECT_GE(shapes, 1u);
  }
}

// Decomposed, the same sums are made by other kernels in another order.
constexpr double kDecomposedTolerance = 1e-5;

TEST(ReferencePrograms, GiveTheSameInCoreAten) {
  for (const fs::path& model : models()) {
    SCOPED_TRACE(model.filename());
    const auto core = std::make_shared<ExportedProgram>(run_decompositions(*load_pt2(model / "model.pt2")));
    EXPECT_TRUE(is_functional(*core->graph));
    for (const fs::path& file : sorted(model)) {
      if (file.filename().native().starts_with("io_")) {
        EXPECT_LE(difference(core, file), kDecomposedTolerance) << file.filename();
      }
    }
  }
}

// What is loaded can be saved, and is the same program then.
TEST(ReferencePrograms, PrintAndSaveAsTheSameProgram) {
  const testing::TemporaryFolder folder;
  for (const fs::path& model : models()) {
    SCOPED_TRACE(model.filename());
    const std::shared_ptr<const ExportedProgram> program = load_pt2(model / "model.pt2");
    save_pt2(*program, folder / "again.pt2");
    const std::shared_ptr<const ExportedProgram> again = load_pt2(folder / "again.pt2");
    // A condition that is read from a tensor gets a number of its own in the file.
    const auto graph_text = [](const ExportedProgram& each) {
      const std::string text = testing::comparable_text(each);
      return text.substr(0, text.find("\nRanges:"));
    };
    EXPECT_EQ(graph_text(*again), graph_text(*program));
    for (const auto& [symbol, range] : program->range_constraints) {
      EXPECT_EQ(again->range_constraints.at(symbol), range) << symbol;
    }
    EXPECT_EQ(again->guards.size(), program->guards.size());
  }
}

// What the program's own guards refuse in Python, they refuse here.
TEST(ReferencePrograms, RefuseWhatTheyRefuseInPython) {
  size_t refused = 0;
  for (const fs::path& model : models()) {
    SCOPED_TRACE(model.filename());
    const std::shared_ptr<const ExportedProgram> program = load_pt2(model / "model.pt2");
    for (const fs::path& file : sorted(model)) {
      if (file.filename().native().starts_with("refused_")) {
        EXPECT_NE(error_of([&] { Interpreter(program).run(numbered(file, "in")); }), "no error") << file.filename();
        ++refused;
      }
    }
  }
  EXPECT_GE(refused, 1u);
}

}  // namespace
}  // namespace exporters
