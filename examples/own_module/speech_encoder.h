#pragma once

// A small speech encoder in libtorch's own modules: a strided convolution, positions, transformer layers.
#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace nn = torch::nn;
using at::Tensor;

constexpr int64_t kMels = 20;
constexpr int64_t kWidth = 32;
constexpr int64_t kHeads = 4;
constexpr int64_t kMaxFrames = 1000;

// Nothing here reads a size as a plain number: `size(1)` would fix that axis to the sample's, and the export would say
// so. `unflatten`, `flatten` and `sym_size` keep it symbolic.
struct EncoderLayerImpl : nn::Module {
  nn::LayerNorm attention_norm{nn::LayerNormOptions({kWidth})};
  nn::Linear qkv{kWidth, 3 * kWidth};
  nn::Linear projection{kWidth, kWidth};
  nn::LayerNorm feed_forward_norm{nn::LayerNormOptions({kWidth})};
  nn::Linear expand{kWidth, 4 * kWidth};
  nn::Linear contract{4 * kWidth, kWidth};
  nn::Dropout dropout{0.1};

  EncoderLayerImpl() {
    register_module("attention_norm", attention_norm);
    register_module("qkv", qkv);
    register_module("projection", projection);
    register_module("feed_forward_norm", feed_forward_norm);
    register_module("expand", expand);
    register_module("contract", contract);
    register_module("dropout", dropout);
  }

  Tensor forward(const Tensor& x) {
    const auto heads = qkv(attention_norm(x)).unflatten(-1, {3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const auto mixed = at::scaled_dot_product_attention(heads.select(0, 0), heads.select(0, 1), heads.select(0, 2));
    const auto attended = x + dropout(projection(mixed.transpose(1, 2).flatten(2)));
    return attended + dropout(contract(at::gelu(expand(feed_forward_norm(attended)))));
  }
};
TORCH_MODULE(EncoderLayer);

struct SpeechEncoderImpl : nn::Module {
  nn::Conv1d stem{nn::Conv1dOptions(kMels, kWidth, 3).stride(2).padding(1)};
  nn::Embedding positions{kMaxFrames, kWidth};
  Tensor summary;
  nn::ModuleList layers;
  nn::LayerNorm norm{nn::LayerNormOptions({kWidth})};

  SpeechEncoderImpl() {
    register_module("stem", stem);
    register_module("positions", positions);
    summary = register_parameter("summary", torch::randn({kWidth}));
    register_module("layers", layers);
    register_module("norm", norm);
    layers->push_back(EncoderLayer());
    layers->push_back(EncoderLayer());
  }

  // mel: float32 [batch, length, kMels] → float32 [batch, (length + 1) / 2, kWidth].
  Tensor forward(const Tensor& mel) {
    Tensor x = stem(mel.transpose(1, 2)).transpose(1, 2).contiguous().relu_();
    x += positions(at::arange(at::Scalar(x.sym_size(1)), at::kLong));
    x.select(1, 0).add_(summary);  // written through a view: the first frame gathers the whole
    for (const auto& layer : *layers) {
      x = layer->as<EncoderLayer>()->forward(x);
    }
    return norm(x);
  }
};
TORCH_MODULE(SpeechEncoder);
