#include "exporters/onnx/emit/external_data.h"
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/emit/writer.h"
#include "exporters/support/error.h"
#include "tests/onnx/support.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> values(const OnnxTensor& tensor) {
  const std::string& bytes = std::get<InlineBytes>(tensor.data).bytes;
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

const OnnxTensor& initializer(const OnnxModel& model, std::string_view name) {
  for (const OnnxTensor& tensor : model.graph.initializers) {
    if (tensor.name == name) {
      return tensor;
    }
  }
  throw std::runtime_error("no such initializer");
}

OnnxModel foreign_model() { return read_model(EXPORTERS_TEST_DATA "/onnx/typed_fields.onnx"); }

TEST(OnnxReader, ReadsEveryWayToStoreTensorValues) {
  const OnnxModel model = foreign_model();
  EXPECT_THAT(values<float>(initializer(model, "floats")), ElementsAre(1.5f, -2.0f, 0.25f));
  EXPECT_THAT(values<double>(initializer(model, "doubles")), ElementsAre(1e300, -1.0));
  EXPECT_THAT(values<int64_t>(initializer(model, "longs")), ElementsAre(-1, int64_t{1} << 40));
  EXPECT_THAT(values<int32_t>(initializer(model, "ints")), ElementsAre(-7, 7));
  EXPECT_THAT(values<uint8_t>(initializer(model, "bytes")), ElementsAre(0, 128, 255));
  EXPECT_THAT(values<uint8_t>(initializer(model, "bools")), ElementsAre(1, 0));
  EXPECT_THAT(values<uint16_t>(initializer(model, "halves")), ElementsAre(0x3800, 0x7bff));
  EXPECT_THAT(values<int16_t>(initializer(model, "raw_shorts")), ElementsAre(1, 2, 3, 4));
}

TEST(OnnxReader, ReadsHeaderNodesAndAttributes) {
  const OnnxModel model = foreign_model();
  EXPECT_EQ(model.ir_version, 10);
  EXPECT_EQ(model.opset(), 20);
  EXPECT_EQ(model.opset("my.domain"), 1);
  EXPECT_EQ(model.producer_name, "maker");
  EXPECT_THAT(model.functions, ElementsAre("my.domain::Custom"));
  EXPECT_THAT(model.metadata, ElementsAre(std::pair<std::string, std::string>("key", "value")));
  const OnnxNode& custom = model.graph.nodes.at(1);
  EXPECT_THAT(custom.inputs, ElementsAre("y", "", "floats"));
  EXPECT_EQ(std::get<int64_t>(custom.attribute("number")->data), 3);
  EXPECT_EQ(std::get<float>(custom.attribute("ratio")->data), 0.5f);
  EXPECT_EQ(std::get<std::string>(custom.attribute("text")->data), "héllo");
  EXPECT_THAT(std::get<std::vector<int64_t>>(custom.attribute("numbers")->data), ElementsAre(1, -2));
  EXPECT_THAT(std::get<std::vector<float>>(custom.attribute("ratios")->data), ElementsAre(0.5f, 1.0f));
  EXPECT_THAT(std::get<std::vector<std::string>>(custom.attribute("texts")->data), ElementsAre("a", "b"));
  EXPECT_THAT(values<float>(std::get<OnnxTensor>(custom.attribute("value")->data)), ElementsAre(4.0f));
  const auto& branch = std::get<std::shared_ptr<OnnxGraph>>(model.graph.nodes.at(0).attribute("else_branch")->data);
  EXPECT_EQ(branch->nodes.at(0).op_type, "Neg");
}

TEST(OnnxReader, ReadsShapesWithNumbersNamesAndUnknowns) {
  const OnnxModel model = foreign_model();
  const OnnxValueInfo& x = model.graph.inputs.at(1);
  EXPECT_EQ(x.dtype, OnnxType::kFloat);
  EXPECT_THAT(*x.dims, ElementsAre(OnnxDim("n"), OnnxDim(int64_t{4}), OnnxDim()));
  EXPECT_FALSE(model.graph.outputs.at(0).dims.has_value());
}

TEST(OnnxReader, WhatItReadItWritesBack) {
  OnnxModel model = foreign_model();
  model.functions.clear();
  const std::string once = serialize(model);
  const OnnxModel again = parse_model(once);
  EXPECT_EQ(serialize(again), once);
  EXPECT_THAT(*again.graph.inputs.at(0).dims, ElementsAre());
  EXPECT_THAT(*again.graph.inputs.at(1).dims, ElementsAre(OnnxDim("n"), OnnxDim(int64_t{4}), OnnxDim()));
}

// Every prefix and every damaged byte: an error or a model, never a crash (the sanitizer build watches).
TEST(OnnxReader, SurvivesTruncationAndDamage) {
  const std::string good = read_bytes(EXPORTERS_TEST_DATA "/onnx/typed_fields.onnx");
  int refused = 0;
  for (size_t n = 0; n < good.size(); ++n) {
    try {
      parse_model(std::string_view(good).substr(0, n));
    } catch (const Error&) {
      ++refused;
    }
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ flip);
      try {
        parse_model(bad);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(good.size()));
}

TEST(OnnxReader, NestingIsBounded) {
  // graph { node { attribute { g { node { attribute { g … } } } } } }, innermost first.
  std::string bytes;
  for (int depth = 0; depth < 200; ++depth) {
    for (unsigned char tag : {0x32, 0x2a, 0x0a}) {  // AttributeProto.g, NodeProto.attribute, GraphProto.node
      std::string wrapped(1, static_cast<char>(tag));
      for (size_t n = bytes.size(); true; n >>= 7) {
        wrapped += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
        if (n <= 0x7f) break;
      }
      bytes = wrapped + bytes;
    }
  }
  std::string model("\x08\x0a\x3a", 3);
  for (size_t n = bytes.size(); true; n >>= 7) {
    model += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    if (n <= 0x7f) break;
  }
  EXPECT_THROW(parse_model(model + bytes), Error);
}

TEST(OnnxReader, NamesOtherKindsOfFiles) {
  const auto folder = scratch_folder();
  write_bytes(folder / "a.onnx", "PK\x03\x04 and more");
  EXPECT_THAT(error_of([&] { read_model(folder / "a.onnx"); }), HasSubstr("zip archive"));
  write_bytes(folder / "b.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:00");
  EXPECT_THAT(error_of([&] { read_model(folder / "b.onnx"); }), HasSubstr("Git LFS pointer"));
  write_bytes(folder / "c.onnx", "");
  EXPECT_THAT(error_of([&] { read_model(folder / "c.onnx"); }), HasSubstr("empty"));
  EXPECT_THAT(error_of([&] { read_model(folder / "none.onnx"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { read_model(folder); }), HasSubstr("it is a folder"));
}

TEST(OnnxReader, LeavesOutBytesItIsToldNotToKeep) {
  const OnnxModel model = read_model(EXPORTERS_TEST_DATA "/onnx/typed_fields.onnx", {.keep_inline_bytes = 12});
  EXPECT_EQ(std::get<OmittedBytes>(initializer(model, "doubles").data).nbytes, 16u);
  EXPECT_EQ(values<float>(initializer(model, "floats")).size(), 3u);
}

struct ExternalDataCheck : ::testing::Test {
  std::filesystem::path folder = scratch_folder();

  std::string error_with(StoredBytes stored) {
    const OnnxModel model = linear_model(std::move(stored));
    return error_of([&] { check_external_data(model, folder); });
  }
  void SetUp() override {
    write_bytes(folder / "w.bin", std::string(24, '\0'));
    write_bytes(folder.parent_path() / "outside.bin", std::string(24, '\0'));
  }
  void TearDown() override { std::filesystem::remove(folder.parent_path() / "outside.bin"); }
};

TEST_F(ExternalDataCheck, AcceptsExactDataWithAndWithoutLength) {
  check_external_data(linear_model(StoredBytes{"w.bin", 0, 24}), folder);
  check_external_data(linear_model(StoredBytes{"w.bin", 0, std::nullopt}), folder);
}

TEST_F(ExternalDataCheck, RefusesWhatLeavesTheFolder) {
  EXPECT_THAT(error_with({"../outside.bin", 0, 24}), HasSubstr("outside the model's folder"));
  EXPECT_THAT(error_with({(folder / "w.bin").string(), 0, 24}), HasSubstr("outside the model's folder"));
  EXPECT_THAT(error_with({"", 0, 24}), HasSubstr("outside the model's folder"));
  std::filesystem::create_symlink("../outside.bin", folder / "link.bin");
  EXPECT_THAT(error_with({"link.bin", 0, 24}), HasSubstr("a link that leaves"));
}

TEST_F(ExternalDataCheck, RefusesMissingShortAndDisagreeingData) {
  EXPECT_THAT(error_with({"gone.bin", 0, 24}), AllOf(HasSubstr("'w'"), HasSubstr("gone.bin")));
  EXPECT_THAT(error_with({"w.bin", 4, 24}), AllOf(HasSubstr("offset 4"), HasSubstr("only 24 bytes")));
  EXPECT_THAT(error_with({"w.bin", ~uint64_t{0}, 24}), HasSubstr("only 24 bytes"));
  EXPECT_THAT(error_with({"w.bin", 0, 20}), AllOf(HasSubstr("states 20"), HasSubstr("needs 24")));
}

TEST(OnnxTensorSize, OverflowAndNegativeDimsHaveNone) {
  const int64_t big = int64_t{1} << 40;
  EXPECT_FALSE((OnnxTensor{"t", OnnxType::kFloat, {big, big}, {}}).expected_bytes());
  EXPECT_FALSE((OnnxTensor{"t", OnnxType::kFloat, {-1}, {}}).expected_bytes());
  EXPECT_EQ((OnnxTensor{"t", OnnxType::kInt4, {3}, {}}).expected_bytes(), 2u);
}

struct ExternalDataLayout : ::testing::Test {
  std::filesystem::path folder = scratch_folder();
  std::string source_file = (folder / "source.bin").string();

  OnnxGraph graph(const std::vector<std::pair<uint64_t, int64_t>>& ranges) {
    OnnxGraph graph;
    for (const auto& [offset, nbytes] : ranges) {
      OnnxTensor tensor{"t" + std::to_string(graph.initializers.size()), OnnxType::kUint8, {nbytes}, {}};
      tensor.data = WeightSource{source_file, "", offset, static_cast<uint64_t>(nbytes)};
      graph.initializers.push_back(std::move(tensor));
    }
    return graph;
  }
  static StoredBytes place(const OnnxGraph& graph, size_t i) {
    return std::get<StoredBytes>(graph.initializers.at(i).data);
  }
  static void write_data(OnnxGraph& graph, const std::filesystem::path& path) {
    AtomicFile file(path);
    write_external_data(lay_out_external_data(graph, path.filename().string()), file);
    file.commit();
  }
};

TEST_F(ExternalDataLayout, KeepsOffsetsModuloABlockAndMergesNeighbours) {
  OnnxGraph g = graph({{20000, 300}, {10, 4000}, {4010, 500}});
  const ExternalData data = lay_out_external_data(g, "m.onnx.data");
  EXPECT_EQ(data.pieces.size(), 2u);
  EXPECT_EQ(place(g, 1).offset % 4096, 10u);
  EXPECT_EQ(place(g, 2).offset, place(g, 1).offset + 4000);
  EXPECT_EQ(place(g, 0).offset % 4096, 20000u % 4096);
  EXPECT_EQ(data.size, place(g, 0).offset + 300);
}

TEST_F(ExternalDataLayout, TiedWeightsAreStoredOnce) {
  OnnxGraph g = graph({{64, 256}, {64, 256}});
  const at::Tensor shared = at::arange(100, at::kInt);
  for (const char* name : {"a", "b"}) {
    g.initializers.push_back({name, OnnxType::kInt32, {100}, shared});
  }
  const ExternalData data = lay_out_external_data(g, "m.onnx.data");
  EXPECT_EQ(data.pieces.size(), 2u);
  EXPECT_EQ(place(g, 0).offset, place(g, 1).offset);
  EXPECT_EQ(place(g, 2).offset, place(g, 3).offset);
}

TEST_F(ExternalDataLayout, RefusesSourcesOfAnotherSize) {
  OnnxGraph g = graph({{0, 16}});
  g.initializers[0].dims = {15};
  EXPECT_THAT(error_of([&] { lay_out_external_data(g, "d"); }), AllOf(HasSubstr("16 bytes"), HasSubstr("need 15")));
}

TEST_F(ExternalDataLayout, CopiesTheRightBytes) {
  std::string content(30000, '\0');
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>(i * 7 + i / 256);
  }
  write_bytes(source_file, content);
  OnnxGraph g = graph({{20000, 10000}, {10, 4000}});
  g.initializers.push_back({"mem", OnnxType::kInt64, {3}, at::arange(3)});
  write_data(g, folder / "d");
  const std::string written = read_bytes(folder / "d");
  EXPECT_EQ(written.substr(place(g, 0).offset, 10000), content.substr(20000, 10000));
  EXPECT_EQ(written.substr(place(g, 1).offset, 4000), content.substr(10, 4000));
  EXPECT_EQ(written.substr(place(g, 2).offset), std::string("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 24));
}

TEST_F(ExternalDataLayout, HolesOfASparseCheckpointStayHoles) {
  const uint64_t size = uint64_t{40} << 30;
  write_bytes(source_file, "header");
  ASSERT_EQ(truncate(source_file.c_str(), static_cast<off_t>(size)), 0);
  OnnxGraph g = graph({{6, static_cast<int64_t>(size - 6)}});
  write_data(g, folder / "d");
  struct stat info {};
  ASSERT_EQ(stat((folder / "d").c_str(), &info), 0);
  EXPECT_EQ(static_cast<uint64_t>(info.st_size), size);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

TEST_F(ExternalDataLayout, AShortSourceIsAnError) {
  write_bytes(source_file, "short");
  OnnxGraph g = graph({{0, 16}});
  EXPECT_THAT(error_of([&] { write_data(g, folder / "d"); }),
              AllOf(HasSubstr("source.bin"), HasSubstr("bytes 0 to 16"), HasSubstr("has 5 bytes")));
  EXPECT_FALSE(std::filesystem::exists(folder / "d"));
}

TEST(OnnxWriter, RefusesTensorsWithoutAPlace) {
  EXPECT_THAT(error_of([] { serialize(linear_model(at::arange(6))); }), HasSubstr("initializer 'w'"));
}

TEST(OnnxWriter, SavingTwiceGivesTheSameFilesAndNothingElse) {
  const auto folder = scratch_folder();
  const at::Tensor weight = at::arange(6, at::kFloat);
  save_model(linear_model(weight), folder / "m.onnx");
  const std::string model = read_bytes(folder / "m.onnx");
  const std::string data = read_bytes(folder / "m.onnx.data");
  save_model(linear_model(weight), folder / "m.onnx");
  EXPECT_EQ(read_bytes(folder / "m.onnx"), model);
  EXPECT_EQ(read_bytes(folder / "m.onnx.data"), data);
  EXPECT_EQ(data.size(), 24u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  EXPECT_EQ(model.find(folder.string()), std::string::npos);
}

TEST(OnnxWriter, AFailedSaveLeavesTheOldPair) {
  const auto folder = scratch_folder();
  save_model(linear_model(at::arange(6, at::kFloat)), folder / "m.onnx");
  const std::string model = read_bytes(folder / "m.onnx");
  EXPECT_THROW(save_model(linear_model(WeightSource{"/nowhere", "", 0, 24}), folder / "m.onnx"), Error);
  EXPECT_EQ(read_bytes(folder / "m.onnx"), model);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
}

TEST(IrVersion, FollowsTheOpset) {
  EXPECT_EQ(ir_version_for_opset(18), 8);
  EXPECT_EQ(ir_version_for_opset(21), 10);
  EXPECT_EQ(ir_version_for_opset(23), 11);
  EXPECT_THAT(error_of([] { ir_version_for_opset(99); }), HasSubstr("opset 99"));
}

}  // namespace
}  // namespace exporters::onnx
