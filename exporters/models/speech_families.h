#pragma once

#include "exporters/models/pretrained.h"

#include <memory>

namespace exporters::models {

// The models of speech, without weights. Each throws Error for values of the config that change the computation in a
// way that is not implemented.

std::unique_ptr<PreTrainedModel> make_wav2vec2(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_wav2vec2_ctc(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_wav2vec2_classifier(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_wav2vec2_frame_classifier(const ModelConfig& config);

std::unique_ptr<PreTrainedModel> make_wav2vec2_xvector(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_wav2vec2_pre_training(const ModelConfig& config);

std::unique_ptr<PreTrainedModel> make_hubert(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_hubert_ctc(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_hubert_classifier(const ModelConfig& config);

}  // namespace exporters::models
