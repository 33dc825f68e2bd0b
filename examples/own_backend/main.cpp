// A module exported to a format that lives outside of the library, found by its name, and run from the saved folder.
#include "listing_backend.h"

#include <exporters/framework/exported_model.h>
#include <exporters/framework/module_source.h>
#include <exporters/framework/registry.h>

#include <ATen/ops/randn.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace nn = torch::nn;

struct ScorerImpl : nn::Module {
  nn::LayerNorm norm{nn::LayerNormOptions({8})};
  nn::Linear score{8, 2};

  ScorerImpl() {
    register_module("norm", norm);
    register_module("score", score);
  }
  // float32 [batch, length, 8] → float32 [batch, length, 2]
  at::Tensor forward(const at::Tensor& frames) { return score(norm(frames)); }
};
TORCH_MODULE(Scorer);

int main(int argc, char** argv) try {
  using namespace exporters;
  const at::NoGradGuard no_grad;
  Scorer scorer;
  scorer->eval();

  listing::register_listing_backend();
  const auto config = AutoExportConfig::from_dict(
      {{"export_format", "listing"}, {"dynamic_shapes", {{"frames", {{"0", "batch 1:64"}, {"1", "length"}}}}}});
  const std::string folder = argc > 1 ? argv[1] : "own_backend_listing";
  AutoHfExporter::from_config(*config)
      .export_model(export_source(scorer.ptr(), &ScorerImpl::forward), {{"frames", at::randn({2, 5, 8})}}, *config)
      .save_pretrained(folder);

  const ExportedModel exported = ExportedModel::from_pretrained(folder);
  const auto& program = dynamic_cast<const listing::ListingProgram&>(*exported.component().program);
  std::printf("%s", program.text().c_str());
  double largest = 0;
  for (const auto& [batch, length] : {std::pair(1, 1), std::pair(3, 9)}) {
    const at::Tensor frames = at::randn({batch, length, 8});
    const at::Tensor difference = exported({{"frames", frames}}).tensor() - scorer(frames);
    largest = std::max(largest, difference.abs().max().item<double>());
  }
  std::printf("largest difference to eager: %.1e\n", largest);
  return largest <= 1e-6 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
