// The file that a program is saved into.
#include "exporters/pt2/load.h"
#include "exporters/pt2/save.h"
#include "exporters/support/error.h"
#include "exporters/trace/trace.h"
#include "exporters/weights/safetensors.h"
#include "exporters/weights/zip_archive.h"
#include "tests/support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace exporters {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

Tensor in(const NamedInputs& inputs, size_t i) { return inputs.at(i).second.tensor(); }

TraceRequest linear_of(std::vector<TracedState> state) {
  TraceRequest request;
  request.module_class = "Sample";
  request.state = std::move(state);
  request.inputs = {{"x", at::randn({2, 6})}};
  request.forward = [state = request.state](const NamedInputs& inputs) {
    Tensor sum = in(inputs, 0);
    for (const TracedState& each : state) {
      sum = at::linear(sum, each.tensor);
    }
    return PyTree(sum);
  };
  request.dynamic_shapes = {{"x", {{1, Dim::Static()}}}};
  return request;
}

uint64_t entry_size(const ZipArchive& archive, std::string_view name) {
  const ZipEntry* entry = archive.find(name);
  return entry == nullptr ? UINT64_MAX : entry->size;
}

size_t count_weights(const ZipArchive& archive) {
  return static_cast<size_t>(
      std::count_if(archive.entries().begin(), archive.entries().end(),
                    [](const ZipEntry& each) { return each.name.find("data/weights/weight_") != std::string::npos; }));
}

// Given a checkpoint, then the archive holds its bytes, and neither its path nor any other of this machine.
TEST(SavePt2, CopiesWeightsFromTheirFile) {
  TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", {{"fc.weight", at::randn({6, 6})}});
  const auto checkpoint = SafetensorsFile::open(folder / "model.safetensors");
  const SafetensorsEntry& entry = checkpoint->entries().at(0);
  const ExportedProgram program =
      trace(linear_of({{"fc.weight", checkpoint->tensor(entry), false, true, checkpoint->source(entry)}}));

  save_pt2(program, folder / "model.pt2");

  const std::string archive = read_text(folder / "model.pt2");
  const std::string weights = read_text(folder / "model.safetensors").substr(entry.offset, entry.nbytes);
  EXPECT_NE(archive.find(weights), std::string::npos);
  EXPECT_EQ(archive.find(folder.path().string()), std::string::npos);
  EXPECT_EQ(archive.find(std::filesystem::current_path().string()), std::string::npos);
  const auto loaded = load_pt2(folder / "model.pt2");
  EXPECT_TRUE(loaded->state.at("fc.weight").tensor.equal(checkpoint->tensor(entry)));
}

TEST(SavePt2, TheSameProgramGivesTheSameBytesUnderAnyName) {
  TemporaryFolder folder;
  const Tensor weight = at::randn({6, 6});
  const TraceRequest request = linear_of({{"weight", weight}});
  save_pt2(trace(request), folder / "one.pt2");
  save_pt2(trace(request), folder / "another.pt2");
  EXPECT_EQ(read_text(folder / "one.pt2"), read_text(folder / "another.pt2"));
}

// Tied weights and overlapping views are written once, and only what tensors cover: of a storage of 1,000,000 floats
// two pieces.
TEST(SavePt2, SharedBytesAreWrittenOnceAndUnusedOnesNot) {
  TemporaryFolder folder;
  const Tensor storage = at::randn({1'000'000});
  const Tensor first = storage.narrow(0, 500, 36).view({6, 6});
  const Tensor overlapping = storage.narrow(0, 518, 36).view({6, 6});
  const Tensor apart = storage.narrow(0, 900'000, 36).view({6, 6});

  save_pt2(trace(linear_of({{"a", first}, {"tied", first}, {"b", overlapping}, {"c", apart}})), folder / "x.pt2");

  const ZipArchive archive = ZipArchive::open(folder / "x.pt2");
  EXPECT_EQ(count_weights(archive), 2u);
  EXPECT_EQ(entry_size(archive, "archive/data/weights/weight_0"), (36 + 18) * sizeof(float));
  EXPECT_EQ(entry_size(archive, "archive/data/weights/weight_1"), 36 * sizeof(float));
  const auto loaded = load_pt2(folder / "x.pt2");
  EXPECT_TRUE(loaded->state.at("b").tensor.equal(overlapping));
  EXPECT_EQ(loaded->state.at("a").tensor.const_data_ptr(), loaded->state.at("tied").tensor.const_data_ptr());
}

TEST(SavePt2, StateWithoutDataIsRefusedAndTheOldFileStays) {
  TemporaryFolder folder;
  write_text(folder / "x.pt2", "old");
  ExportedProgram program = trace(linear_of({{"weight", at::randn({6, 6})}}));
  program.state.at("weight").tensor = at::zeros({6, 6}, at::TensorOptions().device(at::kMeta));
  try {
    save_pt2(program, folder / "x.pt2");
    FAIL() << "was saved";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'weight'"));
    EXPECT_THAT(error.what(), HasSubstr("has no data"));
  }
  EXPECT_EQ(read_text(folder / "x.pt2"), "old");
}

TEST(SavePt2, ACheckpointThatBecameShorterIsRefused) {
  TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", {{"weight", at::randn({6, 6})}});
  const auto checkpoint = SafetensorsFile::open(folder / "model.safetensors");
  const SafetensorsEntry& entry = checkpoint->entries().at(0);
  const ExportedProgram program =
      trace(linear_of({{"weight", checkpoint->tensor(entry), false, true, checkpoint->source(entry)}}));
  write_text(folder / "model.safetensors", "cut off");

  EXPECT_THROW(save_pt2(program, folder / "x.pt2"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "x.pt2"));
}

TEST(SavePt2, OutputsThatPythonCannotReadAreRefused) {
  TemporaryFolder folder;
  TraceRequest request = linear_of({});
  request.forward = [](const NamedInputs& inputs) {
    return PyTree::tuple({PyTree(in(inputs, 0)), PyTree(std::string("text"))});
  };
  try {
    save_pt2(trace(request), folder / "x.pt2");
    FAIL() << "was saved";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("output 1"));
  }
}

}  // namespace
}  // namespace exporters
