#include "tests/models/recorded.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters::testing {

Recorded::Recorded(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  for (const SafetensorsEntry& entry : file->entries()) {
    if (entry.name.starts_with("in.")) {
      args.set(entry.name.substr(3), file->tensor(entry));
    } else if (entry.name.starts_with("out.")) {
      outputs.emplace(entry.name.substr(4), file->tensor(entry));
    }
  }
  const auto flags = nlohmann::json::parse(file->metadata().at("flags"));
  for (const auto& [name, value] : flags.items()) {
    args.set(name, PyTree(value.get<bool>()));
  }
  type = file->metadata().at("class");
  const auto fields = nlohmann::json::parse(file->metadata().at("keys"));
  for (const auto& key : fields) {
    keys.push_back(key.is_string() ? key.get<std::string>() : key.dump());
  }
}

double largest_difference(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_EQ(actual.sizes(), expected.sizes());
  EXPECT_EQ(actual.scalar_type(), expected.scalar_type());
  if (actual.sizes() != expected.sizes()) {
    return std::numeric_limits<double>::infinity();
  }
  if (actual.numel() == 0) {
    return 0;
  }
  const at::Tensor difference = actual.to(at::kFloat).sub(expected.to(at::kFloat)).abs();
  return at::max(difference).item().toDouble();
}

void expect_recorded(const PyTree& output, const Recorded& recorded, double tolerance) {
  const bool is_tuple = recorded.type == "tuple";
  EXPECT_EQ(output.type(), is_tuple ? "builtins.tuple" : recorded.type);
  if (is_tuple) {
    EXPECT_EQ(output.children().size(), recorded.keys.size());
  } else {
    EXPECT_EQ(output.spec().keys(), recorded.keys);
  }
  const auto tensors = output.tensors();
  EXPECT_EQ(tensors.size(), recorded.outputs.size());
  for (const auto& [path, tensor] : tensors) {
    const auto expected = recorded.outputs.find(path);
    ASSERT_NE(expected, recorded.outputs.end()) << path;
    EXPECT_LE(largest_difference(tensor, expected->second), tolerance) << path;
  }
}

std::filesystem::path reference_models() { return reference_folder("models"); }

std::vector<std::filesystem::path> recordings(const std::filesystem::path& folder, std::string_view prefix) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".safetensors")) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace exporters::testing
