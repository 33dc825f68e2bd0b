// Makers of the models of speech.
#include "exporters/models/speech_families.h"

#include "exporters/models/wav2vec2.h"

namespace exporters::models {

std::unique_ptr<PreTrainedModel> make_wav2vec2(const ModelConfig& config) {
  return std::make_unique<SpeechModel>(Scope{}, config, read_wav2vec2(config));
}

std::unique_ptr<PreTrainedModel> make_wav2vec2_ctc(const ModelConfig& config) {
  return std::make_unique<SpeechForCTC>(config, read_wav2vec2(config));
}

std::unique_ptr<PreTrainedModel> make_wav2vec2_classifier(const ModelConfig& config) {
  return std::make_unique<SpeechForSequenceClassification>(config, read_wav2vec2(config));
}

std::unique_ptr<PreTrainedModel> make_wav2vec2_frame_classifier(const ModelConfig& config) {
  return std::make_unique<SpeechForAudioFrameClassification>(config, read_wav2vec2(config));
}

std::unique_ptr<PreTrainedModel> make_wav2vec2_xvector(const ModelConfig& config) {
  return std::make_unique<SpeechForXVector>(config, read_wav2vec2(config));
}

std::unique_ptr<PreTrainedModel> make_wav2vec2_pre_training(const ModelConfig& config) {
  return std::make_unique<SpeechForPreTraining>(config, read_wav2vec2(config));
}

std::unique_ptr<PreTrainedModel> make_hubert(const ModelConfig& config) {
  return std::make_unique<SpeechModel>(Scope{}, config, read_hubert(config));
}

std::unique_ptr<PreTrainedModel> make_hubert_ctc(const ModelConfig& config) {
  return std::make_unique<SpeechForCTC>(config, read_hubert(config));
}

std::unique_ptr<PreTrainedModel> make_hubert_classifier(const ModelConfig& config) {
  return std::make_unique<SpeechForSequenceClassification>(config, read_hubert(config));
}

}  // namespace exporters::models
