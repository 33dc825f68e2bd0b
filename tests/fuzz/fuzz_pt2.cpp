// Any bytes as a .pt2 archive: an Error, or a program that is printed, and that loads again once it was saved.
//
// Checksums keep mutations of an archive from its content. Input that does not begin as an archive does is therefore
// the texts of one, with a line of kNextEntry between them: the program, the weights' config, the constants' config;
// its files of weights hold the same few bytes each. Texts stay JSON in every second mutation, of which some values are
// others.
#include "exporters/pt2/load.h"
#include "exporters/pt2/save.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/weights/zip_writer.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/memory_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using exporters::Error;
using exporters::ExportedProgram;
using exporters::testing::MemoryFile;

namespace {

constexpr std::string_view kNextEntry = "\n====\n";
constexpr int kWeightFiles = 8;
constexpr size_t kWeightBytes = 512;

std::vector<std::string_view> split(std::string_view texts) {
  std::vector<std::string_view> parts;
  for (size_t end = 0; end != std::string_view::npos;
       texts.remove_prefix(std::min(end + kNextEntry.size(), texts.size()))) {
    end = texts.find(kNextEntry);
    parts.push_back(texts.substr(0, end));
    if (end == std::string_view::npos) {
      break;
    }
  }
  return parts;
}

std::string archive_of(std::string_view texts) {
  std::vector<std::pair<std::string, std::string>> entries = {{"m/archive_format", "pt2"},
                                                              {"m/archive_version", "0"},
                                                              {"m/byteorder", "little"},
                                                              {"m/.data/version", "6\n"},
                                                              {"m/data/sample_inputs/model.pt", ""}};
  constexpr const char* kNames[] = {"m/models/model.json", "m/data/weights/model_weights_config.json",
                                    "m/data/constants/model_constants_config.json", "m/extra/exporters_cpp.json"};
  const std::vector<std::string_view> parts = split(texts);
  for (size_t i = 0; i < parts.size() && i < std::size(kNames); ++i) {
    entries.emplace_back(kNames[i], parts[i]);
  }
  for (int i = 0; i < kWeightFiles; ++i) {
    entries.emplace_back("m/data/weights/weight_" + std::to_string(i), std::string(kWeightBytes, '\0'));
    entries.emplace_back("m/data/constants/tensor_" + std::to_string(i), std::string(kWeightBytes, '\0'));
  }
  return exporters::zip_text(entries);
}

std::shared_ptr<ExportedProgram> loaded(const std::filesystem::path& path) {
  try {
    return exporters::load_pt2(path);
  } catch (const Error& error) {
    FUZZ_CHECK(std::string_view(error.what()).size() < 8'000);
    return nullptr;
  }
}

// What can be read is not always written: strings among the outputs, for one.
bool saved(const ExportedProgram& program, const std::filesystem::path& path) {
  try {
    exporters::save_pt2(program, path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// ── Mutations that keep the JSON ──

using Json = nlohmann::json;

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (Json& child : value) {
      collect(child, all);
    }
  }
}

Json strange_value(std::mt19937& random) {
  const std::vector<Json> values = {nullptr,
                                    true,
                                    0,
                                    1,
                                    -1,
                                    2,
                                    77,
                                    INT64_MAX,
                                    INT64_MIN,
                                    UINT64_MAX,
                                    0.5,
                                    1e300,
                                    "",
                                    "s0",
                                    "u0",
                                    "Symbol('s0', integer=True)",
                                    "torch.ops.aten.add.Tensor",
                                    Json::array(),
                                    Json::object(),
                                    Json{{"as_none", true}},
                                    Json{{"as_int", 3}},
                                    Json{{"as_tensors", Json::array()}}};
  return values[random() % values.size()];
}

// One value becomes a strange one, or that of another place; or it goes, or is there twice.
void mutate(Json& root, std::mt19937& random) {
  std::vector<Json*> all;
  collect(root, all);
  Json& value = *all[random() % all.size()];
  const Json other = *all[random() % all.size()];
  switch (random() % 5) {
    case 0:
      value = strange_value(random);
      break;
    case 1:
      value = other;
      break;
    case 2:
      if (value.is_structured() && !value.empty()) {
        auto gone = value.begin();
        std::advance(gone, random() % value.size());
        value.erase(gone);
      }
      break;
    case 3:
      if (value.is_array()) {
        value.insert(value.begin() + static_cast<std::ptrdiff_t>(random() % (value.size() + 1)), other);
      }
      break;
    default:
      if (value.is_number_integer()) {
        value = value.get<int64_t>() / 2 + static_cast<int64_t>(random() % 5);
      } else if (value.is_array() && value.size() > 1) {
        std::swap(value[random() % value.size()], value[random() % value.size()]);
      }
  }
}

std::string mutated(std::string_view texts, std::mt19937& random) {
  std::vector<std::string_view> parts = split(texts);
  const size_t chosen = random() % 4 != 0 ? 0 : random() % parts.size();
  std::string result;
  for (size_t i = 0; i < parts.size(); ++i) {
    result += i == 0 ? std::string_view() : kNextEntry;
    Json json = i == chosen ? Json::parse(parts[i], nullptr, /*allow_exceptions=*/false) : Json();
    if (i != chosen || json.is_discarded()) {
      result += parts[i];
      continue;
    }
    for (unsigned count = 1 + random() % 3; count > 0; --count) {
      mutate(json, random);
    }
    result += json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return result;
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (random() % 2 == 0 || input.starts_with("PK")) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const std::string result = mutated(input, random);
  if (result.size() > max_size) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::memcpy(data, result.data(), result.size());
  return result.size();
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  exporters::set_log_level(exporters::LogLevel::kOff);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string archive = input.starts_with("PK") ? std::string(input) : archive_of(input);
  const MemoryFile file(reinterpret_cast<const uint8_t*>(archive.data()), archive.size());
  const auto program = loaded(file.path());
  if (program == nullptr) {
    return 0;
  }
  FUZZ_CHECK(!program->str().empty());
  const std::filesystem::path again = file.path().native() + ".again";
  if (saved(*program, again)) {
    try {
      exporters::load_pt2(again);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n%s\n", error.what(), program->str().c_str());
      FUZZ_CHECK(false);
    }
    std::filesystem::remove(again);
  }
  return 0;
}
