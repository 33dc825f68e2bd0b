#pragma once

#include "tests/reference/folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace exporters::testing {

/// A folder of checkpoints of one model type, below the folder of one maker: "encoders/roberta".
class EncoderFamily : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string model_type() { return std::filesystem::path(GetParam()).filename(); }
  /// Every checkpoint, sorted.
  static std::vector<std::filesystem::path> cases() {
    const std::filesystem::path family = GetParam();
    std::vector<std::filesystem::path> found;
    for (const auto& entry :
         std::filesystem::directory_iterator(reference_folder(family.parent_path()) / family.filename())) {
      found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  /// One of each head and config, in float32.
  static std::vector<std::filesystem::path> distinct_cases() {
    std::vector<std::filesystem::path> found = cases();
    std::erase_if(found, [](const std::filesystem::path& path) { return !path.string().ends_with("_0"); });
    return found;
  }
  /// Of the distinct ones, so many that each head and each config is among them.
  static std::vector<std::filesystem::path> covering_cases() {
    std::map<std::string, std::vector<std::filesystem::path>> by_head;
    for (const std::filesystem::path& path : distinct_cases()) {
      by_head[head_and_config(path).first].push_back(path);
    }
    std::vector<std::filesystem::path> found;
    std::set<std::string> configs;
    for (const auto& [head, paths] : by_head) {
      found.push_back(paths[found.size() % paths.size()]);
      configs.insert(head_and_config(found.back()).second);
    }
    for (const std::filesystem::path& path : distinct_cases()) {
      if (configs.insert(head_and_config(path).second).second) {
        found.push_back(path);
      }
    }
    return found;
  }

 private:
  // "BertModel_plain_0"
  static std::pair<std::string, std::string> head_and_config(const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    const size_t first = name.find('_');
    return {name.substr(0, first), name.substr(first + 1, name.rfind('_') - first - 1)};
  }
};

inline auto encoder_families() {
  return ::testing::Values(
      "encoders/roberta", "encoders/xlm-roberta", "encoders/camembert", "encoders/distilbert", "encoders/electra",
      "encoders/mpnet", "encoders/albert", "encoders/deberta-v2", "encoders/modernbert", "vision/vit", "vision/deit",
      "vision/dinov2", "vision/clip", "vision/clip_text_model", "vision/clip_vision_model", "vision/siglip",
      "vision/siglip_text_model", "vision/siglip_vision_model", "speech/wav2vec2", "speech/hubert");
}

inline std::string family_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = std::filesystem::path(info.param).filename();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace exporters::testing
