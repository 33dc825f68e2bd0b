#include "exporters/models/vision.h"

#include "exporters/models/registry.h"
#include "tests/models/recorded.h"
#include "tests/reference/folder.h"

#include <ATen/ops/rand.h>
#include <nlohmann/json.hpp>

namespace exporters::models {
namespace {

using testing::error_of;
using testing::largest_difference;

std::unique_ptr<PreTrainedModel> tiny(const std::string& path) {
  return load(testing::reference_folder("vision") / path);
}

ForwardArgs images(int64_t channels, int64_t height, int64_t width) {
  return {{"pixel_values", at::rand({2, channels, height, width})}};
}

TEST(Vision, ImagesOfAnotherSizeNeedInterpolation) {
  const auto model = tiny("vit/ViTModel_plain_0");
  EXPECT_NE(error_of([&] { (*model)(images(3, 16, 12)); }).find("12x12 (image_size); other sizes need interpolate"),
            std::string::npos);
  ForwardArgs args = images(3, 16, 12);
  args.set("interpolate_pos_encoding", PyTree(true));
  EXPECT_EQ((*model)(args).at("last_hidden_state").tensor().size(1), 1 + 4 * 3);
}

TEST(Vision, AnotherNumberOfChannelsIsAnErrorWithBoth) {
  const auto model = tiny("dinov2/Dinov2Model_plain_0");
  const std::string message = error_of([&] { (*model)(images(1, 12, 12)); });
  EXPECT_NE(message.find("[2, 1, 12, 12], the model takes 3 channels"), std::string::npos) << message;
}

// Resampling to the same grid is no change: one program serves trained and other sizes.
TEST(Vision, PositionsOfTheTrainedSizeStayAsTheyAre) {
  const at::Tensor positions = at::rand({1, 16, 5});
  EXPECT_LE(largest_difference(interpolate_positions(positions, 4, 4), positions), 1e-6);
  EXPECT_NE(error_of([] { interpolate_positions(at::rand({1, 6, 5}), 2, 3); }).find("no square"), std::string::npos);
}

TEST(Vision, ClassicalInputsAreRefusedByName) {
  const auto model = tiny("vit/ViTForMaskedImageModeling_plain_0");
  ForwardArgs args = images(3, 12, 12);
  args.set("bool_masked_pos", at::rand({2, 9}).gt(0.5));
  EXPECT_NE(error_of([&] { (*model)(args); }).find("losses are not computed"), std::string::npos);
  const auto clip = tiny("clip/CLIPModel_plain_0");
  EXPECT_NE(error_of([&] { (*clip)(images(3, 12, 12)); }).find("input_ids are not given"), std::string::npos);
}

struct BadConfig {
  const char* architecture;
  const char* config;
  const char* message;
};

TEST(Vision, ConfigValuesThatMakeNoSenseAreErrors) {
  for (const BadConfig& bad : {
           BadConfig{"ViTModel", R"({"model_type": "vit", "image_size": [8, 8, 8]})", "a height and a width"},
           {"ViTModel", R"({"model_type": "vit", "image_size": 8, "patch_size": 16})", "no patch fits"},
           {"DeiTModel", R"({"model_type": "deit", "patch_size": [0, 4]})", "positive"},
           {"Dinov2Backbone", R"({"model_type": "dinov2", "out_features": ["stage13"]})", "not there"},
           {"Dinov2Backbone", R"({"model_type": "dinov2", "out_indices": [-14]})", "13 stages"},
           {"CLIPModel", R"({"model_type": "clip", "text_config": {"hidden_size": 30}})", "not a multiple"},
           {"CLIPModel", R"({"model_type": "clip", "vision_config": {"hidden_act": "quick_gel"}})", "quick_gelu"},
           {"SiglipVisionModel", R"({"model_type": "siglip_vision_model", "num_channels": 0})", "num_channels"},
       }) {
    SCOPED_TRACE(bad.config);
    const std::string message = error_of([&] {
      const ModelConfig config = ModelConfig::parse(bad.config);
      find(config, {}, bad.architecture).make(config);
    });
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace exporters::models
