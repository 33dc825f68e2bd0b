#pragma once

#include "exporters/generation/config.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace exporters {

/// What the processors need to know of a prompt.
struct PromptFacts {
  int64_t length = 0;  ///< of the prompt
  int64_t end = 0;     ///< the length at which generation ends
  /// int64 [batch]: the first position of each row that is not padding. Undefined: 0.
  at::Tensor first_token;
};

/// The scores of a next token on their way to a choice: the steps of transformers' LogitsProcessorList that a config
/// asks for, in its order, with its operators on float32.
class LogitsProcessors {
 public:
  LogitsProcessors(const GenerationConfig& config, const PromptFacts& prompt);

  /// @param ids int64 [batch, length]: prompt and tokens so far
  /// @param scores float32 [batch, vocabulary]
  /// @return the same shape; tokens that are out of the question have minus infinity
  at::Tensor operator()(const at::Tensor& ids, at::Tensor scores) const;

 private:
  using Step = std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& scores)>;

  void add_processors(const GenerationConfig& config, const PromptFacts& prompt);
  void add_filters(const GenerationConfig& config);

  std::vector<Step> steps_;
};

/// int64 [batch]: the best token of each row, or one drawn by the scores' softmax.
at::Tensor choose_tokens(const at::Tensor& scores, bool do_sample, std::optional<at::Generator> generator = {});

}  // namespace exporters
