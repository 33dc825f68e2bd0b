// How hfx talks: streams, exit codes, messages, help.
#include "exporters/weights/safetensors.h"
#include "tests/cli/hfx.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::hfx;
using testing::HfxResult;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing::TemporaryFolder;

constexpr int kFailed = 1;      // the work could not be done
constexpr int kWrongUsage = 2;  // the command line itself is wrong

fs::path tiny() { return testing::tiny_checkpoint("BertModel_gelu_0"); }

// One paragraph on stderr, which says who speaks and ends like a sentence; nothing on stdout.
void expect_error(const HfxResult& result, const ::testing::Matcher<std::string>& message, int code = kFailed) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(StartsWith("hfx: error: "), message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(result.err.ends_with(".\n") || result.err.ends_with("?\n")) << result.err;
}

class CommandLine : public ::testing::Test {
 protected:
  HfxResult export_with(const std::vector<std::string>& more, const std::string& format = "onnx") const {
    std::vector<std::string> args = {"export", tiny(), "--to", format, "-o", folder_ / "out"};
    args.insert(args.end(), more.begin(), more.end());
    const HfxResult result = hfx(args);
    EXPECT_EQ(fs::exists(folder_ / "out"), result.code == 0) << "a failed export wrote something";
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(CommandLine, AnUnknownFormatListsThoseThereAre) {
  expect_error(export_with({}, "onyx"),
               AllOf(HasSubstr("'onyx'"), HasSubstr("Did you mean 'onnx'"), HasSubstr("dynamo")));
}

TEST_F(CommandLine, AnUnknownCommandOffersNearOnes) {
  expect_error(hfx({"exprt", tiny()}), AllOf(HasSubstr("'exprt'"), HasSubstr("Did you mean 'export'")), kWrongUsage);
  expect_error(hfx({"transmogrify"}), AllOf(HasSubstr("'transmogrify'"), HasSubstr("inspect")), kWrongUsage);
}

TEST_F(CommandLine, EmptyNamesAreRefused) {
  expect_error(hfx({"export", "", "--to", "onnx", "-o", folder_ / "out"}), HasSubstr("SOURCE"));
  expect_error(hfx({"export", tiny(), "--to", "onnx", "-o", ""}), HasSubstr("--output"));
  expect_error(hfx({"run", tiny(), "--inputs", "input_ids=[[1]]", "-o", ""}), HasSubstr("--output"));
}

TEST_F(CommandLine, AnInputIsNoForwardArgument) {
  expect_error(export_with({"--forward", "attention_mask=true"}),
               AllOf(HasSubstr("'attention_mask'"), HasSubstr("--sample")));
}

TEST_F(CommandLine, OneSizeIsNoRange) {
  expect_error(export_with({"--batch", "4"}), AllOf(HasSubstr("--batch 1:4"), HasSubstr("--static")));
}

TEST_F(CommandLine, TheSampleFitsTheAskedRange) {
  EXPECT_EQ(export_with({"--batch", "8:16", "--sequence", "4:6"}).code, 0);
}

TEST_F(CommandLine, AnExportIntoItsOwnCheckpointIsRefused) {
  fs::copy(tiny(), folder_ / "checkpoint", fs::copy_options::recursive);
  const fs::path checkpoint = folder_ / "checkpoint";

  expect_error(hfx({"export", checkpoint, "--to", "onnx", "-o", checkpoint}), HasSubstr("is a checkpoint"));
  EXPECT_FALSE(fs::exists(checkpoint / "export.json"));
}

TEST_F(CommandLine, AnExportOverItsOwnSourceIsRefused) {
  ASSERT_EQ(export_with({}, "dynamo").code, 0);
  const fs::path traced = folder_ / "out";
  for (const fs::path& source : {traced, traced / "model.pt2"}) {
    expect_error(hfx({"export", source, "--to", "onnx", "-o", traced}), HasSubstr("its own source"));
  }
  EXPECT_TRUE(fs::exists(traced / "model.pt2"));
  EXPECT_EQ(hfx({"export", traced, "--to", "onnx", "-o", folder_ / "lowered"}).code, 0);
}

TEST_F(CommandLine, AnExportAsJsonSaysWhatTheProgramTakesAndGives) {
  const HfxResult result = export_with({"--json", "--batch", "1:8"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json model = nlohmann::json::parse(result.out).at("components").at("model");
  EXPECT_EQ(model.at("inputs").at("input_ids"),
            nlohmann::json::parse(R"({"dtype": "int64", "shape": ["batch", "sequence"]})"));
  EXPECT_EQ(model.at("outputs").at("last_hidden_state").at("dtype"), "float32");
  EXPECT_THAT(model.at("conditions").dump(), HasSubstr("batch <= 8"));
}

TEST_F(CommandLine, BothBoundsOfASizeStandTogether) {
  const HfxResult result = export_with({"--batch", "1:8", "--sequence", "2:6"}, "dynamo");
  EXPECT_THAT(result.out, HasSubstr("Sizes: 1 <= batch <= 8, 2 <= sequence <= 6"));
  EXPECT_THAT(result.out, HasSubstr("Exported to " + (folder_ / "out").string()));
}

TEST_F(CommandLine, ACheckpointSaysWhatItIs) {
  const HfxResult result = hfx({"inspect", tiny()});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("BertModel"), HasSubstr("BertForMaskedLM (fill-mask)")));
}

// The cache goes in as its leaves, as it comes out, and as the export of the same model takes it.
TEST_F(CommandLine, ACheckpointRunsWithACache) {
  const fs::path checkpoint = testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0";
  const fs::path first = folder_ / "first.safetensors";
  const HfxResult prefill = hfx({"run", checkpoint, "--inputs", "input_ids=[[3,4,5]]", "-o", first});
  ASSERT_EQ(prefill.code, 0) << prefill.err;
  ASSERT_EQ(hfx({"run", checkpoint, "--inputs", "input_ids=[[3,4,5,6]]", "-o", folder_ / "all.safetensors"}).code, 0);

  const auto file = SafetensorsFile::open(first);
  std::vector<std::pair<std::string, at::Tensor>> inputs = {{"input_ids", at::full({1, 1}, 6, at::kLong)}};
  for (const SafetensorsEntry& entry : file->entries()) {
    if (entry.name.starts_with("past_key_values.")) {
      inputs.emplace_back("cache" + entry.name.substr(std::string("past_key_values").size()), file->tensor(entry));
    } else if (entry.name.starts_with("cache.")) {
      inputs.emplace_back(entry.name, file->tensor(entry));
    }
  }
  ASSERT_GT(inputs.size(), 1U);
  save_safetensors(folder_ / "step.safetensors", inputs);
  const HfxResult step =
      hfx({"run", checkpoint, "--inputs", folder_ / "step.safetensors", "-o", folder_ / "second.safetensors"});
  ASSERT_EQ(step.code, 0) << step.err;

  const auto logits = [&](const char* name) {
    const auto opened = SafetensorsFile::open(folder_ / name);
    return opened->tensor(*opened->find("logits")).select(1, -1).clone();
  };
  // One token after a cache against the whole at once: the order of sums differs.
  EXPECT_TRUE(at::allclose(logits("second.safetensors"), logits("all.safetensors"), 1e-5, 1e-5));
}

TEST_F(CommandLine, OutputsHaveOneFormat) {
  expect_error(hfx({"run", tiny(), "--inputs", "input_ids=[[1]]", "-o", folder_ / "out.npz"}), HasSubstr("out.npz"));
}

TEST_F(CommandLine, AMissingSourceIsNamed) {
  const fs::path missing = folder_ / "nowhere";
  expect_error(hfx({"export", missing, "--to", "onnx", "-o", folder_ / "out"}), HasSubstr(missing));
  expect_error(hfx({"run", missing, "--inputs", "input_ids=[[1]]"}), HasSubstr(missing));
  expect_error(hfx({"inspect", missing}), HasSubstr(missing));
}

TEST_F(CommandLine, AFolderThatIsNoCheckpointIsNamedWithWhatItLacks) {
  expect_error(hfx({"export", folder_.path(), "--to", "onnx", "-o", folder_ / "out"}), HasSubstr("config.json"));
}

TEST_F(CommandLine, ABadFieldOffersNearNames) {
  expect_error(export_with({"--set", "opset_verson=20"}), AllOf(HasSubstr("opset_verson"), HasSubstr("opset_version")));
}

TEST_F(CommandLine, ABadValueSaysWhatIsAllowed) {
  expect_error(export_with({"--set", "opset_version=7"}), AllOf(HasSubstr("opset_version"), HasSubstr("18 to 24")));
  expect_error(export_with({"--set", "optimize=perhaps"}), AllOf(HasSubstr("optimize"), HasSubstr("true or false")));
  expect_error(export_with({"--set", "optimize"}), AllOf(HasSubstr("optimize"), HasSubstr("field=value")));
}

TEST_F(CommandLine, ABadRangeIsNamed) {
  for (const char* range : {"many", "1:many", "-3:4", "4:2", "1:2:3", "99999999999999999999"}) {
    SCOPED_TRACE(range);
    expect_error(export_with({std::string("--batch=") + range}), HasSubstr(range));
  }
}

TEST_F(CommandLine, StaticContradictsARange) {
  expect_error(export_with({"--static", "--batch", "1:4"}), AllOf(HasSubstr("--static"), HasSubstr("--batch")));
  expect_error(export_with({"--static", "--sequence", "1:4"}), AllOf(HasSubstr("--static"), HasSubstr("--sequence")));
}

TEST_F(CommandLine, AnUnknownTaskListsThoseThereAre) {
  expect_error(export_with({"--task", "fill-mosk"}), AllOf(HasSubstr("fill-mosk"), HasSubstr("fill-mask")));
}

TEST_F(CommandLine, AnUnknownDtypeListsThoseThereAre) {
  expect_error(export_with({"--dtype", "int4"}), AllOf(HasSubstr("int4"), HasSubstr("bfloat16")));
}

TEST_F(CommandLine, AnOptionOfOtherFormatsSaysWhich) {
  expect_error(export_with({"--max-dim", "batch=4"}),
               AllOf(HasSubstr("--max-dim"), HasSubstr("onnx"), HasSubstr("executorch")));
}

TEST_F(CommandLine, AnUnknownForwardArgumentIsNamed) {
  expect_error(export_with({"--forward", "output_hiden_states=true"}), HasSubstr("output_hiden_states"));
}

TEST_F(CommandLine, AnUnknownSampleInputIsNamed) {
  expect_error(export_with({"--sample", "inputs_id=[[1, 2]]"}), HasSubstr("inputs_id"));
}

TEST_F(CommandLine, WrongUsageHasACodeOfItsOwn) {
  EXPECT_EQ(hfx({}).code, kWrongUsage);
  EXPECT_EQ(hfx({"convert"}).code, kWrongUsage);
  EXPECT_EQ(hfx({"export", tiny()}).code, kWrongUsage);
  EXPECT_EQ(hfx({"run", tiny()}).code, kWrongUsage);
  EXPECT_EQ(hfx({"models", "--yaml"}).code, kWrongUsage);
  expect_error(hfx({"export", tiny(), "--to", "onnx"}), HasSubstr("--output"), kWrongUsage);
  expect_error(hfx({"inspect", tiny(), "--bach", "4"}), HasSubstr("--bach"), kWrongUsage);
}

// One tiny export for all tests that run it.
class Running : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const TemporaryFolder shared;
    exported_ = shared / "out";
    const HfxResult result = hfx({"export", tiny(), "--to", "onnx", "-o", exported_});
    ASSERT_EQ(result.code, 0) << result.err;
  }
  static HfxResult run(const std::vector<std::string>& inputs) {
    std::vector<std::string> args = {"run", exported_, "--inputs"};
    args.insert(args.end(), inputs.begin(), inputs.end());
    return hfx(args);
  }
  static std::string row(const std::string& name, size_t length) {
    return name + "=[" + json(std::vector<int>(length, 1)).dump() + "]";
  }

  TemporaryFolder folder_;
  static fs::path exported_;
};
fs::path Running::exported_;

TEST_F(Running, EachStreamHasItsPart) {
  const HfxResult result = run({row("input_ids", 3), row("attention_mask", 3), row("token_type_ids", 3)});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("last_hidden_state"), HasSubstr("[1, 3, 24]"), HasSubstr("pooler_output")));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Running, AnExportSaysNothingOnStderrWhenItIsNoTerminal) {
  const HfxResult result = hfx({"export", testing::minilm(), "--to", "onnx", "-o", folder_ / "out"});

  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("last_hidden_state"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Running, OutputsDoNotReplaceInputs) {
  const fs::path file = folder_ / "io.safetensors";
  save_safetensors(file, {{"input_ids", at::full({1, 3}, 1, at::kLong)}});
  const std::string before = testing::read_text(file);

  expect_error(hfx({"run", tiny(), "--inputs", file, "-o", file}),
               AllOf(HasSubstr("--output"), HasSubstr("io.safetensors")));

  EXPECT_EQ(testing::read_text(file), before);
}

TEST_F(Running, MissingInputsAreNamed) {
  expect_error(run({row("input_ids", 3)}), AllOf(HasSubstr("attention_mask"), HasSubstr("token_type_ids")));
}

TEST_F(Running, AnInputOfAnotherTypeIsRefusedWithBothTypes) {
  expect_error(run({"input_ids=[[1.5, 2.0]]", row("attention_mask", 2), row("token_type_ids", 2)}),
               AllOf(HasSubstr("input_ids"), HasSubstr("float32"), HasSubstr("int64")));
}

TEST_F(Running, AnInputOfAnotherRankIsRefused) {
  expect_error(run({"input_ids=[1, 2]", row("attention_mask", 2), row("token_type_ids", 2)}), HasSubstr("input_ids"));
}

TEST_F(Running, InputsWhoseSizesDisagreeAreRefused) {
  expect_error(run({row("input_ids", 3), row("attention_mask", 4), row("token_type_ids", 3)}), HasSubstr("sequence"));
}

// The checkpoint has 16 positions.
TEST_F(Running, ASequenceLongerThanThePositionsIsRefusedWithTheLimit) {
  expect_error(run({row("input_ids", 17), row("attention_mask", 17), row("token_type_ids", 17)}),
               AllOf(HasSubstr("17"), HasSubstr("16")));
  expect_error(hfx({"run", tiny(), "--inputs", row("input_ids", 17)}), AllOf(HasSubstr("17"), HasSubstr("16")));
}

TEST_F(Running, UnevenListsAreRefused) {
  expect_error(run({"input_ids=[[1, 2], [3]]"}), HasSubstr("input_ids"));
  expect_error(run({"input_ids=[[1, 2"}), HasSubstr("input_ids"));
  expect_error(run({"input_ids"}), HasSubstr("name=value"));
}

TEST_F(Running, AnInputGivenTwiceIsRefusedWithBothWords) {
  expect_error(run({row("input_ids", 2), row("input_ids", 3)}),
               AllOf(HasSubstr("'input_ids' is given twice"), HasSubstr("[[1,1]]"), HasSubstr("[[1,1,1]]")));
}

// The checkpoint has 53 tokens. ONNX Runtime by itself takes -1 for the last one.
TEST_F(Running, IdsOutOfRangeAreRefusedByAnExportAsByItsCheckpoint) {
  for (const char* id : {"53", "-1"}) {
    const std::string ids = std::string("input_ids=[[1, ") + id + "]]";
    const HfxResult eager = hfx({"run", tiny(), "--inputs", ids});
    const HfxResult exported = run({ids, row("attention_mask", 2), row("token_type_ids", 2)});

    expect_error(eager, AllOf(HasSubstr(id), HasSubstr("0 to 52 (vocab_size)"), HasSubstr("input_ids")));
    EXPECT_EQ(exported.code, 1);
    EXPECT_EQ(exported.err, eager.err);
  }
}

TEST_F(Running, IdsOutOfRangeAreRefusedByALoneProgramFile) {
  expect_error(hfx({"run", exported_ / "model.onnx", "--inputs", row("input_ids", 2), row("attention_mask", 2),
                    "token_type_ids=[[0, 2]]"}),
               AllOf(HasSubstr("contains 2"), HasSubstr("type_vocab_size")));
}

// ONNX Runtime's Attention has no answer for them.
TEST_F(Running, EmptyInputsAreRefusedWithInputAndAxis) {
  const std::pair<std::vector<int64_t>, const char*> kEmpty[] = {{{0, 3}, "batch is 0 (input_ids axis 0)"},
                                                                 {{2, 0}, "sequence is 0 (input_ids axis 1)"}};
  for (const auto& [shape, message] : kEmpty) {
    const std::string file = folder_ / "empty.safetensors";
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) {
      tensors.emplace_back(name, at::zeros(shape, at::kLong));
    }
    save_safetensors(file, tensors);

    expect_error(run({file}), HasSubstr(message));
  }
}

// ── Damaged exports ──

class DamagedExport : public Running {
 protected:
  fs::path copy_ = folder_ / "copy";

  void SetUp() override { fs::copy(exported_, copy_); }
  // Changes the text of export.json.
  void replace(const std::string& from, const std::string& to) {
    std::string text = testing::read_text(copy_ / "export.json");
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    testing::write_text(copy_ / "export.json", text.replace(at, from.size(), to));
  }
  HfxResult run_copy() {
    return hfx({"run", copy_, "--inputs", row("input_ids", 2), row("attention_mask", 2), row("token_type_ids", 2)});
  }
};

TEST_F(DamagedExport, WeightsCutOffAreSeenByInspect) {
  fs::resize_file(copy_ / "model.onnx.data", fs::file_size(copy_ / "model.onnx.data") / 2);

  for (const fs::path& target : {copy_, copy_ / "model.onnx"}) {
    expect_error(hfx({"inspect", target}), AllOf(HasSubstr("initializer"), HasSubstr("'model.onnx.data'")));
  }
}

TEST_F(DamagedExport, ABrokenOutSpecIsNamedWithFileAndField) {
  replace("\"out_spec\": \"[1", "\"out_spec\": \"[oops");

  expect_error(run_copy(), AllOf(HasSubstr("out_spec"), HasSubstr("export.json")));
}

TEST_F(DamagedExport, AFolderIsNoProgram) {
  replace("\"file\": \"model.onnx\"", "\"file\": \".\"");

  expect_error(run_copy(), AllOf(HasSubstr("export.json"), HasSubstr("'.'"), HasSubstr("that is a folder")));
}

TEST_F(Running, AMissingInputFileIsNamed) {
  const std::string missing = folder_ / "nothing.safetensors";
  expect_error(run({missing}), HasSubstr(missing));
}

TEST_F(Running, OptionsOfCheckpointsAreRefusedForExports) {
  expect_error(hfx({"run", exported_, "--inputs", row("input_ids", 2), "--task", "fill-mask"}), HasSubstr("--task"));
}

TEST_F(Running, JsonIsTheWholeOutputOfEveryCommand) {
  const std::vector<std::vector<std::string>> commands = {
      {"export", tiny(), "--to", "onnx", "-o", folder_ / "out", "--json"},
      {"run", exported_, "--inputs", row("input_ids", 2), row("attention_mask", 2), row("token_type_ids", 2), "--json"},
      {"inspect", exported_, "--json"},
      {"inspect", exported_ / "model.onnx", "--json"},
      {"inspect", tiny(), "--json"},
      {"models", "--json"},
      {"stages", "onnx", "--json"},
      {"--version", "--json"},
  };
  for (const auto& command : commands) {
    SCOPED_TRACE(command.front() + " " + (command.size() > 1 ? command[1] : ""));
    const HfxResult result = hfx(command);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_FALSE(json::parse(result.out, nullptr, /*allow_exceptions=*/false).is_discarded()) << result.out;
    EXPECT_THAT(result.err, IsEmpty());
  }
}

TEST_F(Running, RunDescribesItsOutputsAsJson) {
  const HfxResult result = run({row("input_ids", 2), row("attention_mask", 2), row("token_type_ids", 2), "--json"});

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("last_hidden_state"),
            json::parse(R"({"dtype": "float32", "shape": [1, 2, 24]})"));
}

TEST(Help, ListsTheOptionsOfTheContract) {
  const std::map<std::string, std::vector<std::string>> options = {
      {"export",
       {"SOURCE", "--to", "-o", "--task", "--static", "--batch", "--sequence", "--sample", "--forward", "--set",
        "--dtype", "--explain", "--json"}},
      {"run", {"TARGET", "--inputs", "--forward", "-o", "--json"}},
      {"inspect", {"TARGET", "--json"}},
      {"models", {"--json"}},
  };
  const HfxResult all = hfx({"--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.err, IsEmpty());
  EXPECT_THAT(all.out, HasSubstr("--version"));
  for (const auto& [command, names] : options) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const HfxResult help = hfx({command, "--help"});
    EXPECT_EQ(help.code, 0);
    for (const std::string& name : names) {
      EXPECT_THAT(help.out, HasSubstr(name)) << command;
    }
  }
}

TEST(Help, VersionIsOneLine) {
  const HfxResult result = hfx({"--version"});

  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("hfx [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Help, ModelsListsArchitecturesWithTheirTasks) {
  const json models = json::parse(hfx({"models", "--json"}).out);

  EXPECT_THAT(models, ::testing::Contains(json::parse(
                          R"({"model_type": "bert", "architecture": "BertForMaskedLM", "task": "fill-mask"})")));
}

}  // namespace
}  // namespace exporters
