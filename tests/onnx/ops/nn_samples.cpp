// Normalizations, attention, convolutions, pools, resampling.
#include "tests/onnx/ops/op_sample.h"

namespace exporters::onnx::testing {
namespace {

using c10::ScalarType;

OpSamples norms() {
  const SampleTensor four = f("4");
  const SampleTensor three = f("3");
  const SampleTensor variance = f("3", 0.5, 2);
  return {
      {"aten.layer_norm.default", {f("n m 4"), list(4), four, four}},
      OpSample{"aten.native_layer_norm.default", {f("n m 4"), list(4), four, four, 1e-5}}.first_outputs(1),
      OpSample{"aten.native_layer_norm.default", {f("n m 4"), list(4), four, four, 1e-5}}.is_refused("mean"),
      {"aten.rms_norm.default", {f("n m 4"), list(4), four, 1e-5}},
      OpSample{"aten._fused_rms_norm.default", {f("n m 4"), list(4), four, 1e-5}}.first_outputs(1),
      OpSample{"aten._fused_rms_norm.default", {f("n m 4"), list(4), four, 1e-5}}.is_refused("no ONNX counterpart"),
      {"aten.batch_norm.default", {f("n 3 m"), three, three, three, variance, false, 0.1, 1e-5, false}},
      {"aten.batch_norm.default", {f("n 3 m"), none(), none(), three, variance, false, 0.1, 1e-5, false}},
      OpSample{"aten._native_batch_norm_legit_no_training.default",
               {f("n 3 m"), three, three, three, variance, 0.1, 1e-5}}
          .first_outputs(1),
      OpSample{"aten._native_batch_norm_legit_no_training.default",
               {f("n 3 m"), three, three, three, variance, 0.1, 1e-5}}
          .is_refused("no ONNX counterpart"),
      {"aten.group_norm.default", {f("n 4 m"), 2, four, four}},
      OpSample{"aten.native_group_norm.default", {f("n 4 m"), four, four, size("n"), 4, size("m"), 2, 1e-5}}
          .first_outputs(1),
      OpSample{"aten.native_group_norm.default", {f("n 4 m"), four, four, size("n"), 4, size("m"), 2, 1e-5}}.is_refused(
          "mean"),
      OpSample{"aten.instance_norm.default", {f("n 3 m"), three, three, none(), none(), true, 0.1, 1e-5, false}}
          .at_least(2),
      {"aten.instance_norm.default", {f("n 3 m"), three, three, three, variance, false, 0.1, 1e-5, false}},
  };
}

OpSamples attention() {
  const SampleTensor query = f("n 2 m 8");
  const SampleTensor key = f("n 2 k 8");
  const std::string sdpa = "aten.scaled_dot_product_attention.default";
  const std::string flash = "aten._scaled_dot_product_flash_attention_for_cpu.default";
  return {
      {sdpa, {query, key, key}},
      {sdpa, {query, key, key, f("n 1 m k")}},
      {sdpa, {query, key, key, bools("m k")}},
      {sdpa, {query, key, key, none(), 0.0, true}},
      OpSample{sdpa, {query, key, key, none(), 0.1}}.is_refused("training mode"),
      OpSample{flash, {query, key, key}}.first_outputs(1),
      OpSample{flash, {query, key, key, 0.0, false, kw("attn_mask", f("n 1 m k"))}}.first_outputs(1),
  };
}

OpSamples convolutions() {
  return {
      {"aten.conv1d.default", {f("n 4 m+4"), f("6 2 3"), f("6"), list(2), list(1), list(1), 2}},
      {"aten.conv1d.default", {f("4 m+4"), f("6 4 3")}},
      {"aten.conv1d.padding", {f("n 4 m+4"), f("6 4 3"), none(), list(1), "same"}},
      OpSample{"aten.conv1d.padding", {f("n 4 9"), f("6 4 m"), none(), list(1), "same"}}.is_refused("symbolic size"),
      {"aten.conv2d.default", {f("n 4 m+4 k+4"), f("6 4 3 2")}},
      OpSample{"aten.conv2d.padding", {f("n 4 9 9"), f("6 4 m 2"), none(), list(1), "same"}}.is_refused(
          "symbolic size"),
      {"aten.conv3d.default", {f("n 2 m+2 k+2 4"), f("3 2 2 2 2")}},
      OpSample{"aten.conv3d.padding", {f("n 2 4 4 4"), f("3 2 m 2 2"), none(), list(1), "same"}}.is_refused(
          "symbolic size"),
      {"aten.conv_transpose1d.default", {f("n 4 m"), f("4 3 3"), f("3"), list(2), list(1), list(1)}},
      {"aten.conv_transpose2d.input", {f("n 4 m k"), f("4 3 3 2")}},
      {"aten.conv_transpose3d.input", {f("n 2 m k 3"), f("2 3 2 2 2")}},
      {"aten.convolution.default", {f("n 4 m+4"), f("6 4 3"), f("6"), list(1), list(0), list(1), false, list(0), 1}},
      {"aten.convolution.default", {f("n 4 m"), f("4 3 3"), none(), list(2), list(1), list(1), true, list(1), 1}},
  };
}

OpSamples pools() {
  const SampleTensor line = f("n 3 m+4");
  const SampleTensor plane = f("n 3 m+4 k+4");
  const SampleTensor space = f("n 2 m+2 k+2 4");
  return {
      {"aten.max_pool1d.default", {line, list(2), list(2), list(1)}},
      {"aten.max_pool2d.default", {plane, list(2, 3), list(2, 1), list(1, 1)}},
      {"aten.max_pool3d.default", {space, list(2)}},
      OpSample{"aten.max_pool2d_with_indices.default", {plane, list(2)}}.first_outputs(1),
      OpSample{"aten.max_pool2d_with_indices.default", {plane, list(2)}}.is_refused("indices of max_pool"),
      {"aten.avg_pool1d.default", {line, list(3), list(2), list(1)}},
      OpSample{"aten.avg_pool1d.default", {line, list(3), list(2), list(1), true}}.is_refused("counted padding"),
      {"aten.avg_pool2d.default", {plane, list(3), list(2), list(1), false, false}},
      OpSample{"aten.avg_pool2d.default", {plane, list(3), kw("divisor_override", 2)}}.is_refused("divisor_override"),
      {"aten.avg_pool3d.default", {space, list(2)}},
      OpSample{"aten.avg_pool3d.default", {space, list(2), kw("divisor_override", 2)}}.is_refused("divisor_override"),
      {"aten.adaptive_avg_pool1d.default", {line, list(1)}},
      {"aten.adaptive_avg_pool1d.default", {f("n 3 8"), list(4)}},
      OpSample{"aten.adaptive_avg_pool1d.default", {line, list(4)}}.is_refused("fixed input size"),
      {"aten.adaptive_avg_pool2d.default", {plane, list(1, 1)}},
      {"aten.adaptive_avg_pool2d.default", {f("n 3 8 6"), list(4, 2)}},
      OpSample{"aten.adaptive_avg_pool2d.default", {plane, list(4, 4)}}.is_refused("fixed input size"),
      {"aten._adaptive_avg_pool2d.default", {plane, list(1, 1)}},
      {"aten._adaptive_avg_pool2d.default", {f("n 3 8 6"), list(4, 2)}},
      OpSample{"aten._adaptive_avg_pool2d.default", {plane, list(4, 4)}}.is_refused("fixed input size"),
      {"aten.adaptive_avg_pool3d.default", {space, list(1, 1, 1)}},
      {"aten.adaptive_avg_pool3d.default", {f("n 2 4 4 6"), list(2, 2, 2)}},
      OpSample{"aten.adaptive_avg_pool3d.default", {space, list(2, 2, 2)}}.is_refused("fixed input size"),
      OpSample{"aten.adaptive_max_pool1d.default", {line, list(1)}}.first_outputs(1),
      OpSample{"aten.adaptive_max_pool1d.default", {f("n 3 8"), list(4)}}.first_outputs(1),
      OpSample{"aten.adaptive_max_pool1d.default", {f("n 3 8"), list(4)}}.is_refused("indices"),
      OpSample{"aten.adaptive_max_pool2d.default", {plane, list(1, 1)}}.first_outputs(1),
      OpSample{"aten.adaptive_max_pool2d.default", {f("n 3 8 6"), list(4, 2)}}.first_outputs(1),
      OpSample{"aten.adaptive_max_pool2d.default", {f("n 3 8 6"), list(4, 2)}}.is_refused("indices"),
  };
}

// To twice the size, by the sizes; to another one by a factor that is not whole.
OpSamples resampling() {
  struct Kind {
    const char* op;
    int64_t axes;
    bool aligns;
  };
  constexpr Kind kKinds[] = {
      {"upsample_nearest1d", 1, false},        {"upsample_nearest2d", 2, false},
      {"upsample_nearest3d", 3, false},        {"_upsample_nearest_exact1d", 1, false},
      {"_upsample_nearest_exact2d", 2, false}, {"upsample_linear1d", 1, true},
      {"upsample_bilinear2d", 2, true},        {"upsample_trilinear3d", 3, true},
      {"upsample_bicubic2d", 2, true},
  };
  OpSamples samples;
  for (const Kind& kind : kKinds) {
    const std::string op = std::string("aten.") + kind.op;
    std::string sizes = "n 3 m";
    SampleArg::List output = {size("m", 2)};
    SampleArg::List factors = {SampleArg(1.5)};
    for (const char* name : {"k", "n"}) {
      if (static_cast<int64_t>(output.size()) < kind.axes) {
        sizes += std::string(" ") + name;
        output.push_back(size(name, 2));
        factors.emplace_back(1.5);
      }
    }
    for (const bool align : kind.aligns ? std::vector{false, true} : std::vector{false}) {
      std::vector<SampleArg> args = {f(sizes), output};
      std::vector<SampleArg> scaled = {f(sizes), none()};
      if (kind.aligns) {
        args.emplace_back(align);
        scaled.emplace_back(align);
      }
      scaled.emplace_back(factors);
      samples.push_back(OpSample{op + ".default", args}.within(1e-4));
      samples.push_back(OpSample{op + ".vec", scaled}.is_refused("not a whole number"));
    }
  }
  return samples;
}

}  // namespace

OpSamples nn_samples() {
  OpSamples samples;
  for (const OpSamples& family : {norms(), attention(), convolutions(), pools(), resampling()}) {
    samples.insert(samples.end(), family.begin(), family.end());
  }
  return samples;
}

}  // namespace exporters::onnx::testing
