// docs/cli.md: its examples run, and it leaves no option out.
#include "tests/cli/hfx.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include "exporters/weights/safetensors.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <regex>
#include <sstream>

namespace exporters {
namespace {

namespace fs = std::filesystem;

struct Example {
  std::string command;
  std::string error;  // what stderr says when the example is one that fails
};

std::vector<Example> examples(const std::string& page) {
  std::vector<Example> found;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    hfx ")) {
      found.push_back({line.substr(4), {}});
    } else if (line.starts_with("    hfx: error: ")) {
      found.back().error = line.substr(4) + "\n";
    }
  }
  return found;
}

TEST(Docs, EveryExampleDoesWhatThePageSays) {
  const testing::TemporaryFolder folder;
  fs::create_directory_symlink(testing::minilm(), folder / "all-MiniLM-L6-v2");
  fs::create_directory_symlink(testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0",
                               folder / "llama");
  const at::Tensor ones = at::ones({2, 5}, at::kLong);
  save_safetensors(folder / "inputs.safetensors",
                   {{"input_ids", ones}, {"attention_mask", ones}, {"token_type_ids", at::zeros({2, 5}, at::kLong)}});

  const std::vector<Example> all = examples(testing::read_text("docs/cli.md"));

  ASSERT_GE(all.size(), 15U);
  for (const Example& example : all) {
    SCOPED_TRACE(example.command);
    const auto result = testing::shell(example.command, folder.path());
    EXPECT_EQ(result.code, example.error.empty() ? 0 : 1) << result.err;
    EXPECT_EQ(result.err, example.error);
  }
}

TEST(Docs, EveryOptionIsOnThePage) {
  const std::string page = testing::read_text("docs/cli.md");
  for (const char* command : {"export", "run", "generate", "inspect", "models", "stages", "operators"}) {
    const std::string help = testing::hfx({command, "--help"}).out;
    const std::regex option("--[a-z]+");
    for (auto it = std::sregex_iterator(help.begin(), help.end(), option); it != std::sregex_iterator(); ++it) {
      EXPECT_NE(page.find(it->str()), std::string::npos) << command << " " << it->str();
    }
  }
}

TEST(Docs, ThePageOfStagesIsWhatHfxPrints) {
  for (const std::string format : {"onnx", "executorch"}) {
    const auto printed = testing::hfx({"stages", format, "--markdown"});
    ASSERT_EQ(printed.code, 0) << printed.err;
    EXPECT_EQ(testing::read_text("docs/stages_" + format + ".md"), printed.out)
        << "Run: hfx stages " << format << " --markdown > docs/stages_" << format << ".md";
  }
}

// Its rows are held against what the ops become by the tests of the room onnx.
TEST(Docs, ThePageOfOperatorsIsWhatHfxPrints) {
  const auto printed = testing::hfx({"operators", "--markdown"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(testing::read_text("docs/onnx_operators.md"), printed.out)
      << "Run: hfx operators --markdown > docs/onnx_operators.md";
}

// Which cells are filled is held against the results of the tests, once they have run (models_page).
TEST(Docs, ThePageOfModelsIsWhatHfxPrintsAndListsEveryFamily) {
  const std::string page = testing::read_text("docs/models.md");
  EXPECT_EQ(testing::hfx({"models", "--status"}).out, page);
  for (const auto& entry : nlohmann::json::parse(testing::hfx({"models", "--json"}).out)) {
    const std::string row = "\n| " + entry.at("model_type").get<std::string>() + " |";
    EXPECT_NE(page.find(row), std::string::npos) << row << ": scripts/model_status";
  }
}

// The C++ in a page, each block by itself.
std::vector<std::string> cpp_blocks(const std::string& page) {
  static const std::string kOpen = "```cpp\n";
  std::vector<std::string> blocks;
  for (size_t at = page.find(kOpen); at != std::string::npos; at = page.find(kOpen, at)) {
    at += kOpen.size();
    blocks.push_back(page.substr(at, page.find("```", at) - at));
  }
  return blocks;
}

TEST(Docs, ExamplesInCppAreThoseOfATest) {
  const std::string tested = testing::read_text("tests/onnx/extending_test.cpp");
  size_t count = 0;
  for (const char* page : {"docs/adding_a_patch.md", "docs/adding_a_fix.md", "docs/adding_a_translation.md"}) {
    for (const std::string& block : cpp_blocks(testing::read_text(page))) {
      EXPECT_NE(tested.find(block), std::string::npos) << page << ":\n" << block;
      ++count;
    }
  }
  EXPECT_EQ(count, 6u);
}

}  // namespace
}  // namespace exporters
