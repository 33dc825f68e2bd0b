#include "exporters/models/registry.h"

#include "exporters/models/bert.h"
#include "exporters/models/near.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <vector>

namespace exporters::models {
namespace {

template <typename Model>
std::unique_ptr<PreTrainedModel> make(const ModelConfig& config) {
  return std::make_unique<Model>(config);
}

constexpr ModelEntry kModels[] = {
    {"bert", "BertModel", "feature-extraction", make<BertModel>},
    {"bert", "BertForMaskedLM", "fill-mask", make<BertForMaskedLM>},
    {"bert", "BertForSequenceClassification", "text-classification", make<BertForSequenceClassification>},
    {"bert", "BertForTokenClassification", "token-classification", make<BertForTokenClassification>},
    {"bert", "BertForQuestionAnswering", "question-answering", make<BertForQuestionAnswering>},
    {"bert", "BertForMultipleChoice", "multiple-choice", make<BertForMultipleChoice>},
    {"bert", "BertForNextSentencePrediction", "next-sentence-prediction", make<BertForNextSentencePrediction>},
    {"bert", "BertForPreTraining", "", make<BertForPreTraining>},
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

}  // namespace exporters::models
