#include "exporters/models/registry.h"

#include "exporters/models/bert_decoder.h"
#include "exporters/models/decoder_families.h"
#include "exporters/models/encoder_families.h"
#include "exporters/models/phi3.h"
#include "exporters/models/seq2seq_families.h"
#include "exporters/models/speech_families.h"
#include "exporters/models/vision_families.h"
#include "exporters/models/whisper.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"

#include <algorithm>
#include <vector>

namespace exporters::models {
namespace {

constexpr std::string_view kFeatures = "feature-extraction";
constexpr std::string_view kGeneration = "text-generation";
constexpr std::string_view kTexts = "text-classification";
constexpr std::string_view kTokens = "token-classification";
constexpr std::string_view kAnswers = "question-answering";
constexpr std::string_view kText2Text = "text2text-generation";
constexpr std::string_view kWords = "fill-mask";
constexpr std::string_view kImages = "image-classification";
constexpr std::string_view kImageFeatures = "image-feature-extraction";
constexpr std::string_view kZeroShot = "zero-shot-image-classification";
constexpr std::string_view kImagesAndText = "image-text-to-text";
constexpr std::string_view kSpeech = "automatic-speech-recognition";
constexpr std::string_view kSounds = "audio-classification";
constexpr std::string_view kChoices = "multiple-choice";

template <typename Model>
std::unique_ptr<PreTrainedModel> make(const ModelConfig& config) {
  return std::make_unique<Model>(config);
}

// ── Text encoders: the bare model and the heads of a family ──

template <const EncoderFamily& family>
std::unique_ptr<PreTrainedModel> bare_encoder(const ModelConfig& config) {
  return family.make(Scope{}, config, !family.pooler.empty());
}

template <const EncoderFamily& family, EncoderTask task>
std::unique_ptr<PreTrainedModel> encoder(const ModelConfig& config) {
  return std::make_unique<EncoderWithHead>(family, task, config);
}

// ── Decoders: the bare model and the heads of a family ──

template <MakeDecoder make_base>
constexpr ModelEntry bare_decoder(std::string_view model_type, std::string_view architecture) {
  ModelEntry entry{
      model_type, architecture, kFeatures,
      [](const ModelConfig& config) -> std::unique_ptr<PreTrainedModel> { return make_base(Scope{}, config); }};
  entry.decoder = make_base;
  return entry;
}

constexpr ModelEntry recurrent(ModelEntry entry) {
  entry.keeps_state = true;
  return entry;
}

template <const DecoderFamily& family, MakeDecoder make_base>
std::unique_ptr<PreTrainedModel> causal_lm(const ModelConfig& config) {
  return std::make_unique<DecoderForCausalLM>(family, make_base, config);
}

template <const DecoderFamily& family, MakeDecoder make_base>
std::unique_ptr<PreTrainedModel> sequence_classifier(const ModelConfig& config) {
  return std::make_unique<DecoderForSequenceClassification>(family, "ForSequenceClassification", make_base, config);
}

// Of a family whose class names the text model.
template <const DecoderFamily& family, MakeDecoder make_base>
std::unique_ptr<PreTrainedModel> text_sequence_classifier(const ModelConfig& config) {
  return std::make_unique<DecoderForSequenceClassification>(family, "TextForSequenceClassification", make_base, config);
}

template <const DecoderFamily& family, MakeDecoder make_base>
std::unique_ptr<PreTrainedModel> token_classifier(const ModelConfig& config) {
  return std::make_unique<DecoderForTokenClassification>(family, make_base, config);
}

// With the classifier under its older name.
template <const DecoderFamily& family, MakeDecoder make_base>
std::unique_ptr<PreTrainedModel> token_classifier_layer(const ModelConfig& config) {
  return std::make_unique<DecoderForTokenClassification>(family, make_base, config, "classifier");
}

template <const DecoderFamily& family, MakeDecoder make_base>
std::unique_ptr<PreTrainedModel> question_answering(const ModelConfig& config) {
  return std::make_unique<DecoderForQuestionAnswering>(family, make_base, config);
}

// ── Encoder-decoder models: the bare model and the heads of a family ──

template <const Seq2SeqFamily& family>
std::unique_ptr<PreTrainedModel> seq2seq(const ModelConfig& config) {
  return std::make_unique<Seq2SeqModel>(Scope{}, family, config);
}

template <const Seq2SeqFamily& family, typename Head>
std::unique_ptr<PreTrainedModel> seq2seq_head(const ModelConfig& config) {
  return std::make_unique<Head>(family, config);
}

template <const Seq2SeqFamily& family>
std::unique_ptr<PreTrainedModel> seq2seq_encoder(const ModelConfig& config) {
  return std::make_unique<Seq2SeqEncoderModel>(Scope{}, family, config);
}

constexpr ModelEntry kModels[] = {
    {"bert", "BertModel", kFeatures, bare_encoder<kBert>},
    {"bert", "BertForMaskedLM", kWords, encoder<kBert, EncoderTask::kMaskedLM>},
    {"bert", "BertForSequenceClassification", kTexts, encoder<kBert, EncoderTask::kSequenceClassification>},
    {"bert", "BertForTokenClassification", kTokens, encoder<kBert, EncoderTask::kTokenClassification>},
    {"bert", "BertForQuestionAnswering", kAnswers, encoder<kBert, EncoderTask::kQuestionAnswering>},
    {"bert", "BertForMultipleChoice", kChoices, encoder<kBert, EncoderTask::kMultipleChoice>},
    {"bert", "BertForNextSentencePrediction", "next-sentence-prediction",
     encoder<kBert, EncoderTask::kNextSentencePrediction>},
    {"bert", "BertForPreTraining", "", encoder<kBert, EncoderTask::kPreTraining>},
    {"bert", "BertLMHeadModel", kGeneration, make_bert_lm},

    {"roberta", "RobertaModel", kFeatures, bare_encoder<kRoberta>},
    {"roberta", "RobertaForMaskedLM", kWords, encoder<kRoberta, EncoderTask::kMaskedLM>},
    {"roberta", "RobertaForSequenceClassification", kTexts, encoder<kRoberta, EncoderTask::kSequenceClassification>},
    {"roberta", "RobertaForTokenClassification", kTokens, encoder<kRoberta, EncoderTask::kTokenClassification>},
    {"roberta", "RobertaForQuestionAnswering", kAnswers, encoder<kRoberta, EncoderTask::kQuestionAnswering>},
    {"roberta", "RobertaForMultipleChoice", kChoices, encoder<kRoberta, EncoderTask::kMultipleChoice>},
    {"roberta", "RobertaForCausalLM", kGeneration, make_roberta_lm},

    {"xlm-roberta", "XLMRobertaModel", kFeatures, bare_encoder<kXlmRoberta>},
    {"xlm-roberta", "XLMRobertaForMaskedLM", kWords, encoder<kXlmRoberta, EncoderTask::kMaskedLM>},
    {"xlm-roberta", "XLMRobertaForSequenceClassification", kTexts,
     encoder<kXlmRoberta, EncoderTask::kSequenceClassification>},
    {"xlm-roberta", "XLMRobertaForTokenClassification", kTokens,
     encoder<kXlmRoberta, EncoderTask::kTokenClassification>},
    {"xlm-roberta", "XLMRobertaForQuestionAnswering", kAnswers, encoder<kXlmRoberta, EncoderTask::kQuestionAnswering>},
    {"xlm-roberta", "XLMRobertaForMultipleChoice", kChoices, encoder<kXlmRoberta, EncoderTask::kMultipleChoice>},
    {"xlm-roberta", "XLMRobertaForCausalLM", kGeneration, make_xlm_roberta_lm},

    {"camembert", "CamembertModel", kFeatures, bare_encoder<kCamembert>},
    {"camembert", "CamembertForMaskedLM", kWords, encoder<kCamembert, EncoderTask::kMaskedLM>},
    {"camembert", "CamembertForSequenceClassification", kTexts,
     encoder<kCamembert, EncoderTask::kSequenceClassification>},
    {"camembert", "CamembertForTokenClassification", kTokens, encoder<kCamembert, EncoderTask::kTokenClassification>},
    {"camembert", "CamembertForQuestionAnswering", kAnswers, encoder<kCamembert, EncoderTask::kQuestionAnswering>},
    {"camembert", "CamembertForMultipleChoice", kChoices, encoder<kCamembert, EncoderTask::kMultipleChoice>},
    {"camembert", "CamembertForCausalLM", kGeneration, make_camembert_lm},

    {"distilbert", "DistilBertModel", kFeatures, bare_encoder<kDistilBert>},
    {"distilbert", "DistilBertForMaskedLM", kWords, encoder<kDistilBert, EncoderTask::kMaskedLM>},
    {"distilbert", "DistilBertForSequenceClassification", kTexts,
     encoder<kDistilBert, EncoderTask::kSequenceClassification>},
    {"distilbert", "DistilBertForTokenClassification", kTokens,
     encoder<kDistilBert, EncoderTask::kTokenClassification>},
    {"distilbert", "DistilBertForQuestionAnswering", kAnswers, encoder<kDistilBert, EncoderTask::kQuestionAnswering>},
    {"distilbert", "DistilBertForMultipleChoice", kChoices, encoder<kDistilBert, EncoderTask::kMultipleChoice>},

    {"electra", "ElectraModel", kFeatures, bare_encoder<kElectra>},
    {"electra", "ElectraForMaskedLM", kWords, encoder<kElectra, EncoderTask::kMaskedLM>},
    {"electra", "ElectraForSequenceClassification", kTexts, encoder<kElectra, EncoderTask::kSequenceClassification>},
    {"electra", "ElectraForTokenClassification", kTokens, encoder<kElectra, EncoderTask::kTokenClassification>},
    {"electra", "ElectraForQuestionAnswering", kAnswers, encoder<kElectra, EncoderTask::kQuestionAnswering>},
    {"electra", "ElectraForMultipleChoice", kChoices, encoder<kElectra, EncoderTask::kMultipleChoice>},
    {"electra", "ElectraForCausalLM", kGeneration, make_electra_lm},
    {"electra", "ElectraForPreTraining", "", encoder<kElectra, EncoderTask::kPreTraining>},

    {"mpnet", "MPNetModel", kFeatures, bare_encoder<kMpnet>},
    {"mpnet", "MPNetForMaskedLM", kWords, encoder<kMpnet, EncoderTask::kMaskedLM>},
    {"mpnet", "MPNetForSequenceClassification", kTexts, encoder<kMpnet, EncoderTask::kSequenceClassification>},
    {"mpnet", "MPNetForTokenClassification", kTokens, encoder<kMpnet, EncoderTask::kTokenClassification>},
    {"mpnet", "MPNetForQuestionAnswering", kAnswers, encoder<kMpnet, EncoderTask::kQuestionAnswering>},
    {"mpnet", "MPNetForMultipleChoice", kChoices, encoder<kMpnet, EncoderTask::kMultipleChoice>},

    {"albert", "AlbertModel", kFeatures, bare_encoder<kAlbert>},
    {"albert", "AlbertForMaskedLM", kWords, encoder<kAlbert, EncoderTask::kMaskedLM>},
    {"albert", "AlbertForSequenceClassification", kTexts, encoder<kAlbert, EncoderTask::kSequenceClassification>},
    {"albert", "AlbertForTokenClassification", kTokens, encoder<kAlbert, EncoderTask::kTokenClassification>},
    {"albert", "AlbertForQuestionAnswering", kAnswers, encoder<kAlbert, EncoderTask::kQuestionAnswering>},
    {"albert", "AlbertForMultipleChoice", kChoices, encoder<kAlbert, EncoderTask::kMultipleChoice>},
    {"albert", "AlbertForPreTraining", "", encoder<kAlbert, EncoderTask::kPreTraining>},

    {"deberta-v2", "DebertaV2Model", kFeatures, bare_encoder<kDebertaV2>},
    {"deberta-v2", "DebertaV2ForMaskedLM", kWords, encoder<kDebertaV2, EncoderTask::kMaskedLM>},
    {"deberta-v2", "DebertaV2ForSequenceClassification", kTexts,
     encoder<kDebertaV2, EncoderTask::kSequenceClassification>},
    {"deberta-v2", "DebertaV2ForTokenClassification", kTokens, encoder<kDebertaV2, EncoderTask::kTokenClassification>},
    {"deberta-v2", "DebertaV2ForQuestionAnswering", kAnswers, encoder<kDebertaV2, EncoderTask::kQuestionAnswering>},
    {"deberta-v2", "DebertaV2ForMultipleChoice", kChoices, encoder<kDebertaV2, EncoderTask::kMultipleChoice>},

    {"modernbert", "ModernBertModel", kFeatures, bare_encoder<kModernBert>},
    {"modernbert", "ModernBertForMaskedLM", kWords, encoder<kModernBert, EncoderTask::kMaskedLM>},
    {"modernbert", "ModernBertForSequenceClassification", kTexts,
     encoder<kModernBert, EncoderTask::kSequenceClassification>},
    {"modernbert", "ModernBertForTokenClassification", kTokens,
     encoder<kModernBert, EncoderTask::kTokenClassification>},
    {"modernbert", "ModernBertForQuestionAnswering", kAnswers, encoder<kModernBert, EncoderTask::kQuestionAnswering>},
    {"modernbert", "ModernBertForMultipleChoice", kChoices, encoder<kModernBert, EncoderTask::kMultipleChoice>},

    bare_decoder<make_llama>("llama", "LlamaModel"),
    {"llama", "LlamaForCausalLM", kGeneration, causal_lm<kLlama, make_llama>},
    {"llama", "LlamaForSequenceClassification", kTexts, sequence_classifier<kLlama, make_llama>},
    {"llama", "LlamaForTokenClassification", kTokens, token_classifier<kLlama, make_llama>},
    {"llama", "LlamaForQuestionAnswering", kAnswers, question_answering<kLlama, make_llama>},

    bare_decoder<make_mistral>("mistral", "MistralModel"),
    {"mistral", "MistralForCausalLM", kGeneration, causal_lm<kMistral, make_mistral>},
    {"mistral", "MistralForSequenceClassification", kTexts, sequence_classifier<kMistral, make_mistral>},
    {"mistral", "MistralForTokenClassification", kTokens, token_classifier<kMistral, make_mistral>},
    {"mistral", "MistralForQuestionAnswering", kAnswers, question_answering<kMistral, make_mistral>},

    bare_decoder<make_qwen2>("qwen2", "Qwen2Model"),
    {"qwen2", "Qwen2ForCausalLM", kGeneration, causal_lm<kQwen2, make_qwen2>},
    {"qwen2", "Qwen2ForSequenceClassification", kTexts, sequence_classifier<kQwen2, make_qwen2>},
    {"qwen2", "Qwen2ForTokenClassification", kTokens, token_classifier<kQwen2, make_qwen2>},
    {"qwen2", "Qwen2ForQuestionAnswering", kAnswers, question_answering<kQwen2, make_qwen2>},

    bare_decoder<make_qwen3>("qwen3", "Qwen3Model"),
    {"qwen3", "Qwen3ForCausalLM", kGeneration, causal_lm<kQwen3, make_qwen3>},
    {"qwen3", "Qwen3ForSequenceClassification", kTexts, sequence_classifier<kQwen3, make_qwen3>},
    {"qwen3", "Qwen3ForTokenClassification", kTokens, token_classifier<kQwen3, make_qwen3>},
    {"qwen3", "Qwen3ForQuestionAnswering", kAnswers, question_answering<kQwen3, make_qwen3>},

    bare_decoder<make_phi3>("phi3", "Phi3Model"),
    {"phi3", "Phi3ForCausalLM", kGeneration, causal_lm<kPhi3, make_phi3>, phi3_cache_boundary},
    {"phi3", "Phi3ForSequenceClassification", kTexts, sequence_classifier<kPhi3, make_phi3>},
    {"phi3", "Phi3ForTokenClassification", kTokens, token_classifier<kPhi3, make_phi3>},

    bare_decoder<make_gemma>("gemma", "GemmaModel"),
    {"gemma", "GemmaForCausalLM", kGeneration, causal_lm<kGemma, make_gemma>},
    {"gemma", "GemmaForSequenceClassification", kTexts, sequence_classifier<kGemma, make_gemma>},
    {"gemma", "GemmaForTokenClassification", kTokens, token_classifier<kGemma, make_gemma>},

    bare_decoder<make_gemma2>("gemma2", "Gemma2Model"),
    {"gemma2", "Gemma2ForCausalLM", kGeneration, causal_lm<kGemma2, make_gemma2>},
    {"gemma2", "Gemma2ForSequenceClassification", kTexts, sequence_classifier<kGemma2, make_gemma2>},
    {"gemma2", "Gemma2ForTokenClassification", kTokens, token_classifier<kGemma2, make_gemma2>},

    bare_decoder<make_gemma3_text>("gemma3_text", "Gemma3TextModel"),
    {"gemma3_text", "Gemma3ForCausalLM", kGeneration, causal_lm<kGemma3, make_gemma3_text>},
    {"gemma3_text", "Gemma3TextForSequenceClassification", kTexts, text_sequence_classifier<kGemma3, make_gemma3_text>},

    bare_decoder<make_olmo2>("olmo2", "Olmo2Model"),
    {"olmo2", "Olmo2ForCausalLM", kGeneration, causal_lm<kOlmo2, make_olmo2>},
    {"olmo2", "Olmo2ForSequenceClassification", kTexts, sequence_classifier<kOlmo2, make_olmo2>},

    bare_decoder<make_granite>("granite", "GraniteModel"),
    {"granite", "GraniteForCausalLM", kGeneration, causal_lm<kGranite, make_granite>},

    bare_decoder<make_smollm3>("smollm3", "SmolLM3Model"),
    {"smollm3", "SmolLM3ForCausalLM", kGeneration, causal_lm<kSmolLm3, make_smollm3>},
    {"smollm3", "SmolLM3ForSequenceClassification", kTexts, sequence_classifier<kSmolLm3, make_smollm3>},
    {"smollm3", "SmolLM3ForTokenClassification", kTokens, token_classifier<kSmolLm3, make_smollm3>},
    {"smollm3", "SmolLM3ForQuestionAnswering", kAnswers, question_answering<kSmolLm3, make_smollm3>},

    bare_decoder<make_starcoder2>("starcoder2", "Starcoder2Model"),
    {"starcoder2", "Starcoder2ForCausalLM", kGeneration, causal_lm<kStarcoder2, make_starcoder2>},
    {"starcoder2", "Starcoder2ForSequenceClassification", kTexts, sequence_classifier<kStarcoder2, make_starcoder2>},
    {"starcoder2", "Starcoder2ForTokenClassification", kTokens, token_classifier<kStarcoder2, make_starcoder2>},

    bare_decoder<make_gpt2>("gpt2", "GPT2Model"),
    {"gpt2", "GPT2LMHeadModel", kGeneration, causal_lm<kGpt2, make_gpt2>},
    {"gpt2", "GPT2ForSequenceClassification", kTexts, sequence_classifier<kGpt2, make_gpt2>},
    {"gpt2", "GPT2ForTokenClassification", kTokens, token_classifier_layer<kGpt2, make_gpt2>},
    {"gpt2", "GPT2ForQuestionAnswering", kAnswers, question_answering<kGpt2, make_gpt2>},

    bare_decoder<make_gpt_neox>("gpt_neox", "GPTNeoXModel"),
    {"gpt_neox", "GPTNeoXForCausalLM", kGeneration, causal_lm<kGptNeoX, make_gpt_neox>},
    {"gpt_neox", "GPTNeoXForSequenceClassification", kTexts, sequence_classifier<kGptNeoX, make_gpt_neox>},
    {"gpt_neox", "GPTNeoXForTokenClassification", kTokens, token_classifier_layer<kGptNeoX, make_gpt_neox>},
    {"gpt_neox", "GPTNeoXForQuestionAnswering", kAnswers, question_answering<kGptNeoX, make_gpt_neox>},

    bare_decoder<make_opt>("opt", "OPTModel"),
    {"opt", "OPTForCausalLM", kGeneration, causal_lm<kOpt, make_opt>},
    {"opt", "OPTForSequenceClassification", kTexts, sequence_classifier<kOpt, make_opt>},
    {"opt", "OPTForQuestionAnswering", kAnswers, question_answering<kOpt, make_opt>},

    bare_decoder<make_phi>("phi", "PhiModel"),
    {"phi", "PhiForCausalLM", kGeneration, causal_lm<kPhi, make_phi>},
    {"phi", "PhiForSequenceClassification", kTexts, sequence_classifier<kPhi, make_phi>},
    {"phi", "PhiForTokenClassification", kTokens, token_classifier<kPhi, make_phi>},

    bare_decoder<make_mixtral>("mixtral", "MixtralModel"),
    {"mixtral", "MixtralForCausalLM", kGeneration, causal_lm<kMixtral, make_mixtral>},
    {"mixtral", "MixtralForSequenceClassification", kTexts, sequence_classifier<kMixtral, make_mixtral>},
    {"mixtral", "MixtralForTokenClassification", kTokens, token_classifier<kMixtral, make_mixtral>},
    {"mixtral", "MixtralForQuestionAnswering", kAnswers, question_answering<kMixtral, make_mixtral>},

    bare_decoder<make_qwen2_moe>("qwen2_moe", "Qwen2MoeModel"),
    {"qwen2_moe", "Qwen2MoeForCausalLM", kGeneration, causal_lm<kQwen2Moe, make_qwen2_moe>},
    {"qwen2_moe", "Qwen2MoeForSequenceClassification", kTexts, sequence_classifier<kQwen2Moe, make_qwen2_moe>},
    {"qwen2_moe", "Qwen2MoeForTokenClassification", kTokens, token_classifier<kQwen2Moe, make_qwen2_moe>},
    {"qwen2_moe", "Qwen2MoeForQuestionAnswering", kAnswers, question_answering<kQwen2Moe, make_qwen2_moe>},

    bare_decoder<make_qwen3_moe>("qwen3_moe", "Qwen3MoeModel"),
    {"qwen3_moe", "Qwen3MoeForCausalLM", kGeneration, causal_lm<kQwen3Moe, make_qwen3_moe>},
    {"qwen3_moe", "Qwen3MoeForSequenceClassification", kTexts, sequence_classifier<kQwen3Moe, make_qwen3_moe>},
    {"qwen3_moe", "Qwen3MoeForTokenClassification", kTokens, token_classifier<kQwen3Moe, make_qwen3_moe>},
    {"qwen3_moe", "Qwen3MoeForQuestionAnswering", kAnswers, question_answering<kQwen3Moe, make_qwen3_moe>},

    bare_decoder<make_gpt_oss>("gpt_oss", "GptOssModel"),
    {"gpt_oss", "GptOssForCausalLM", kGeneration, causal_lm<kGptOss, make_gpt_oss>},
    {"gpt_oss", "GptOssForSequenceClassification", kTexts, sequence_classifier<kGptOss, make_gpt_oss>},
    {"gpt_oss", "GptOssForTokenClassification", kTokens, token_classifier<kGptOss, make_gpt_oss>},

    recurrent({"mamba", "MambaModel", kFeatures, make_mamba}),
    recurrent({"mamba", "MambaForCausalLM", kGeneration, make_mamba_lm}),

    {"t5", "T5Model", kFeatures, seq2seq<kT5>},
    {"t5", "T5ForConditionalGeneration", kText2Text, seq2seq_head<kT5, Seq2SeqForConditionalGeneration>},
    {"t5", "T5EncoderModel", "", seq2seq_encoder<kT5>},
    {"t5", "T5ForSequenceClassification", kTexts, seq2seq_head<kT5, Seq2SeqForSequenceClassification>},
    {"t5", "T5ForTokenClassification", kTokens, seq2seq_head<kT5, Seq2SeqForTokenClassification>},
    {"t5", "T5ForQuestionAnswering", kAnswers, seq2seq_head<kT5, Seq2SeqForQuestionAnswering>},

    {"mt5", "MT5Model", kFeatures, seq2seq<kMt5>},
    {"mt5", "MT5ForConditionalGeneration", kText2Text, seq2seq_head<kMt5, Seq2SeqForConditionalGeneration>},
    {"mt5", "MT5EncoderModel", "", seq2seq_encoder<kMt5>},
    {"mt5", "MT5ForSequenceClassification", kTexts, seq2seq_head<kMt5, Seq2SeqForSequenceClassification>},
    {"mt5", "MT5ForTokenClassification", kTokens, seq2seq_head<kMt5, Seq2SeqForTokenClassification>},
    {"mt5", "MT5ForQuestionAnswering", kAnswers, seq2seq_head<kMt5, Seq2SeqForQuestionAnswering>},

    {"bart", "BartModel", kFeatures, seq2seq<kBart>},
    {"bart", "BartForConditionalGeneration", kText2Text, seq2seq_head<kBart, Seq2SeqForConditionalGeneration>},
    {"bart", "BartForCausalLM", kGeneration, seq2seq_head<kBart, Seq2SeqForCausalLM>},
    {"bart", "BartForSequenceClassification", kTexts, seq2seq_head<kBart, Seq2SeqForSequenceClassification>},
    {"bart", "BartForQuestionAnswering", kAnswers, seq2seq_head<kBart, Seq2SeqForQuestionAnswering>},

    {"mbart", "MBartModel", kFeatures, seq2seq<kMBart>},
    {"mbart", "MBartForConditionalGeneration", kText2Text, seq2seq_head<kMBart, Seq2SeqForConditionalGeneration>},
    {"mbart", "MBartForCausalLM", kGeneration, seq2seq_head<kMBart, Seq2SeqForCausalLM>},
    {"mbart", "MBartForSequenceClassification", kTexts, seq2seq_head<kMBart, Seq2SeqForSequenceClassification>},
    {"mbart", "MBartForQuestionAnswering", kAnswers, seq2seq_head<kMBart, Seq2SeqForQuestionAnswering>},

    {"marian", "MarianModel", kFeatures, seq2seq<kMarian>},
    {"marian", "MarianMTModel", kText2Text, seq2seq_head<kMarian, Seq2SeqForConditionalGeneration>},
    {"marian", "MarianForCausalLM", kGeneration, seq2seq_head<kMarian, Seq2SeqForCausalLM>},

    {"m2m_100", "M2M100Model", kFeatures, seq2seq<kM2M100>},
    {"m2m_100", "M2M100ForConditionalGeneration", kText2Text, seq2seq_head<kM2M100, Seq2SeqForConditionalGeneration>},

    {"nllb-moe", "NllbMoeModel", kFeatures, seq2seq<kNllbMoe>},
    {"nllb-moe", "NllbMoeForConditionalGeneration", kText2Text,
     seq2seq_head<kNllbMoe, Seq2SeqForConditionalGeneration>},

    {"whisper", "WhisperModel", kFeatures, seq2seq<kWhisper>},
    {"whisper", "WhisperForConditionalGeneration", "automatic-speech-recognition",
     seq2seq_head<kWhisper, Seq2SeqForConditionalGeneration>},
    {"whisper", "WhisperForCausalLM", kGeneration, seq2seq_head<kWhisper, Seq2SeqForCausalLM>},
    {"whisper", "WhisperForAudioClassification", "audio-classification", make<WhisperForAudioClassification>},

    {"vit", "ViTModel", kImageFeatures, make_vit},
    {"vit", "ViTForImageClassification", kImages, make_vit_classifier},
    {"vit", "ViTForMaskedImageModeling", "", make_vit_masked_images},

    {"deit", "DeiTModel", kImageFeatures, make_deit},
    {"deit", "DeiTForImageClassification", kImages, make_deit_classifier},
    {"deit", "DeiTForImageClassificationWithTeacher", "", make_deit_with_teacher},
    {"deit", "DeiTForMaskedImageModeling", "", make_deit_masked_images},

    {"dinov2", "Dinov2Model", kImageFeatures, make_dinov2},
    {"dinov2", "Dinov2ForImageClassification", kImages, make_dinov2_classifier},
    {"dinov2", "Dinov2Backbone", "", make_dinov2_backbone},

    {"clip", "CLIPModel", kZeroShot, make_clip},
    {"clip", "CLIPForImageClassification", kImages, make_clip_classifier},
    {"clip_text_model", "CLIPTextModel", kFeatures, make_clip_text},
    {"clip_text_model", "CLIPTextModelWithProjection", "", make_clip_text_projected},
    {"clip_vision_model", "CLIPVisionModel", kImageFeatures, make_clip_vision},
    {"clip_vision_model", "CLIPVisionModelWithProjection", "", make_clip_vision_projected},

    {"siglip", "SiglipModel", kZeroShot, make_siglip},
    {"siglip", "SiglipForImageClassification", kImages, make_siglip_classifier},
    {"siglip_text_model", "SiglipTextModel", kFeatures, make_siglip_text},
    {"siglip_vision_model", "SiglipVisionModel", kImageFeatures, make_siglip_vision},

    {"llava", "LlavaModel", kFeatures, make_llava},
    {"llava", "LlavaForConditionalGeneration", kImagesAndText, make_llava_generator, llava_cache_boundary},

    {"wav2vec2", "Wav2Vec2Model", kFeatures, make_wav2vec2},
    {"wav2vec2", "Wav2Vec2ForCTC", kSpeech, make_wav2vec2_ctc},
    {"wav2vec2", "Wav2Vec2ForSequenceClassification", kSounds, make_wav2vec2_classifier},
    {"wav2vec2", "Wav2Vec2ForAudioFrameClassification", "", make_wav2vec2_frame_classifier},
    {"wav2vec2", "Wav2Vec2ForXVector", "audio-xvector", make_wav2vec2_xvector},
    {"wav2vec2", "Wav2Vec2ForPreTraining", "", make_wav2vec2_pre_training},

    {"hubert", "HubertModel", kFeatures, make_hubert},
    {"hubert", "HubertForCTC", kSpeech, make_hubert_ctc},
    {"hubert", "HubertForSequenceClassification", kSounds, make_hubert_classifier},
};

std::vector<std::string_view> distinct(std::string_view ModelEntry::*field, std::span<const ModelEntry> entries) {
  std::vector<std::string_view> values;
  for (const ModelEntry& entry : entries) {
    const std::string_view value = entry.*field;
    if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(value);
    }
  }
  return values;
}

std::span<const ModelEntry> family(const ModelConfig& config) {
  const auto is_member = [&](const ModelEntry& entry) { return entry.model_type == config.model_type(); };
  const auto* first = std::find_if(std::begin(kModels), std::end(kModels), is_member);
  const auto* last = std::find_if_not(first, std::end(kModels), is_member);
  if (first != last) {
    return {first, last};
  }
  if (config.model_type().empty()) {
    throw Error("config field \"model_type\" is missing", config.where());
  }
  throw Error(fmt::format("model type \"{}\" is not supported", config.model_type()), config.where(),
              suggest(config.model_type(), distinct(&ModelEntry::model_type, kModels)));
}

const ModelEntry& pick(std::span<const ModelEntry> entries, std::string_view ModelEntry::*field, std::string_view value,
                       std::string_view what, const ModelConfig& config) {
  for (const ModelEntry& entry : entries) {
    if (entry.*field == value) {
      return entry;
    }
  }
  throw Error(fmt::format("{} \"{}\" is not supported for model type \"{}\"", what, value, config.model_type()),
              config.where(), suggest(value, distinct(field, entries)));
}

}  // namespace

std::span<const ModelEntry> list() { return kModels; }

const ModelEntry& find(const ModelConfig& config, std::string_view task, std::string_view architecture) {
  const std::span<const ModelEntry> entries = family(config);
  if (!architecture.empty()) {
    const ModelEntry& entry = pick(entries, &ModelEntry::architecture, architecture, "architecture", config);
    ensure(task.empty() || entry.task == task, "architecture \"{}\" is for task \"{}\", not \"{}\"", architecture,
           entry.task, task);
    return entry;
  }
  if (!task.empty()) {
    return pick(entries, &ModelEntry::task, task, "task", config);
  }
  if (!config.architectures().empty()) {
    return pick(entries, &ModelEntry::architecture, config.architectures().front(), "architecture", config);
  }
  return entries.front();
}

std::unique_ptr<DecoderModel> make_decoder(Scope scope, const ModelConfig& config) {
  std::vector<std::string_view> known;
  for (const ModelEntry& entry : kModels) {
    if (entry.decoder == nullptr) {
      continue;
    }
    if (entry.model_type == config.model_type()) {
      return entry.decoder(std::move(scope), config);
    }
    known.push_back(entry.model_type);
  }
  throw Error(fmt::format("model type \"{}\" is not supported as a decoder of text", config.model_type()),
              config.where(), suggest(config.model_type(), known));
}

bool keeps_state(const ModelConfig& config) {
  return std::any_of(std::begin(kModels), std::end(kModels), [&](const ModelEntry& entry) {
    return entry.model_type == config.model_type() && entry.keeps_state;
  });
}

std::optional<int64_t> cache_boundary(const ModelConfig& config) {
  for (const ModelEntry& entry : kModels) {
    if (entry.model_type == config.model_type() && entry.cache_boundary != nullptr) {
      return entry.cache_boundary(config);
    }
  }
  return std::nullopt;
}

}  // namespace exporters::models
