// Damaged archives and other files: tests/reference/make_pt2_cases.py.
#include "exporters/pt2/load.h"
#include "exporters/support/json.h"
#include "tests/pt2/recorded.h"
#include "tests/reference/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <nlohmann/json.hpp>

#include <chrono>

namespace exporters {
namespace {

using ::testing::AllOf;
using testing::difference;
using testing::error_of;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

fs::path folder() { return testing::reference_folder("pt2_cases"); }
fs::path damaged(const std::string& kind, int number) {
  return folder() / "damage" / (kind + "_" + std::to_string(number) + ".pt2");
}
std::vector<std::string> kinds(const char* which) {
  return read_json(folder() / "damage" / "kinds.json")[which].get<std::vector<std::string>>();
}
std::string error(const fs::path& file) {
  return error_of([&] { load_pt2(file); });
}

uint64_t peak_memory() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) << 10;
}

// No kind of damage loads, takes long or takes much memory, and each message names the file.
TEST(LoadPt2Damage, IsRefusedInBoundedTimeAndMemory) {
  load_pt2(damaged("good", 0));
  const uint64_t before = peak_memory();
  for (const std::string& kind : kinds("damaged")) {
    for (const int number : {0, 1}) {
      if (kind == "no_range") {
        continue;  // below
      }
      const auto start = std::chrono::steady_clock::now();
      const std::string message = error(damaged(kind, number));
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << kind;
      EXPECT_NE(message, "no error") << kind << number;
      EXPECT_THAT(message, HasSubstr(kind)) << "the file's name";
    }
  }
  EXPECT_LT(peak_memory() - before, uint64_t{256} << 20);
}

TEST(LoadPt2Damage, MessagesSayWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"schema_major_99", "schema 99."},
      {"schema_major_7", "Export the model again"},
      {"unknown_op", "no operator 'mylib.secret.default'"},
      {"unknown_function", "os.system"},
      {"cyclic", "which nothing before it gives"},
      {"no_nodes", "which nothing before it gives"},
      {"defined_twice", "something before it gives too"},
      {"no_meta", "tensor_values says nothing"},
      {"bad_guard", "__import__('os')"},
      {"unknown_guard_input", "is no argument of the program"},
      {"custom_object", "only a pickle holds"},
      {"no_archive_version", "'archive_version'"},
      {"other_archive_version", "archive version '1'"},
      {"big_endian", "byte order 'big'"},
      {"no_program", "holds no program"},
      {"deep_json", "nests JSON values deeper"},
      {"weight_gone", "lacks its entry 'data/weights/weight_0'"},
      {"weight_empty", "exported from fake tensors"},
      {"weights_config_gone", "model_weights_config.json"},
      {"weights_not_listed", "not in the program's state"},
      {"pickled_weight", "pickles are never read"},
      {"weight_elsewhere", "is no name of an entry"},
      {"weight_huge", "larger than any memory"},
      {"parent_path", "leads out of the archive"},
      {"absolute_path", "leads out of the archive"},
      {"bomb", "without compression"},
      {"json_bomb", "at most"},
      {"cut_in_half", "may be cut off"},
      {"bitflip_weight", "checksum"},
      {"bitflip_program", "checksum"},
  };
  for (const auto& [kind, words] : expected) {
    for (const int number : {0, 1}) {
      EXPECT_THAT(error(damaged(kind, number)), HasSubstr(words)) << kind;
    }
  }
}

TEST(LoadPt2Damage, WhatIsOddAndGoodLoads) {
  const std::string inputs[] = {"linear", "tied_by_passing"};
  for (const std::string& kind : kinds("harmless")) {
    for (const int number : {0, 1}) {
      const fs::path io = folder() / "programs" / inputs[number] / "io_0.safetensors";
      EXPECT_LE(difference(load_pt2(damaged(kind, number)), io), 1e-6) << kind << number;
    }
  }
}

// Python loads these without ranges too; any size is taken then.
TEST(LoadPt2Damage, ProgramsWithoutRangesTakeEverySize) {
  for (const int number : {0, 1}) {
    const auto program = load_pt2(damaged("no_range", number));
    for (const auto& [symbol, range] : program->range_constraints) {
      EXPECT_EQ(range, (Range{0, Range::kMax})) << symbol;
    }
  }
}

TEST(LoadPt2OtherFiles, AreNamed) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"saved.pt2", "a file of torch.save"}, {"script.pt2", "a TorchScript archive"},
      {"weights.pt2", "a safetensors file"}, {"page.pt2", "a web page"},
      {"old.pt2", "an older PyTorch"},
  };
  for (const auto& [file, what] : expected) {
    EXPECT_THAT(error(folder() / "other" / file), AllOf(HasSubstr("is no .pt2 archive"), HasSubstr(what)));
  }
  EXPECT_THAT(error(folder() / "other" / "missing.pt2"), HasSubstr("missing.pt2"));
  EXPECT_THAT(error(folder()), HasSubstr("regular file"));
}

}  // namespace
}  // namespace exporters
