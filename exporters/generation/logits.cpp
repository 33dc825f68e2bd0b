#include "exporters/generation/logits.h"

#include "exporters/models/operators.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>

namespace exporters {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

at::Tensor indices(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

/// bool [vocabulary]
at::Tensor is_one_of(const at::Tensor& scores, const at::Tensor& tokens) {
  return at::isin(at::arange(scores.size(-1), at::kLong), tokens);
}

at::Tensor without(const at::Tensor& scores, const at::Tensor& tokens) {
  return scores.masked_fill(is_one_of(scores, tokens), kNever);
}

at::Tensor only(const at::Tensor& scores, const at::Tensor& tokens) {
  return at::where(is_one_of(scores, tokens), at::full_like(scores, 0.0), at::full_like(scores, kNever));
}

// Keskar et al., 2019. Padding before a row's first token does not count.
at::Tensor penalize_repetition(double penalty, const at::Tensor& first_token, const at::Tensor& ids,
                               const at::Tensor& scores) {
  const int64_t vocabulary = scores.size(-1);
  at::Tensor seen = ids;
  if (first_token.defined()) {
    const at::Tensor positions = at::arange(ids.size(1), at::kLong).unsqueeze(0);
    seen = seen.masked_fill(positions.lt(first_token.unsqueeze(1)), vocabulary);
  }
  seen = seen.clamp_max(vocabulary);  // one more column takes what is no token of the scores
  const at::Tensor padded = at::constant_pad_nd(scores, {0, 1});
  const at::Tensor score = at::gather(padded, 1, seen);
  const at::Tensor changed = at::where(score.lt(0), score * penalty, score / penalty);
  return at::scatter(padded, 1, seen, changed).slice(1, 0, vocabulary);
}

// Tokens that would complete an n-gram which a row has already.
at::Tensor ban_repeated_ngrams(int64_t size, const at::Tensor& ids, const at::Tensor& scores) {
  const int64_t length = ids.size(1);
  if (length + 1 < size) {
    return scores;
  }
  at::Tensor result = scores.clone();
  const at::Tensor rows = ids.contiguous();
  for (int64_t row = 0; row < rows.size(0); ++row) {
    const int64_t* tokens = rows.const_data_ptr<int64_t>() + row * length;
    const int64_t* last = tokens + length - (size - 1);
    for (int64_t start = 0; start + size <= length; ++start) {
      if (std::equal(last, tokens + length, tokens + start)) {
        result[row][tokens[start + size - 1]] = kNever;
      }
    }
  }
  return result;
}

at::Tensor keep_top_k(int64_t k, const at::Tensor& scores) {
  const at::Tensor best = std::get<0>(at::topk(scores, std::min(k, scores.size(-1))));
  return scores.masked_fill(scores.lt(best.slice(-1, -1)), kNever);
}

// Holtzman et al., 2020: the fewest tokens whose probabilities sum up to `p`.
at::Tensor keep_top_p(double p, const at::Tensor& scores) {
  const auto [sorted, order] = at::sort(scores, /*dim=*/-1, /*descending=*/false);
  at::Tensor removed = at::cumsum(at::softmax(sorted, -1), -1).le(1 - p);
  removed.slice(-1, -1).fill_(false);
  return scores.masked_fill(at::scatter(removed, 1, order, removed), kNever);
}

// Nguyen et al., 2024: tokens at least `p` times as likely as the most likely one.
at::Tensor keep_min_p(double p, const at::Tensor& scores) {
  const at::Tensor probabilities = at::softmax(scores, -1);
  at::Tensor removed = probabilities.lt(p * at::amax(probabilities, -1, /*keepdim=*/true));
  removed.scatter_(-1, std::get<1>(at::topk(probabilities, 1)), false);
  return scores.masked_fill(removed, kNever);
}

}  // namespace

LogitsProcessors::LogitsProcessors(const GenerationConfig& config, const PromptFacts& prompt) {
  add_processors(config, prompt);
  if (config.do_sample) {
    add_filters(config);
  }
}

// Order and conditions are those of GenerationMixin._get_logits_processor.
void LogitsProcessors::add_processors(const GenerationConfig& config, const PromptFacts& prompt) {
  if (config.repetition_penalty != 1.0) {
    steps_.emplace_back([penalty = config.repetition_penalty, first = prompt.first_token](const at::Tensor& ids,
                                                                                          const at::Tensor& scores) {
      return penalize_repetition(penalty, first, ids, scores);
    });
  }
  if (config.no_repeat_ngram_size > 0) {
    steps_.emplace_back([size = config.no_repeat_ngram_size](const at::Tensor& ids, const at::Tensor& scores) {
      return ban_repeated_ngrams(size, ids, scores);
    });
  }
  const int64_t min_length = config.min_new_tokens ? prompt.length + *config.min_new_tokens : config.min_length;
  if (min_length > 0 && !config.eos_token_id.empty()) {
    steps_.emplace_back(
        [min_length, ends = indices(config.eos_token_id)](const at::Tensor& ids, const at::Tensor& scores) {
          return ids.size(1) < min_length ? without(scores, ends) : scores;
        });
  }
  if (config.forced_bos_token_id) {
    steps_.emplace_back(
        [first = indices({*config.forced_bos_token_id})](const at::Tensor& ids, const at::Tensor& scores) {
          return ids.size(1) == 1 ? only(scores, first) : scores;
        });
  }
  if (!config.forced_eos_token_id.empty()) {
    steps_.emplace_back([end = prompt.end, last = indices(config.forced_eos_token_id)](const at::Tensor& ids,
                                                                                       const at::Tensor& scores) {
      return ids.size(1) == end - 1 ? only(scores, last) : scores;
    });
  }
  if (!config.suppress_tokens.empty()) {
    steps_.emplace_back([tokens = indices(config.suppress_tokens)](const at::Tensor&, const at::Tensor& scores) {
      return without(scores, tokens);
    });
  }
  if (!config.begin_suppress_tokens.empty()) {
    const int64_t begin = prompt.length > 1 || !config.forced_bos_token_id ? prompt.length : prompt.length + 1;
    steps_.emplace_back(
        [begin, tokens = indices(config.begin_suppress_tokens)](const at::Tensor& ids, const at::Tensor& scores) {
          return ids.size(1) == begin ? without(scores, tokens) : scores;
        });
  }
}

void LogitsProcessors::add_filters(const GenerationConfig& config) {
  if (config.temperature != 1.0) {
    steps_.emplace_back([temperature = config.temperature](const at::Tensor&, const at::Tensor& scores) {
      return scores / temperature;
    });
  }
  if (config.top_k != 0) {
    steps_.emplace_back(
        [k = config.top_k](const at::Tensor&, const at::Tensor& scores) { return keep_top_k(k, scores); });
  }
  if (config.top_p < 1.0) {
    steps_.emplace_back(
        [p = config.top_p](const at::Tensor&, const at::Tensor& scores) { return keep_top_p(p, scores); });
  }
  if (config.min_p) {
    steps_.emplace_back(
        [p = *config.min_p](const at::Tensor&, const at::Tensor& scores) { return keep_min_p(p, scores); });
  }
}

at::Tensor LogitsProcessors::operator()(const at::Tensor& ids, at::Tensor scores) const {
  for (const Step& step : steps_) {
    scores = step(ids, scores);
  }
  return scores;
}

at::Tensor choose_tokens(const at::Tensor& scores, bool do_sample, std::optional<at::Generator> generator) {
  if (!do_sample) {
    return at::argmax(scores, -1);
  }
  return at::multinomial(at::softmax(scores, -1), 1, /*replacement=*/false, std::move(generator)).squeeze(1);
}

}  // namespace exporters
