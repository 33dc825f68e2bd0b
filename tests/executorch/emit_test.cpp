#include "exporters/executorch/emit/reader.h"
#include "exporters/executorch/emit/writer.h"
#include "exporters/support/error.h"
#include "tests/executorch/support.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// One value of every kind.
ProgramBuilder every_kind() {
  ProgramBuilder builder = linear_program(at::randn({3, 2}), at::randn({3}), 4);
  Method& method = builder.method();
  method.input_tree = "(x)";
  method.output_tree = "y";
  method.add(std::monostate());
  method.add(true);
  method.add(-0.5);
  method.add(std::string("text"));
  method.add_ints({1, -2, int64_t{1} << 40});
  method.add(DoubleList{{0.5, 1e300}});
  method.add(BoolList{{true, false}});
  method.add(TensorList{{0, 1}});
  method.add(OptionalTensorList{{-1, 1}});
  method.instructions.emplace_back(MoveCall{3, 0});
  method.instructions.emplace_back(JumpFalseCall{5, 1});
  method.instructions.emplace_back(FreeCall{3});
  const at::Tensor initial = at::arange(4, at::kFloat);
  builder.state("cache", at::kFloat, {4}, &initial);
  method.delegates.push_back({"SomeBackend", builder.program.add_blob(std::string("blob")), {{"key", "value"}}});
  method.instructions.emplace_back(DelegateCall{0, {0, 3}});
  builder.program.add_named_data({"weights", std::string(100, 'w'), 16});
  return builder;
}

struct EmitTest : ::testing::Test {
  std::filesystem::path folder = scratch_folder();
  std::filesystem::path file = folder / "m.pte";

  static std::string bytes_of(const Bytes& bytes) {
    const auto& source = std::get<WeightSource>(bytes);
    return read_bytes(source.file).substr(source.offset, source.nbytes);
  }
};

TEST_F(EmitTest, ReadingGivesWhatWasWritten) {
  ProgramBuilder builder = every_kind();
  for (size_t i = 0; i < builder.method().values.size(); ++i) {  // places by hand: the instructions are no program
    auto* tensor = std::get_if<TensorValue>(&builder.method().values[i]);
    if (tensor != nullptr && !(tensor->constant && tensor->name.empty())) {
      tensor->allocation = Allocation{1, 64 * i};
    }
  }
  builder.method().memory_sizes = {0, 4096};
  save_program(builder.program, file);
  const Program read = read_program(file);
  EXPECT_EQ(read.methods, builder.program.methods);
  ASSERT_EQ(read.constants.size(), 3u);
  const at::Tensor weight = std::get<at::Tensor>(builder.program.constants[0]);
  EXPECT_EQ(std::memcmp(bytes_of(read.constants[0]).data(), weight.const_data_ptr(), weight.nbytes()), 0);
  EXPECT_EQ(bytes_of(read.blobs.at(0)), "blob");
  EXPECT_EQ(read.named_data.at(0).key, "weights");
  EXPECT_EQ(bytes_of(read.named_data.at(0).bytes), std::string(100, 'w'));
}

TEST_F(EmitTest, WritingWhatWasReadGivesTheSameFile) {
  linear_program(at::randn({3, 2}), at::randn({3}), 4).save(file);
  save_program(read_program(file), folder / "again.pte");
  EXPECT_EQ(read_bytes(folder / "again.pte"), read_bytes(file));
}

TEST_F(EmitTest, MethodsAreSortedByName) {
  ProgramBuilder builder = linear_program(at::randn({3, 2}), at::randn({3}), 4);
  plan_memory(builder.program, {&builder.memory, 1});
  Method second = builder.method();
  builder.method().name = "prefill";
  second.name = "decode";
  builder.program.methods.push_back(second);
  save_program(builder.program, file);
  EXPECT_EQ(read_program(file).methods.at(0).name, "decode");
}

TEST_F(EmitTest, TiedConstantsAreStoredOnce) {
  const at::Tensor weight = at::zeros({1000, 100});
  ProgramBuilder builder = linear_program(weight, at::zeros({1000}), 4);
  const int32_t again = builder.constant(weight);
  const int32_t out = builder.activation(at::kFloat, {1000, 100});
  builder.add(again, again, out);
  builder.output(out);
  builder.save(file);
  EXPECT_LT(std::filesystem::file_size(file), weight.nbytes() + 10'000);
}

TEST_F(EmitTest, AConstantInAFileIsCopiedFromThere) {
  const at::Tensor weight = at::randn({3, 2});
  const at::Tensor bias = at::randn({3});
  const std::string bytes(static_cast<const char*>(weight.const_data_ptr()), weight.nbytes());
  write_bytes(folder / "weights.bin", "header!" + bytes + "more");
  ProgramBuilder builder = linear_program(weight, bias, 4);
  builder.program.constants[0] = WeightSource{folder / "weights.bin", "w", 7, bytes.size()};
  builder.save(file);
  linear_program(weight, bias, 4).save(folder / "from_memory.pte");
  EXPECT_EQ(read_bytes(file), read_bytes(folder / "from_memory.pte"));
  EXPECT_EQ(read_bytes(file).find(folder.string()), std::string::npos);
}

TEST_F(EmitTest, AFailedSaveLeavesTheOldFile) {
  ProgramBuilder builder = linear_program(at::randn({3, 2}), at::randn({3}), 4);
  builder.save(file);
  const std::string before = read_bytes(file);
  builder.program.constants[0] = WeightSource{"/nowhere", "w", 0, 24};
  EXPECT_THROW(save_program(builder.program, file), Error);
  EXPECT_EQ(read_bytes(file), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

// 4 GB of weights, as a sparse file: the program's offsets take 64 bits, and neither side reads what it does not use.
TEST_F(EmitTest, ProgramsOverFourGigabytesRun) {
  constexpr int64_t kRows = (int64_t{1} << 20) + 1;
  constexpr int64_t kColumns = 1024;
  const uint64_t nbytes = uint64_t{kRows} * kColumns * sizeof(float);
  const at::Tensor last_row = at::arange(kColumns, at::kFloat);
  const std::filesystem::path weights = folder / "weights.bin";
  write_bytes(weights, "");
  std::filesystem::resize_file(weights, nbytes - last_row.nbytes());
  FILE* appended = fopen(weights.c_str(), "ab");
  ASSERT_EQ(fwrite(last_row.const_data_ptr(), 1, last_row.nbytes(), appended), last_row.nbytes());
  fclose(appended);

  ProgramBuilder builder;
  const int32_t ids = builder.input(at::kLong, {2});
  TensorValue table = tensor_value(at::kFloat, {kRows, kColumns});
  table.constant = builder.program.add_constant(WeightSource{weights, "w", 0, nbytes});
  const int32_t weight = builder.method().add(std::move(table));
  const int32_t out = builder.activation(at::kFloat, {2, kColumns});
  Method& method = builder.method();
  method.call("aten::embedding", "out",
              {weight, ids, method.add(int64_t{-1}), method.add(false), method.add(false), out, out});
  builder.output(out);
  builder.save(file);
  EXPECT_GT(std::filesystem::file_size(file), uint64_t{4} << 30);

  ExecutorchRunner runner(file);
  const at::Tensor rows = runner.run({at::arange(0, kRows, kRows - 1, at::kLong)})[0];
  EXPECT_TRUE(at::equal(rows[0], at::zeros({kColumns})));
  EXPECT_TRUE(at::equal(rows[1], last_row));
}

// ── Programs that make no sense are not written ──

TEST_F(EmitTest, WrongProgramsAreRefusedInWords) {
  struct Case {
    const char* text;
    void (*damage)(Program&);
  };
  const auto tensor = [](Program& program, size_t value) -> TensorValue& {
    return std::get<TensorValue>(program.methods[0].values[value]);
  };
  static const auto tensor_of = tensor;
  const Case cases[] = {
      {"dim order that is no permutation",
       [](Program& p) {
         tensor_of(p, 0).dim_order = {0, 0};
       }},
      {"dim order of another length", [](Program& p) { tensor_of(p, 0).dim_order = {0}; }},
      {"has no number of bytes",
       [](Program& p) {
         tensor_of(p, 0).sizes = {-1, 2};
       }},
      {"its constant has",
       [](Program& p) {
         tensor_of(p, 1).sizes = {3, 3};
       }},
      {"constant that is not there", [](Program& p) { tensor_of(p, 1).constant = 9; }},
      {"leaves its memory area", [](Program& p) { tensor_of(p, 0).allocation->offset = 1 << 20; }},
      {"memory area that is not there", [](Program& p) { tensor_of(p, 0).allocation->memory_id = 7; }},
      {"value that is not there", [](Program& p) { p.methods[0].outputs = {99}; }},
      {"value that is not there", [](Program& p) { p.methods[0].inputs = {-1}; }},
      {"operator that is not there", [](Program& p) { std::get<KernelCall>(p.methods[0].instructions[0]).op = 5; }},
      {"delegate that is not there",
       [](Program& p) {
         p.methods[0].instructions.emplace_back(DelegateCall{0, {}});
       }},
      {"jumps out",
       [](Program& p) {
         p.methods[0].instructions.emplace_back(JumpFalseCall{p.methods[0].add(true), 99});
       }},
      {"jumps out",
       [](Program& p) {
         p.methods[0].instructions.emplace_back(JumpFalseCall{p.methods[0].add(true), -1});
       }},
      {"value that is not there",
       [](Program& p) {
         p.methods[0].instructions.emplace_back(JumpFalseCall{99, 0});
       }},
      {"neither true nor false",
       [](Program& p) {
         p.methods[0].instructions.emplace_back(JumpFalseCall{0, 0});
       }},
      {"value that is not there",
       [](Program& p) {
         p.methods[0].instructions.emplace_back(MoveCall{0, -1});
       }},
      {"one of another kind",
       [](Program& p) {
         p.methods[0].instructions.emplace_back(MoveCall{0, p.methods[0].add(true)});
       }},
      {"int list", [](Program& p) { p.methods[0].add(IntList{{0}}); }},
      {"tensor list", [](Program& p) { p.methods[0].add(TensorList{{-1}}); }},
      {"two methods", [](Program& p) { p.methods.push_back(p.methods[0]); }},
      {"has no name", [](Program& p) { p.methods[0].name.clear(); }},
  };
  ProgramBuilder good = linear_program(at::randn({3, 2}), at::randn({3}), 4);
  good.save(file);
  for (const Case& wrong : cases) {
    Program program = good.program;
    wrong.damage(program);
    EXPECT_THAT(error_of([&] { save_program(program, file); }), HasSubstr(wrong.text));
  }
}

// ── Damaged files ──

struct DamagedFile : EmitTest {
  std::string good;
  std::filesystem::path bad = folder / "bad.pte";

  void SetUp() override {
    linear_program(at::randn({3, 2}), at::randn({3}), 4).save(file);
    good = read_bytes(file);
  }
  std::string refusal(const std::string& bytes) {
    write_bytes(bad, bytes);
    return error_of([&] { read_program(bad); });
  }
  std::string with(size_t at, std::string_view text) {
    std::string bytes = good;
    bytes.replace(at, text.size(), text);
    return bytes;
  }
  template <typename Number>
  std::string with_number(size_t at, Number number) {
    return with(at, {reinterpret_cast<const char*>(&number), sizeof number});
  }
};

TEST_F(DamagedFile, IsRefusedInWords) {
  EXPECT_THAT(refusal(""), HasSubstr("bad.pte"));
  EXPECT_THAT(refusal(good.substr(0, 12)), HasSubstr("too few"));
  EXPECT_THAT(refusal(with(4, "ET13")), AllOf(HasSubstr("'ET13'"), HasSubstr("ET12")));
  EXPECT_THAT(refusal(with(4, "TFL3")), HasSubstr("no ExecuTorch program"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(refusal(with_number(0, uint32_t{0x7fffffff})), HasSubstr("does not hold together"));
  EXPECT_THAT(refusal(with_number(12, uint32_t{5})), HasSubstr("header says"));
  EXPECT_THAT(refusal(with_number(16, ~uint64_t{0})), HasSubstr("states a program"));
  EXPECT_THAT(refusal(with_number(24, ~uint64_t{0})), HasSubstr("segments begin"));
  EXPECT_THAT(refusal(with_number(24, uint64_t{8})), HasSubstr("segments begin"));
  EXPECT_THAT(refusal(with_number(32, ~uint64_t{0})), HasSubstr("truncated"));
}

TEST_F(DamagedFile, JumpsToWhereNoInstructionIsAreRefused) {
  constexpr int32_t kDestination = 59;
  ProgramBuilder builder = linear_program(at::randn({3, 2}), at::randn({3}), 4);
  Method& method = builder.method();
  method.instructions.resize(kDestination, method.instructions.front());
  method.instructions.emplace_back(JumpFalseCall{method.add(true), kDestination});
  builder.save(file);
  good = read_bytes(file);
  std::vector<std::string> refusals;
  for (size_t at = 0; at + 4 <= good.size(); at += 4) {
    int32_t number = 0;
    std::memcpy(&number, good.data() + at, sizeof number);
    for (const int32_t wrong : {-1, kDestination + 2, std::numeric_limits<int32_t>::max()}) {
      if (number == kDestination) {
        refusals.push_back(refusal(with_number(at, wrong)));
      }
    }
  }
  EXPECT_EQ(std::count_if(refusals.begin(), refusals.end(),
                          [](const std::string& text) { return text.find("jumps out") != std::string::npos; }),
            3);
}

TEST_F(DamagedFile, EveryTruncationIsRefused) {
  for (size_t size = 0; size < good.size(); ++size) {
    write_bytes(bad, good.substr(0, size));
    EXPECT_THROW(read_program(bad), Error) << size;
  }
}

// Any byte may be anything: the reader answers with a program that holds together, or an Error.
TEST_F(DamagedFile, AnyByteMayBeWrong) {
  size_t refused = 0;
  const size_t program_size = good.size() - 128;
  for (size_t at = 0; at < program_size; ++at) {
    for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
      write_bytes(bad, with(at, {&value, 1}));
      try {
        check(read_program(bad));
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, program_size / 4);
}

}  // namespace
}  // namespace exporters::executorch
