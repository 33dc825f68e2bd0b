#pragma once

#include "tests/reference/folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
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
