#include "exporters/models/loading.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/models/registry.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/quote.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace exporters::models {
namespace {

constexpr size_t kMaxNamesInMessage = 8;

struct Rename {
  std::string_view ending;
  std::string_view replacement;
};
// Checkpoints converted from TensorFlow.
constexpr Rename kLegacyEndings[] = {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}};

// Parts of keys that the reference renames for every family that has them.
constexpr Rename kFormerParts[] = {{".block_sparse_moe.", ".mlp."}};

// Checkpoints hold experts one by one, "experts.3.w1.weight"; a model has the matrices of all in one parameter, those
// that make gate and up below each other.
struct ExpertPiece {
  std::string_view ending;
  std::string_view parameter;
  int64_t place;  ///< among the `count` matrices of an expert
  int64_t count;
};
constexpr ExpertPiece kExpertPieces[] = {
    {"gate_proj.weight", "gate_up_proj", 0, 2}, {"up_proj.weight", "gate_up_proj", 1, 2},
    {"down_proj.weight", "down_proj", 0, 1},    {"w1.weight", "gate_up_proj", 0, 2},
    {"w3.weight", "gate_up_proj", 1, 2},        {"w2.weight", "down_proj", 0, 1},
};
constexpr std::string_view kExperts = "experts.";
constexpr int64_t kMaxExperts = 100'000;

const ExpertPiece* find_piece(std::string_view ending) {
  const auto* found = std::find_if(std::begin(kExpertPieces), std::end(kExpertPieces),
                                   [ending](const ExpertPiece& piece) { return piece.ending == ending; });
  return found == std::end(kExpertPieces) ? nullptr : found;
}

std::string modern_name(std::string_view key) {
  std::string name(key);
  for (const Rename& rename : kFormerParts) {
    if (const size_t at = name.find(rename.ending); at != std::string::npos) {
      name.replace(at, rename.ending.size(), rename.replacement);
    }
  }
  for (const Rename& rename : kLegacyEndings) {
    if (key.ends_with(rename.ending)) {
      name.replace(name.size() - rename.ending.size(), rename.ending.size(), rename.replacement);
    }
  }
  return name;
}

std::string shortened(std::vector<std::string> names) {
  const size_t count = names.size();
  if (count > kMaxNamesInMessage) {
    names.resize(kMaxNamesInMessage);
    return fmt::format("{} and {} more", fmt::join(names, ", "), count - kMaxNamesInMessage);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Keys of buffers that older versions of the reference stored for many models.
constexpr std::string_view kFormerBuffers[] = {"position_ids", "rotary_emb.inv_freq"};

bool ends_with_name(std::string_view key, std::string_view name) {
  return key.ends_with(name) && (key.size() == name.size() || key[key.size() - name.size() - 1] == '.');
}

}  // namespace

StateLoader::StateLoader(PreTrainedModel& model, const Checkpoint& checkpoint)
    : model_(model), checkpoint_(checkpoint), rules_(model.key_rules()) {
  model.for_each_slot([&](const std::string& name, const Slot& slot) {
    if (slot.persistent()) {
      wanted_.emplace(name, &slot);
      order_.push_back(name);
    }
  });
}

void StateLoader::run(std::optional<c10::ScalarType> dtype, bool defer) {
  dtype_ = dtype.value_or(stored_dtype());
  match_keys();
  pair_tied_weights();
  check_missing();
  check_shapes();
  fill(defer);
  join_pieces(defer);
  tie();
  make_missing();
  report();
}

c10::ScalarType StateLoader::stored_dtype() const {
  for (const std::string& key : checkpoint_.names()) {
    const c10::ScalarType dtype = checkpoint_.find(key)->tensor->dtype;
    if (c10::isFloatingType(dtype) && !c10::isFloat8Type(dtype)) {
      return dtype;
    }
  }
  return c10::ScalarType::Float;
}

// The base model's prefix is taken away or added where that makes the key fit, as the reference does.
std::string StateLoader::model_name(std::string_view key) const {
  std::string name = modern_name(key);
  for (const auto& [before, now] : rules_.renamed) {
    if (key.starts_with(before)) {
      name = now + name.substr(before.size());
    }
  }
  return fitted(name).value_or(name);
}

std::optional<std::string> StateLoader::fitted(const std::string& name) const {
  const std::string prefix = std::string(model_.base_model_prefix()) + ".";
  if (name.starts_with(prefix) && wanted_.contains(name.substr(prefix.size()))) {
    return name.substr(prefix.size());
  }
  for (const std::string& candidate : {prefix + name, name}) {
    if (wanted_.contains(candidate)) {
      return candidate;
    }
  }
  return std::nullopt;
}

// Whether a key is one expert's part of a parameter of all; then it is noted there.
bool StateLoader::take_piece(const std::string& name, const std::string& key) {
  const size_t number = name.rfind(kExperts) + kExperts.size();
  const size_t end = name.rfind(kExperts) == std::string::npos ? std::string::npos : name.find('.', number);
  if (end == std::string::npos || end == number || end - number > 6 ||
      name.find_first_not_of("0123456789", number) != end) {
    return false;
  }
  const ExpertPiece* piece = find_piece(std::string_view(name).substr(end + 1));
  const auto parameter =
      piece != nullptr ? fitted(name.substr(0, number).append(piece->parameter)) : std::optional<std::string>();
  const int64_t expert = std::stoll(name.substr(number, end - number));
  if (!parameter || expert > kMaxExperts) {
    return false;
  }
  const auto [stored, is_new] = pieces_[*parameter].emplace(expert * piece->count + piece->place, key);
  if (!is_new) {
    throw Error(fmt::format("{} and {} are both stored for expert {} of {}", quote(stored->second), quote(key), expert,
                            *parameter),
                checkpoint_.path().string());
  }
  return true;
}

bool StateLoader::is_passed_over(std::string_view key) const {
  const auto ends = [key](std::string_view name) { return ends_with_name(key, name); };
  const auto begins = [key](std::string_view name) { return key.starts_with(name); };
  return std::any_of(std::begin(kFormerBuffers), std::end(kFormerBuffers), ends) ||
         std::any_of(rules_.former_buffers.begin(), rules_.former_buffers.end(), ends) ||
         std::any_of(rules_.unused.begin(), rules_.unused.end(), begins);
}

// The reference's `_keep_in_fp32_modules`.
c10::ScalarType StateLoader::dtype_of(std::string_view name) const {
  const auto is_part = [name](std::string_view module) { return name.find(module) != std::string_view::npos; };
  const bool kept = dtype_ == c10::ScalarType::Half &&
                    std::any_of(rules_.kept_in_float32.begin(), rules_.kept_in_float32.end(), is_part);
  return kept ? c10::ScalarType::Float : dtype_;
}

void StateLoader::match_keys() {
  for (const std::string& key : checkpoint_.names()) {
    const std::string name = model_name(key);
    if (!wanted_.contains(name)) {
      if (!take_piece(name, key) && !is_passed_over(key)) {
        report_.surplus_keys.push_back(key);
      }
      continue;
    }
    const auto [stored, is_new] = stored_.emplace(name, key);
    if (!is_new) {
      throw Error(fmt::format("{} and {} are both stored for parameter {}", quote(stored->second), quote(key), name),
                  checkpoint_.path().string());
    }
  }
}

// One of several that are tied may stand for the others: the source, else the first that is stored. Where another one
// is stored too and differs, the reference uses both.
void StateLoader::pair_tied_weights() {
  const std::vector<TiedWeights> pairs = model_.tied_weights();
  for (const TiedWeights& pair : pairs) {
    if (!stored_.contains(pair.source) && !tied_.contains(pair.source) && stored_.contains(pair.target)) {
      tied_.emplace(pair.source, pair.target);
    }
  }
  for (const TiedWeights& pair : pairs) {
    const auto stand_in = tied_.find(pair.source);
    const std::string& source = stand_in != tied_.end() ? stand_in->second : pair.source;
    if (pair.target == source || !stored_.contains(source)) {
      continue;
    }
    if (stored_.contains(pair.target) && !is_same(pair.target, source)) {
      report_.untied.push_back(pair.target);
      continue;
    }
    stored_.erase(pair.target);
    tied_.emplace(pair.target, source);
  }
}

bool StateLoader::is_same(const std::string& a, const std::string& b) const {
  const at::Tensor first = checkpoint_.load(stored_.at(a)).tensor;
  const at::Tensor second = checkpoint_.load(stored_.at(b)).tensor;
  return first.dtype() == second.dtype() && first.sizes() == second.sizes() && at::equal(first, second);
}

void StateLoader::check_missing() const {
  std::vector<std::string> missing;
  for (const std::string& name : order_) {
    const bool is_given = stored_.contains(name) || tied_.contains(name) || pieces_.contains(name);
    if (!is_given && !wanted_.at(name)->make) {
      missing.push_back(name);
    }
  }
  if (missing.empty()) {
    return;
  }
  std::string hint = "Choose the task or architecture that the checkpoint was saved for";
  if (!report_.surplus_keys.empty()) {
    hint += fmt::format("; it has besides: {}", shortened(report_.surplus_keys));
  }
  throw Error(fmt::format("the checkpoint lacks {} of {}: {}", missing.size() == 1 ? "a parameter" : "parameters",
                          model_.class_name(), shortened(missing)),
              checkpoint_.path().string(), hint);
}

void StateLoader::check_shapes() const {
  std::vector<std::string> problems;
  for (const auto& [name, key] : stored_) {
    const SafetensorsEntry& stored = *checkpoint_.find(key)->tensor;
    const std::vector<int64_t>& expected = wanted_.at(name)->shape;
    if (stored.shape != expected) {
      problems.push_back(
          fmt::format("{} is {}, the config makes it {}", name, shape_text(stored.shape), shape_text(expected)));
    } else if (!c10::isFloatingType(stored.dtype) || c10::isFloat8Type(stored.dtype)) {
      problems.push_back(fmt::format("{} has dtype {}, which is not a weight's", name, c10::toString(stored.dtype)));
    }
  }
  check_pieces(problems);
  if (!problems.empty()) {
    throw Error(fmt::format("parameters of {} do not fit: {}", model_.class_name(), shortened(problems)),
                checkpoint_.path().string());
  }
}

void StateLoader::check_pieces(std::vector<std::string>& problems) const {
  for (const auto& [name, keys] : pieces_) {
    if (stored_.contains(name)) {
      problems.push_back(fmt::format("{} is stored as one and by expert", name));
      continue;
    }
    // [experts, rows of all matrices, columns]
    const std::vector<int64_t>& whole = wanted_.at(name)->shape;
    const int64_t matrices = name.ends_with("gate_up_proj") ? 2 : 1;
    const int64_t count = whole.at(0) * matrices;
    if (static_cast<int64_t>(keys.size()) != count || keys.rbegin()->first != count - 1) {
      problems.push_back(
          fmt::format("{} is stored by expert in {} matrices, the config makes it {}", name, keys.size(), count));
      continue;
    }
    const std::vector<int64_t> expected = {whole.at(1) / matrices, whole.at(2)};
    for (const auto& [place, key] : keys) {
      const SafetensorsEntry& stored = *checkpoint_.find(key)->tensor;
      if (stored.shape != expected || !c10::isFloatingType(stored.dtype) || c10::isFloat8Type(stored.dtype)) {
        problems.push_back(fmt::format("{} is {} of {}, the config makes it {}", key, shape_text(stored.shape),
                                       c10::toString(stored.dtype), shape_text(expected)));
      }
    }
  }
}

// Without `defer` it copies: no file holds these parameters in one piece.
void StateLoader::join_pieces(bool defer) {
  for (const auto& [name, keys] : pieces_) {
    const Slot& slot = *wanted_.at(name);
    if (defer) {
      std::vector<StoredValues> parts;
      for (const auto& [place, key] : keys) {
        const CheckpointEntry& entry = *checkpoint_.find(key);
        parts.push_back({entry.file->source(*entry.tensor), entry.tensor->dtype});
      }
      *slot.tensor = defer_join(std::move(parts), slot.shape, dtype_of(name));
      continue;
    }
    at::Tensor whole = at::empty(slot.shape, at::TensorOptions().dtype(dtype_of(name)));
    const at::Tensor places = whole.view({static_cast<int64_t>(keys.size()), -1, slot.shape.back()});
    for (const auto& [place, key] : keys) {
      const CheckpointEntry& entry = *checkpoint_.find(key);
      places.select(0, place).copy_(entry.file->tensor(*entry.tensor));
    }
    *slot.tensor = std::move(whole);
  }
}

void StateLoader::fill(bool defer) {
  for (const auto& [name, key] : stored_) {
    const CheckpointEntry& entry = *checkpoint_.find(key);
    at::Tensor& tensor = *wanted_.at(name)->tensor;
    const c10::ScalarType dtype = dtype_of(name);
    if (entry.tensor->dtype == dtype) {
      tensor = entry.file->tensor(*entry.tensor);
      model_.sources_.emplace(&tensor, entry.file->source(*entry.tensor));
    } else if (defer) {
      tensor = defer_conversion(entry.file->source(*entry.tensor), entry.tensor->dtype, entry.tensor->shape, dtype);
    } else {
      tensor = entry.file->tensor(*entry.tensor).to(dtype);
    }
  }
}

void StateLoader::tie() {
  for (const auto& [name, other] : tied_) {
    at::Tensor& tensor = *wanted_.at(name)->tensor;
    tensor = *wanted_.at(other)->tensor;
    if (const auto source = model_.sources_.find(wanted_.at(other)->tensor); source != model_.sources_.end()) {
      model_.sources_.emplace(&tensor, source->second);
    }
  }
}

// What the checkpoint does not hold, as far as the model knows its value.
void StateLoader::make_missing() {
  model_.for_each_slot([this](const std::string& name, const Slot& slot) {
    if (slot.make && !stored_.contains(name) && !tied_.contains(name)) {
      const at::Tensor made = slot.make();
      *slot.tensor = slot.in_model_dtype ? made.to(dtype_) : made;
    }
  });
}

void StateLoader::report() {
  report_.dtype = dtype_;
  if (!report_.surplus_keys.empty()) {
    log_warning("{}: {} of the checkpoint's tensors are not used by {}: {}", checkpoint_.path().string(),
                report_.surplus_keys.size(), model_.class_name(), shortened(report_.surplus_keys));
  }
  for (const std::string& name : report_.untied) {
    log_warning(
        "{}: the config ties {} to another parameter, but the checkpoint stores different values: both are used",
        checkpoint_.path().string(), name);
  }
  model_.report_ = std::move(report_);
}

namespace {

std::unique_ptr<PreTrainedModel> load(const std::filesystem::path& folder, const LoadOptions& options, bool defer) {
  const ModelConfig config = ModelConfig::load(folder);
  std::unique_ptr<PreTrainedModel> model = find(config, options.task, options.architecture).make(config);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  StateLoader(*model, checkpoint).run(options.dtype ? options.dtype : config.dtype(), defer);
  if (options.attention) {
    model->set_attention(*options.attention);
  }
  return model;
}

}  // namespace

std::unique_ptr<PreTrainedModel> load(const std::filesystem::path& folder, const LoadOptions& options) {
  return load(folder, options, /*defer=*/false);
}

std::unique_ptr<PreTrainedModel> load_for_export(const std::filesystem::path& folder, const LoadOptions& options) {
  return load(folder, options, /*defer=*/true);
}

}  // namespace exporters::models
