// What `hfx export` leaves on the disk.
#include "tests/cli/hfx.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <map>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::hfx;
using ::testing::Not;
using testing::read_text;
using testing::TemporaryFolder;

class Export : public ::testing::Test {
 protected:
  fs::path export_as(const std::string& name, const fs::path& checkpoint) {
    const auto result = hfx({"export", checkpoint, "--to", "onnx", "-o", folder_ / name});
    EXPECT_EQ(result.code, 0) << result.err;
    return folder_ / name;
  }

  const fs::path tiny_ = testing::tiny_checkpoint("BertForSequenceClassification_gelu_0");
  TemporaryFolder folder_;
};

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    files[fs::relative(entry.path(), folder)] = read_text(entry.path());
  }
  return files;
}

TEST_F(Export, TheFolderHoldsProgramWeightsManifestAndConfig) {
  const fs::path out = export_as("out", tiny_);

  std::vector<std::string> names;
  for (const auto& [name, text] : contents(out)) {
    names.push_back(name);
  }
  EXPECT_THAT(names, ElementsAre("config.json", "export.json", "model.onnx", "model.onnx.data"));
}

TEST_F(Export, TwiceGivesTheSameBytes) {
  const auto first = contents(export_as("first", tiny_));
  const auto second = contents(export_as("second", tiny_));

  ASSERT_EQ(first.size(), second.size());
  for (const auto& [name, text] : first) {
    EXPECT_TRUE(second.at(name) == text) << name;
  }
}

TEST_F(Export, ACopyOfTheCheckpointElsewhereGivesTheSameBytes) {
  fs::create_directories(folder_ / "other place");
  fs::copy(tiny_, folder_ / "other place" / "copy");

  const auto original = contents(export_as("first", tiny_));
  const auto copy = contents(export_as("second", folder_ / "other place" / "copy"));

  for (const auto& [name, text] : original) {
    EXPECT_TRUE(copy.at(name) == text) << name;
  }
}

// Weights are random bytes; what hfx says itself stands in the other files.
TEST_F(Export, NoFileNamesAPathOrUserOfThisMachine) {
  const fs::path out = export_as("out", tiny_);

  std::vector<std::string> secrets = {tiny_.string(), folder_.path().string(), fs::current_path().string(), "/home/"};
  if (const passwd* user = ::getpwuid(::getuid()); user != nullptr) {
    secrets.emplace_back(user->pw_dir + std::string("/"));
  }
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof(host) - 1), 0);
  if (std::string_view(host).size() > 4) {
    secrets.emplace_back(host);
  }
  for (const auto& [name, text] : contents(out)) {
    for (const std::string& secret : secrets) {
      EXPECT_EQ(text.find(secret), std::string::npos) << name << " names " << secret;
    }
  }
}

TEST_F(Export, AFailedExportLeavesTheOldOneAlone) {
  const fs::path out = export_as("out", tiny_);
  const auto before = contents(out);

  const auto failed = hfx({"export", tiny_, "--to", "onnx", "-o", out, "--batch", "4:2"});

  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(contents(out), before);
}

TEST_F(Export, AnEmptyRangeIsRefused) {
  for (const char* axis : {"--batch", "--sequence"}) {
    const auto failed = hfx({"export", tiny_, "--to", "onnx", "-o", folder_ / "out", axis, ""});
    EXPECT_EQ(failed.code, 1);
    EXPECT_NE(failed.err.find("'' is no range"), std::string::npos) << failed.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Export, ASecondExportReplacesTheFirst) {
  const fs::path out = export_as("out", tiny_);
  const auto once = contents(out);

  export_as("out", testing::tiny_checkpoint("BertModel_gelu_0"));
  EXPECT_NE(contents(out), once);
  export_as("out", tiny_);

  EXPECT_EQ(contents(out), once);
}

TEST_F(Export, DynamicAxesHaveNames) {
  const fs::path out = export_as("out", tiny_);

  const auto inspected = hfx({"inspect", out, "--json"});

  ASSERT_EQ(inspected.code, 0) << inspected.err;
  const json model = json::parse(inspected.out).at("model");
  for (const char* input : {"input_ids", "attention_mask", "token_type_ids"}) {
    EXPECT_EQ(model.at("inputs").at(input), json::parse(R"({"dtype": "int64", "shape": ["batch", "sequence"]})"));
  }
  EXPECT_EQ(model.at("outputs").at("logits"), json::parse(R"({"dtype": "float32", "shape": ["batch", 2]})"));
}

TEST_F(Export, StaticFixesEverySizeToTheSample) {
  const auto exported = hfx(
      {"export", tiny_, "--to", "onnx", "-o", folder_ / "out", "--static", "--sample", "input_ids=[[1,2,3],[4,5,6]]"});
  ASSERT_EQ(exported.code, 0) << exported.err;

  const auto inspected = hfx({"inspect", folder_ / "out", "--json"});

  ASSERT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_EQ(json::parse(inspected.out).at("model").at("inputs"),
            json::parse(R"({"input_ids": {"dtype": "int64", "shape": [2, 3]}})"));
}

TEST_F(Export, TheOpsetIsTheOneAskedFor) {
  for (const char* opset : {"20", "23"}) {
    const auto exported =
        hfx({"export", tiny_, "--to", "onnx", "-o", folder_ / "out", "--set", std::string("opset_version=") + opset});
    ASSERT_EQ(exported.code, 0) << exported.err;
    const json facts = json::parse(hfx({"inspect", folder_ / "out", "--json"}).out).at("model").at("facts");
    EXPECT_EQ(facts.at("opset"), opset);
  }
}

TEST_F(Export, OptionsThatContradictEachOtherAreRefused) {
  const auto error = [&](const std::string& format, std::vector<std::string> options) {
    std::vector<std::string> words = {"export", tiny_, "--to", format, "-o", folder_ / "out"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = hfx(words);
    EXPECT_NE(result.code, 0);
    return result.err;
  };
  EXPECT_THAT(error("onnx", {"--merged", "--separate"}), HasSubstr("--separate"));
  EXPECT_THAT(error("onnx", {"--static", "--set", "dynamic=true"}), HasSubstr("say the same thing twice"));
  EXPECT_THAT(error("onnx", {"--set", "opset_version=20", "opset_version=21"}), HasSubstr("'opset_version' twice"));
  EXPECT_THAT(error("onnx", {"--set", "quantization_block_size=64"}), HasSubstr("set quantization to int8 or int4"));
  EXPECT_THAT(error("onnx", {"--eval"}), HasSubstr("always traced in evaluation mode"));
  EXPECT_THAT(error("onnx", {"--generation"}), HasSubstr("BertForSequenceClassification does not generate"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Export, ALinkToNothingYetIsFollowed) {
  fs::create_symlink("behind", folder_ / "link");
  export_as("link", tiny_);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(fs::exists(folder_ / "behind/model.onnx"));
}

// The shell's limit is in blocks of 512 bytes.
TEST_F(Export, AFileThatIsTooLargeForTheLimitLeavesNothing) {
  const auto result = testing::shell("ulimit -f 20; hfx export '" + fs::absolute(tiny_).string() + "' --to onnx -o out",
                                     folder_.path());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

}  // namespace
}  // namespace exporters
