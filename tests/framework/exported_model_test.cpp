// Export folders of a small backend: what is saved, loaded, called and refused.
#include "exporters/framework/exported_model.h"
#include "exporters/framework/registry.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/log.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/warnings.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <map>
#include <mutex>

namespace exporters {
namespace {

using testing::error_of;

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

// A format whose programs are a line of text; saving one can fail or kill the process half-way.
struct TextProgram : BackendProgram {
  explicit TextProgram(std::string text) : text(std::move(text)) {}
  std::string text;
};

class TextConfig : public DynamoConfig {
 public:
  std::string export_format() const override { return "text"; }
};

class TextExporter : public HfExporter {
 public:
  std::string export_format() const override { return "text"; }
  std::string program_suffix() const override { return ".txt"; }
  std::unique_ptr<ExportConfig> make_config() const override { return std::make_unique<TextConfig>(); }
  ExportedComponent export_program(const ExportSource&, const NamedInputs&, ExportConfig&) const override {
    return {std::make_shared<TextProgram>("exported"), {}, {}};
  }
  void save_program(const BackendProgram& program, const fs::path& file) const override {
    const std::string& text = dynamic_cast<const TextProgram&>(program).text;
    write_file(file, text.substr(0, text.size() / 2));
    ensure(text != "fails", "the disk is full");
    if (text == "is killed") {
      std::raise(SIGKILL);
    }
    write_file(file, text);
    write_file(file.string() + ".side", "side");
  }
  std::shared_ptr<BackendProgram> load_program(const fs::path& file) const override {
    return std::make_shared<TextProgram>(read_text(file));
  }
  std::vector<std::string> program_files(const std::string& file) const override { return {file, file + ".side"}; }
};

// Gives its inputs back.
class EchoRunner : public ModelRunner {
 public:
  explicit EchoRunner(const ExportedComponent&) {}
  PyTree run(const NamedInputs& inputs) override { return PyTree::dict(inputs); }
};

class Mute : public TextExporter {
 public:
  std::string export_format() const override { return "mute"; }
};

class ExportedModelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, [] {
      register_backend<TextExporter, EchoRunner>();
      register_backend<Mute>();
    });
  }

  static ExportedComponent component(const std::string& text, const NamedInputs& inputs = {}) {
    ExportedComponent result{std::make_shared<TextProgram>(text), {}, {}};
    result.metadata.export_dtype = "float16";
    describe_inputs(result.metadata, inputs);
    return result;
  }

  static ExportedModel model(const std::string& text, const std::string& name = "model") {
    ExportedModel::Components components;
    components.emplace_back(name, component(text));
    return ExportedModel("text", std::move(components), R"({"model_type": "bert"})", R"({"max_length": 7})");
  }

  static std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      files[fs::relative(entry.path(), folder)] = read_text(entry.path());
    }
    return files;
  }

  std::vector<std::string> names_in(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const auto& [name, text] : contents(folder)) {
      names.push_back(name);
    }
    return names;
  }

  TemporaryFolder folder_;
};

// ── Saving ──

TEST_F(ExportedModelTest, TheFolderComesBack) {
  model("program").save_pretrained(folder_ / "out");
  const ExportedModel loaded = ExportedModel::from_pretrained(folder_ / "out");

  EXPECT_THAT(names_in(folder_ / "out"),
              ElementsAre("config.json", "export.json", "generation_config.json", "model.txt", "model.txt.side"));
  EXPECT_EQ(dynamic_cast<const TextProgram&>(*loaded.component().program).text, "program");
  EXPECT_EQ(loaded.config()->model_type(), "bert");
  EXPECT_EQ(nlohmann::json::parse(loaded.generation_config_json()).at("max_length"), 7);
  EXPECT_EQ(loaded.dtype(), at::kHalf);
  EXPECT_EQ(loaded.device(), c10::Device(c10::kCPU));
}

TEST_F(ExportedModelTest, AFailedSaveLeavesTheOldFolderWhole) {
  model("program").save_pretrained(folder_ / "out");
  const auto before = contents(folder_ / "out");

  EXPECT_THAT(error_of([&] { model("fails").save_pretrained(folder_ / "out"); }), HasSubstr("disk is full"));

  EXPECT_EQ(contents(folder_ / "out"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(ExportedModelTest, AFailedSecondComponentLeavesTheOldFolderWhole) {
  model("program").save_pretrained(folder_ / "out");
  const auto before = contents(folder_ / "out");
  ExportedModel::Components components;
  components.emplace_back("prefill", component("good"));
  components.emplace_back("decode", component("fails"));

  EXPECT_NE(error_of([&] { ExportedModel("text", components).save_pretrained(folder_ / "out"); }), "no error");

  EXPECT_EQ(contents(folder_ / "out"), before);
}

TEST_F(ExportedModelTest, AKilledSaveLeavesTheOldFolderWholeAndTheNextOneCleansUp) {
  model("program").save_pretrained(folder_ / "out");
  const auto before = contents(folder_ / "out");

  const pid_t child = ::fork();
  if (child == 0) {
    try {
      model("is killed").save_pretrained(folder_ / "out");
    } catch (...) {
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(contents(folder_ / "out"), before);
  model("program").save_pretrained(folder_ / "out");
  EXPECT_EQ(contents(folder_ / "out"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(ExportedModelTest, FilesOfTheEarlierExportGoAndOthersStay) {
  model("program", "decode").save_pretrained(folder_ / "out");
  write_text(folder_ / "out" / "README.md", "mine");
  write_text(folder_ / "out" / "decode.txt.notes", "mine too");
  ExportedModel::Components components;
  components.emplace_back("model", component("second"));

  ExportedModel("text", std::move(components)).save_pretrained(folder_ / "out");

  EXPECT_THAT(names_in(folder_ / "out"),
              ElementsAre("README.md", "decode.txt.notes", "export.json", "model.txt", "model.txt.side"));
}

TEST_F(ExportedModelTest, TheFolderItWasLoadedFromCanBeWrittenAgain) {
  model("program").save_pretrained(folder_ / "out");
  const auto before = contents(folder_ / "out");

  ExportedModel::from_pretrained(folder_ / "out").save_pretrained(folder_ / "out");

  EXPECT_EQ(contents(folder_ / "out"), before);
}

// ── Loading ──

TEST_F(ExportedModelTest, UnknownFormatsListThoseThatThereAre) {
  model("program").save_pretrained(folder_ / "out");
  auto document = nlohmann::json::parse(read_text(folder_ / "out" / "export.json"));
  document["export_format"] = "TEXT";
  write_text(folder_ / "out" / "export.json", document.dump());

  EXPECT_THAT(error_of([&] { ExportedModel::from_pretrained(folder_ / "out"); }),
              AllOf(HasSubstr("'TEXT'"), HasSubstr("text"), HasSubstr("mute")));
}

TEST_F(ExportedModelTest, AMissingSideFileIsNamed) {
  model("program").save_pretrained(folder_ / "out");
  fs::remove(folder_ / "out" / "model.txt.side");

  EXPECT_THAT(error_of([&] { ExportedModel::from_pretrained(folder_ / "out"); }), HasSubstr("model.txt.side"));
}

TEST_F(ExportedModelTest, ExportsWithoutDtypeOrComponentsSaySo) {
  ExportedModel::Components components;
  components.emplace_back("model", ExportedComponent{std::make_shared<TextProgram>("p"), {}, {}});

  EXPECT_THAT(error_of([&] { (void)ExportedModel("text", components).dtype(); }), HasSubstr("dtype"));
  EXPECT_THAT(error_of([&] { (void)ExportedModel("text", {}).dtype(); }), HasSubstr("no components"));
  EXPECT_EQ(ExportedModel("text", components).config(), std::nullopt);
}

// ── Calling ──

TEST_F(ExportedModelTest, InputsThatWereNotTracedAreDroppedWithOneWarning) {
  ExportedModel::Components components;
  components.emplace_back("model", component("p", {{"x", at::ones({2})}}));
  const ExportedModel exported("text", std::move(components));
  testing::Warnings warnings;

  const PyTree first = exported({{"x", at::ones({2})}, {"special_tokens_mask", at::ones({2})}});
  exported({{"x", at::ones({2})}, {"special_tokens_mask", at::ones({2})}});

  EXPECT_EQ(first.spec().keys(), std::vector<std::string>{"x"});
  EXPECT_THAT(warnings.texts, ElementsAre(HasSubstr("'special_tokens_mask'")));
}

TEST_F(ExportedModelTest, ConstantsOfTheTraceMayBeLeftOutOrRepeatedButNotChanged) {
  ExportedModel::Components components;
  components.emplace_back("model",
                          component("p", {{"x", at::ones({2})}, {"negate", true}, {"scale", 2.5}, {"mask", PyTree()}}));
  const ExportedModel exported("text", std::move(components));
  const at::Tensor x = at::ones({2});

  EXPECT_EQ(exported({{"x", x}}).spec().keys(), std::vector<std::string>{"x"});
  EXPECT_EQ(exported({{"x", x}, {"negate", true}, {"scale", 2.5}, {"mask", PyTree()}}).spec().keys(),
            std::vector<std::string>{"x"});
  EXPECT_THAT(error_of([&] {
                exported({{"x", x}, {"negate", false}});
              }),
              AllOf(HasSubstr("negate"), HasSubstr("True"), HasSubstr("False")));
  EXPECT_THAT(error_of([&] { exported({{"x", x}, {"scale", 3.0}}); }), AllOf(HasSubstr("scale"), HasSubstr("2.5")));
  EXPECT_THAT(error_of([&] { exported({{"x", x}, {"mask", x}}); }), AllOf(HasSubstr("mask"), HasSubstr("None")));
}

TEST_F(ExportedModelTest, AnExportWithoutARunnerSaysSoWhenItIsCalled) {
  ExportedModel::Components components;
  components.emplace_back("model", component("p", {{"x", at::ones({2})}}));
  const ExportedModel exported("mute", std::move(components));

  exported.save_pretrained(folder_ / "out");
  EXPECT_THAT(error_of([&] { exported({{"x", at::ones({2})}}); }), AllOf(HasSubstr("'mute'"), HasSubstr("no runner")));
}

// ── The registry ──

TEST_F(ExportedModelTest, ConfigsAndExportersAreFoundByFormat) {
  const auto config = AutoExportConfig::from_dict({{"export_format", "text"}, {"dynamic", true}});

  EXPECT_TRUE(dynamic_cast<DynamoConfig&>(*config).dynamic);
  EXPECT_THAT(error_of([] { AutoExportConfig::from_dict({{"export_format", "onyx"}}); }), HasSubstr("text"));
}

TEST_F(ExportedModelTest, ASecondBackendOfAFormatReplacesTheFirstWithAWarning) {
  testing::Warnings warnings;

  register_backend<Mute>();

  EXPECT_THAT(warnings.texts, ElementsAre(HasSubstr("'mute'")));
}

TEST_F(ExportedModelTest, ABackendThatTakesModelsOnlySaysSo) {
  DynamoConfig config;
  EXPECT_THAT(error_of([&] { TextExporter().export_component(TracedModel(), config); }), HasSubstr("takes models"));
}

// ── What export.json says of the inputs ──

TEST(ExportMetadata, DescribesInputsAsTheReferenceDoes) {
  ExportMetadata metadata;
  const at::Tensor x = at::ones({2, 3});
  describe_inputs(metadata, {{"ids", at::ones({2, 9}, at::kLong)},
                             {"out", PyTree::object("transformers.models.clip.modeling_clip.CLIPOutput",
                                                    {{"embeds", x}, {"states", PyTree::tuple({x})}})},
                             {"pair", PyTree::tuple({x, x})},
                             {"cache", PyTree::node("transformers.cache_utils:DynamicCache", R"({"_t": "obj"})", {x})},
                             {"flag", true},
                             {"nothing", PyTree()}});

  EXPECT_EQ(metadata.to_json().at("kwargs").dump(),
            R"({"ids":{"rank":2,"shape":[2,9],"dtype":"int64"},)"
            R"("out":{"leaves":{"embeds":{"rank":2,"shape":[2,3],"dtype":"float32"},"states":{"container":"tuple"}}},)"
            R"("pair":{"container":"tuple"},"cache":{"container":"DynamicCache"},"flag":{"container":"bool"},)"
            R"("nothing":{"container":"NoneType"}})");
  EXPECT_EQ(metadata.to_json().at("in_constants").dump(), R"({"flag":true,"nothing":null})");
}

}  // namespace
}  // namespace exporters
