// `hfx stages` and `hfx export --explain`.
#include "cli/effects.h"
#include "tests/cli/hfx.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::hfx;
using testing::HfxResult;

TEST(Stages, ArePrintedInOrderWithTheirEntries) {
  const HfxResult result = hfx({"stages", "onnx"});

  ASSERT_EQ(result.code, 0) << result.err;
  size_t last = 0;
  for (const char* title : {"Stage 1: Torch patches", "Stage 2: ONNX patches", "Stage 3: Node fixes",
                            "Stage 4: Translations", "Stage 5: IR fixes"}) {
    const size_t at = result.out.find(title);
    ASSERT_NE(at, std::string::npos) << title;
    EXPECT_GE(at, last);
    last = at;
  }
  EXPECT_THAT(result.out, AllOf(HasSubstr("patch_randperm"), HasSubstr("aten::randperm"), HasSubstr("fix_alias"),
                                HasSubstr("aten.index_put"), HasSubstr("fix_ir_topk_sorted")));
}

TEST(Stages, AsJsonGiveEveryEntryWithItsReason) {
  const HfxResult result = hfx({"stages", "onnx", "--json"});

  ASSERT_EQ(result.code, 0) << result.err;
  const json stages = json::parse(result.out);
  ASSERT_EQ(stages.size(), 5u);
  std::vector<std::string> names;
  for (size_t i = 0; i < stages.size(); ++i) {
    EXPECT_EQ(stages[i].at("number"), i + 1);
    for (const json& entry : stages[i].at("entries")) {
      names.push_back(entry.at("name"));
      EXPECT_TRUE(entry.at("kind") == "translation" || entry.at("reason") != "") << entry;
    }
  }
  EXPECT_THAT(names, AllOf(Contains("patch_cummax"), Contains("patch_make_functional"), Contains("fix_assertions"),
                           Contains("aten.linear"), Contains("fix_ir_gather_nd")));
}

TEST(Stages, OfAnUnknownFormatAreAnError) {
  const HfxResult result = hfx({"stages", "onyx"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("'onyx'"), HasSubstr("onnx")));
}

TEST(Explain, AnExportSaysWhatTookEffect) {
  const testing::TemporaryFolder folder;
  const auto tiny = testing::tiny_checkpoint("BertForSequenceClassification_gelu_0");

  const HfxResult text = hfx({"export", tiny, "--to", "onnx", "-o", folder / "out", "--explain"});
  const HfxResult document = hfx({"export", tiny, "--to", "onnx", "-o", folder / "out", "--explain", "--json"});
  const HfxResult plain = hfx({"export", tiny, "--to", "onnx", "-o", folder / "out", "--json"});

  ASSERT_EQ(text.code, 0) << text.err;
  const json effects = json::parse(document.out).at("effects").at("model");
  EXPECT_FALSE(json::parse(plain.out).contains("effects"));
  // The text tells the same, whichever patches and fixes this model needs.
  EXPECT_THAT(text.out, HasSubstr(effects.empty() ? "model: no patch or fix took effect"
                                                  : "model: patches and fixes that took effect"));
  for (const json& effect : effects) {
    EXPECT_THAT(text.out, HasSubstr(effect.at("name").get<std::string>()));
    EXPECT_EQ(effect.at("places").size(), effect.at("count"));
  }
}

TEST(Explain, NamesNodesAndModulesTheFirstOfMany) {
  EffectLog log;
  for (int i = 0; i < 10; ++i) {
    log.add("node fix", "onnx", "fix_alias", {"alias_" + std::to_string(i), i == 0 ? "" : "encoder.layer"});
  }
  log.add("patch", "onnx", "patch_function", {"", "head"});

  const std::string text = ::hfx::effects_text(log.effects());

  EXPECT_THAT(text, AllOf(HasSubstr("onnx     node fix  fix_alias       10     alias_0 (the root module), "
                                    "alias_1 (encoder.layer)"),
                          HasSubstr("alias_7 (encoder.layer) and 2 more"),
                          HasSubstr("onnx     patch     patch_function  1      head\n")));
  const auto document = ::hfx::effects_json(log.effects());
  EXPECT_EQ(document.at(0).at("places").size(), 10u);
  EXPECT_EQ(document.at(0).at("count"), 10);
  EXPECT_EQ(document.at(1).at("places").at(0).at("module_path"), "head");
  EXPECT_EQ(::hfx::effects_text({}), "no patch or fix took effect\n");
}

}  // namespace
}  // namespace exporters
