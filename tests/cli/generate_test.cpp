// hfx export --generation and hfx generate.
#include "exporters/weights/safetensors.h"
#include "tests/cli/hfx.h"
#include "tests/reference/generation_cases.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::hfx;
using testing::HfxResult;
using ::testing::Not;

class Generate : public ::testing::Test {
 protected:
  HfxResult export_llama(const std::string& format, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"export", llama_, "--to", format, "--generation", "-o", out_};
    args.insert(args.end(), more.begin(), more.end());
    return hfx(args);
  }

  HfxResult generate(const std::string& target, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"generate", target};
    for (const auto& [name, value] : recorded_.settings) {
      args.insert(args.end(), {"--set", name + "=" + value});
    }
    args.insert(args.end(), more.begin(), more.end());
    return hfx(args);
  }

  at::Tensor sequences() { return SafetensorsFile::open(sequences_)->tensor("sequences"); }

  testing::TemporaryFolder folder_;
  std::string llama_ = testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0";
  testing::GenerationCase recorded_ = testing::generation_case(llama_, "greedy");
  std::string out_ = folder_ / "out";
  std::string sequences_ = folder_ / "sequences.safetensors";
};

// Given inputs in a file, when the checkpoint generates and its exports do, then "sequences" are the reference's.
TEST_F(Generate, SequencesAreTheReferencesByEachTarget) {
  const std::string inputs = folder_ / "inputs.safetensors";
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& [name, value] : recorded_.inputs) {
    tensors.emplace_back(name, value.tensor());
  }
  save_safetensors(inputs, tensors);
  for (const char* format : {"", "onnx", "dynamo"}) {
    SCOPED_TRACE(format);
    if (*format != '\0') {
      ASSERT_EQ(export_llama(format).code, 0);
    }
    const HfxResult result = generate(*format == '\0' ? llama_ : out_, {"--inputs", inputs, "-o", sequences_});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(at::equal(sequences(), recorded_.sequences));
  }
}

TEST_F(Generate, IdsAreGivenInlineAndPaddedOnTheLeft) {
  const HfxResult result = hfx({"generate", llama_, "--ids", "[[9, 8, 7], [5]]", "--set", "max_new_tokens=2", "--set",
                                "eos_token_id=null", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document.at("new_tokens"), 2);
  const auto rows = document.at("sequences");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1][0], 0);  // the checkpoint's pad_token_id
  EXPECT_EQ(rows[1][2], 5);
  // The row alone says the same.
  const HfxResult alone =
      hfx({"generate", llama_, "--ids", "5", "--set", "max_new_tokens=2", "--set", "eos_token_id=null", "--json"});
  const auto row = nlohmann::json::parse(alone.out).at("sequences")[0];
  EXPECT_EQ(row[1], rows[1][3]);
  EXPECT_EQ(row[2], rows[1][4]);
}

TEST_F(Generate, ASeedGivesTheSameTokensAgain) {
  const auto draw = [&](const char* seed) {
    const HfxResult result =
        hfx({"generate", llama_, "--ids", "9 8 7", "--set", "do_sample=true", "--set", std::string("seed=") + seed,
             "--set", "max_new_tokens=12", "--set", "eos_token_id=null", "--stream"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(draw("3"), draw("3"));
  EXPECT_NE(draw("3"), draw("4"));
}

TEST_F(Generate, TheFolderHoldsTheGenerationConfigAndSharedWeights) {
  const HfxResult result = export_llama("onnx", {"--json", "--set", "max_new_tokens=3", "--set", "opset_version=20"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto files = nlohmann::json::parse(result.out).at("files");
  EXPECT_LT(files.at("decode.onnx.data").get<uint64_t>(), files.at("prefill.onnx.data").get<uint64_t>() / 4);
  EXPECT_TRUE(files.contains("generation_config.json"));
  const HfxResult generated = hfx({"generate", out_, "--ids", "5, 6", "--json"});
  ASSERT_EQ(generated.code, 0) << generated.err;
  EXPECT_LE(nlohmann::json::parse(generated.out).at("new_tokens").get<int64_t>(), 3);
  EXPECT_EQ(hfx({"inspect", out_}).code, 0);
}

TEST_F(Generate, RangesOfBatchAndSequenceHoldForPromptAndCache) {
  const HfxResult result = export_llama("onnx", {"--batch", "1:2", "--sequence", "1:10"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("batch <= 2"), HasSubstr("sequence <= 10"), HasSubstr("past <= 10")));
  EXPECT_EQ(hfx({"generate", out_, "--ids", "[[5], [6]]", "--set", "max_new_tokens=3"}).code, 0);
  const HfxResult beyond = hfx({"generate", out_, "--ids", "[[5], [6], [7]]", "--set", "max_new_tokens=3"});
  EXPECT_EQ(beyond.code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("batch"));
}

TEST_F(Generate, WrongCallsSayWhatIsRight) {
  const auto error = [](const std::vector<std::string>& args) {
    const HfxResult result = hfx(args);
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  EXPECT_THAT(error({"generate", llama_}), HasSubstr("needs 'input_ids'"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "five"}), HasSubstr("no token ids"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "[[1], []]"}), HasSubstr("list of token ids"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "1.5"}), HasSubstr("whole numbers"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "5", "--inputs", "input_ids=[[5]]"}),
              HasSubstr("given by --inputs and by --ids"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "5", "--set", "max_token=3"}), HasSubstr("has no setting"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "5", "--set", "num_beams=3"}), HasSubstr("beam search"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "1000"}), HasSubstr("input_ids"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "5", "--stream", "--json"}), HasSubstr("choose one"));
  EXPECT_THAT(error({"generate", llama_, "--ids", "5", "-o", "x.npz"}), HasSubstr(".safetensors"));
  EXPECT_THAT(error({"export", llama_, "--to", "onnx", "--merged", "-o", out_}),
              HasSubstr("only an export for generation"));
  EXPECT_THAT(export_llama("onnx", {"--set", "use_cache=false"}).err, HasSubstr("use_cache"));
  EXPECT_THAT(export_llama("onnx", {"--set", "cache_implementation=static"}).err, HasSubstr("max_cache_len"));
  EXPECT_THAT(export_llama("onnx", {"--set", "opset=20"}).err, HasSubstr("opset_version"));
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace exporters
