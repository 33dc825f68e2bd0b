#include "exporters/weights/checkpoint.h"

#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;
using testing::write_text;

const fs::path kData = fs::path(EXPORTERS_TEST_DATA) / "weights";

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

void save(const fs::path& path, std::initializer_list<std::pair<const char*, double>> values) {
  Tensors tensors;
  for (const auto& [name, value] : values) {
    tensors.emplace_back(name, at::full({2}, value));
  }
  fs::create_directories(path.parent_path());
  save_safetensors(path, tensors);
}

void write_index(const fs::path& folder, std::string_view weight_map) {
  write_text(folder / "model.safetensors.index.json",
             R"({"metadata": {"total_size": 16}, "weight_map": )" + std::string(weight_map) + "}");
}

double value(const Checkpoint& checkpoint, std::string_view name) {
  return checkpoint.load(name).tensor[0].item<double>();
}

std::string error_of(const fs::path& path) {
  try {
    Checkpoint::open(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Collects what is logged while it lives.
class Messages {
 public:
  explicit Messages(LogLevel level = LogLevel::kWarning) : level_(log_level()) {
    set_log_level(level);
    set_log_sink([this](LogLevel, std::string_view text) { texts.emplace_back(text); });
  }
  ~Messages() {
    set_log_sink({});
    set_log_level(level_);
  }
  std::vector<std::string> texts;

 private:
  LogLevel level_;
};

TEST(CheckpointTest, AFolderWithOneFile) {
  TemporaryFolder folder;
  save(folder / "model.safetensors", {{"b", 2}, {"a", 1}});

  Checkpoint checkpoint = Checkpoint::open(folder.path());

  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
  EXPECT_EQ(value(checkpoint, "b"), 2);
  EXPECT_THAT(checkpoint.files(), ElementsAre(folder / "model.safetensors"));
  EXPECT_EQ(checkpoint.nbytes(), 16u);
  EXPECT_TRUE(checkpoint.contains("a"));
  EXPECT_FALSE(checkpoint.contains("c"));
}

TEST(CheckpointTest, ALoadedTensorKnowsItsFileAndOffset) {
  TemporaryFolder folder;
  save(folder / "model.safetensors", {{"a", 1}, {"b", 2}});

  StateTensor b = Checkpoint::open(folder.path()).load("b");

  ASSERT_TRUE(b.source.has_value());
  EXPECT_EQ(b.source->file, fs::canonical(folder / "model.safetensors").native());
  EXPECT_EQ(b.source->key, "b");
  EXPECT_EQ(testing::read_text(b.source->file).substr(b.source->offset, b.source->nbytes),
            std::string("\0\0\0\x40\0\0\0\x40", 8));
}

TEST(CheckpointTest, TheFileItselfCanBeGiven) {
  TemporaryFolder folder;
  save(folder / "other.safetensors", {{"a", 1}});
  EXPECT_EQ(value(Checkpoint::open(folder / "other.safetensors"), "a"), 1);
}

TEST(CheckpointTest, ShardsWithAnIndex) {
  TemporaryFolder folder;
  save(folder / "model-00001-of-00002.safetensors", {{"a", 1}});
  save(folder / "parts/model-00002-of-00002.safetensors", {{"b", 2}});
  write_index(folder.path(),
              R"({"a": "model-00001-of-00002.safetensors", "b": "parts/model-00002-of-00002.safetensors"})");

  Checkpoint checkpoint = Checkpoint::open(folder.path());

  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
  EXPECT_EQ(value(checkpoint, "a"), 1);
  EXPECT_EQ(value(checkpoint, "b"), 2);
  EXPECT_EQ(checkpoint.files().size(), 2u);
}

// The hub's cache: every file of the snapshot is a link to a blob with a name that says nothing.
TEST(CheckpointTest, TheLayoutOfTheHubCache) {
  TemporaryFolder folder;
  fs::copy(kData / "hub_ckpt" / "blobs", folder / "blobs");
  fs::path snapshot = folder / "snapshots/0123abcd";
  fs::create_directories(snapshot);
  auto link = [&](const std::string& name, char blob) {
    fs::create_symlink("../../blobs/" + std::string(63, '0') + blob, snapshot / name);
  };
  for (char i = '1'; i <= '6'; ++i) {
    link("model-0000" + std::string(1, i) + "-of-00006.safetensors", static_cast<char>(i + 1));
  }
  link("model.safetensors.index.json", '8');

  Checkpoint checkpoint = Checkpoint::open(snapshot);

  EXPECT_EQ(checkpoint.names().size(), 21u);
  EXPECT_EQ(checkpoint.nbytes(), 90752u);
  // The value that the safetensors package reads there.
  EXPECT_NEAR(checkpoint.load("lm_head.weight").tensor.sum().item<double>(), 0.4538245021524858, 1e-4);
  EXPECT_EQ(checkpoint.load("lm_head.weight").source->file,
            fs::canonical(folder / "blobs" / (std::string(63, '0') + '7')).native());
  EXPECT_EQ(checkpoint.files().front(), snapshot / "model-00001-of-00006.safetensors");
}

TEST(CheckpointTest, ABlobMissingFromTheHubCacheIsNamed) {
  TemporaryFolder folder;
  fs::create_symlink("blobs/0123", folder / "model.safetensors");
  EXPECT_THAT(error_of(folder.path()),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("link to 'blobs/0123', which does not exist")));
}

// transformers looks for the single file first.
TEST(CheckpointTest, OneFileCountsWhereAStaleIndexLiesBesideIt) {
  TemporaryFolder folder;
  save(folder / "model.safetensors", {{"a", 1}});
  write_index(folder.path(), R"({"a": "model-00001-of-00002.safetensors"})");
  Messages messages(LogLevel::kInfo);

  Checkpoint checkpoint = Checkpoint::open(folder.path());

  EXPECT_EQ(value(checkpoint, "a"), 1);
  EXPECT_THAT(messages.texts, ElementsAre(HasSubstr("the single file is used")));
}

TEST(CheckpointTest, MissingShardsAreNamed) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}});
  write_index(folder.path(), R"({"a": "one.safetensors", "b": "two.safetensors", "c": "three.safetensors"})");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("2 of the 3 shards that '" + (folder / "model.safetensors.index.json").native() +
                        "' names are missing: 'three.safetensors', 'two.safetensors'"));
}

TEST(CheckpointTest, AnEmptyShardIsDamage) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}});
  write_text(folder / "two.safetensors", "");
  write_index(folder.path(), R"({"a": "one.safetensors", "b": "two.safetensors"})");
  EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr("two.safetensors' is damaged"), HasSubstr("empty (0 bytes)")));
}

TEST(CheckpointTest, ATensorOfTheIndexThatIsNowhereIsAnError) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}});
  write_index(folder.path(), R"({"a": "one.safetensors", "b": "one.safetensors"})");
  EXPECT_THAT(error_of(folder.path()),
              AllOf(HasSubstr("names tensors that no shard holds: 'b'"), HasSubstr("should be in 'one.safetensors'")));
}

// As transformers loads it.
TEST(CheckpointTest, ATensorInAnotherShardThanTheIndexSaysIsTakenFromThere) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}, {"b", 2}});
  save(folder / "two.safetensors", {{"c", 3}});
  write_index(folder.path(), R"({"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"})");
  Messages messages;

  EXPECT_EQ(value(Checkpoint::open(folder.path()), "b"), 2);
  EXPECT_THAT(messages.texts, ElementsAre(AllOf(HasSubstr("other shards"), HasSubstr("'b'"))));
}

// As transformers loads it.
TEST(CheckpointTest, ATensorThatTheIndexDoesNotListIsPartOfTheCheckpoint) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}, {"b", 2}});
  write_index(folder.path(), R"({"a": "one.safetensors"})");
  Messages messages;

  EXPECT_EQ(value(Checkpoint::open(folder.path()), "b"), 2);
  EXPECT_THAT(messages.texts, ElementsAre(AllOf(HasSubstr("does not list"), HasSubstr("'b'"))));
}

TEST(CheckpointTest, OfTwoShardsWithOneTensorTheIndexChooses) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}});
  save(folder / "two.safetensors", {{"a", 2}, {"b", 3}});
  write_index(folder.path(), R"({"a": "two.safetensors", "b": "two.safetensors", "c": "one.safetensors"})");
  save(folder / "one.safetensors", {{"a", 1}, {"c", 4}});
  EXPECT_EQ(value(Checkpoint::open(folder.path()), "a"), 2);
}

TEST(CheckpointTest, TwoShardsWithOneTensorThatTheIndexDoesNotPlaceAreAnError) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}, {"x", 1}});
  save(folder / "two.safetensors", {{"b", 2}, {"x", 2}});
  write_index(folder.path(), R"({"a": "one.safetensors", "b": "two.safetensors"})");
  EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr("'x' is in two shards"), HasSubstr("names neither")));
}

struct BadIndex {
  const char* text;
  const char* message;
};

TEST(CheckpointTest, AnIndexThatIsNoneIsRefused) {
  TemporaryFolder folder;
  save(folder / "in/one.safetensors", {{"a", 1}});
  save(folder / "one.safetensors", {{"a", 1}});
  std::string absolute = R"({"weight_map": {"a": ")" + (folder / "one.safetensors").native() + R"("}})";
  const BadIndex kCases[] = {
      {R"({"weight_map": {"a": "../one.safetensors"}})", "'../one.safetensors' of tensor 'a'"},
      {R"({"weight_map": {"a": "sub/../../one.safetensors"}})", "leaves the folder with '..'"},
      {absolute.c_str(), "is an absolute path"},
      {R"({"weight_map": {"a": ""}})", "is empty"},
      {R"({"weight_map": {"a": "..\\one.safetensors"}})", "has a character"},
      {R"({"weight_map": {"a": "one.safetensors", "a": "one.safetensors"}})", "the key 'a' appears twice"},
      {R"({"weight_map": {"a": 1}})", "'weight_map.a'"},
      {R"({"weight_map": {}})", "at least one tensor"},
      {R"({"weight_map": ["one.safetensors"]})", "at least one tensor"},
      {R"({"weights_map": {"a": "one.safetensors"}})", "Did you mean 'weights_map'?"},
      {R"([])", "must be an object"},
      {R"({"weight_map": {"a": "one.safe)", "is not valid JSON"},
      {R"(version https://git-lfs.github.com/spec/v1)", "is not valid JSON"},
  };
  for (const BadIndex& bad : kCases) {
    SCOPED_TRACE(bad.text);
    write_text(folder / "in/model.safetensors.index.json", bad.text);
    EXPECT_THAT(error_of(folder / "in"), AllOf(HasSubstr(bad.message), HasSubstr("model.safetensors.index.json")));
  }
}

struct NoWeights {
  const char* file;
  const char* message;
};

TEST(CheckpointTest, AFolderWithoutSafetensorsSaysWhatItHas) {
  const NoWeights kCases[] = {{"pytorch_model.bin", "convert them with transformers"},
                              {"pytorch_model.bin.index.json", "convert them with transformers"},
                              {"model.fp16.safetensors", "It has 'model.fp16.safetensors': give that file itself"},
                              {"model-q4.gguf", "GGUF"},
                              {"tf_model.h5", "TensorFlow"},
                              {"readme.md", "Give the folder that has"}};
  for (const NoWeights& none : kCases) {
    TemporaryFolder folder;
    write_text(folder / none.file, "x");
    EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr("No model.safetensors"), HasSubstr(none.message)));
  }
  TemporaryFolder empty;
  EXPECT_THAT(error_of(empty.path()), HasSubstr("The folder is empty"));
  EXPECT_THAT(error_of(empty / "nowhere"), HasSubstr("No such file"));
}

TEST(CheckpointTest, LoadingANameItDoesNotHaveSuggestsNearOnes) {
  TemporaryFolder folder;
  save(folder / "model.safetensors", {{"encoder.weight", 1}});
  Checkpoint checkpoint = Checkpoint::open(folder.path());
  try {
    checkpoint.load("encoder.wieght");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.hint(), HasSubstr("'encoder.weight'"));
  }
}

TEST(CheckpointTest, DefaultDtypeIsTheFirstFloatingOneByName) {
  TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", {{"a", at::arange(2)},
                                                  {"b", at::full({2}, 1.0, at::kFloat8_e4m3fn)},
                                                  {"c", at::full({2}, 1.0, at::kBFloat16)},
                                                  {"d", at::full({2}, 1.0)}});
  EXPECT_EQ(Checkpoint::open(folder.path()).default_dtype(), at::kBFloat16);
}

TEST(CheckpointTest, DefaultDtypeMayBeSaidByTheIndex) {
  TemporaryFolder folder;
  save(folder / "one.safetensors", {{"a", 1}});
  write_text(folder / "model.safetensors.index.json",
             R"({"metadata": {"dtype": "float16"}, "weight_map": {"a": "one.safetensors"}})");
  EXPECT_EQ(Checkpoint::open(folder.path()).default_dtype(), at::kHalf);
}

}  // namespace
}  // namespace exporters
