// A module of your own, exported to ONNX with a batch and a length that stay dynamic, and run from the saved folder.
#include "speech_encoder.h"

#include <exporters/framework/exported_model.h>
#include <exporters/framework/module_source.h>
#include <exporters/onnx/exporter.h>

#include <algorithm>
#include <cstdio>

using at::Tensor;

int main(int argc, char** argv) try {
  using namespace exporters;
  const torch::NoGradGuard no_grad;
  torch::manual_seed(0);
  SpeechEncoder encoder;
  encoder->eval();

  // ── The export ──
  const std::string folder = argc > 1 ? argv[1] : "own_module_onnx";
  onnx::register_onnx_backend();
  onnx::OnnxConfig config;
  config.dynamic_shapes = {{"mel", {{0, Dim::named("batch")}, {1, Dim::named("length")}}}};
  onnx::OnnxExporter()
      .export_model(export_source(encoder.ptr(), &SpeechEncoderImpl::forward), {{"mel", torch::randn({2, 40, kMels})}},
                    config)
      .save_pretrained(folder);

  // ── The check, at sizes that the trace has not seen ──
  constexpr double kTolerance = 1e-4;  // float32 sums in another order, through two layers
  const ExportedModel exported = ExportedModel::from_pretrained(folder);
  double largest = 0;
  for (const auto& [batch, length] : {std::pair(1, 40), std::pair(3, 1), std::pair(4, 777)}) {
    const Tensor mel = torch::randn({batch, length, kMels});
    const double difference = (exported({{"mel", mel}}).tensor() - encoder(mel)).abs().max().item<double>();
    std::printf("batch %d, length %3d: largest difference to eager %.1e\n", batch, length, difference);
    largest = std::max(largest, difference);
  }
  if (!(largest <= kTolerance)) {
    std::printf("more than %.0e\n", kTolerance);
    return 1;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
