#include "exporters/weights/load_state.h"

#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace exporters {
namespace {

std::string listed(const std::vector<std::string>& names, size_t max) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < max; ++i) {
    text += (i == 0 ? "" : ", ") + quote(names[i]);
  }
  return names.size() > max ? fmt::format("{} and {} more", text, names.size() - max) : text;
}

// The names under which a checkpoint may hold a parameter, the likeliest first.
std::vector<std::string> possible_keys(const std::string& name, const MatchRules& rules) {
  std::vector<std::string> keys{name};
  if (!rules.base_prefix.empty()) {
    std::string prefix = rules.base_prefix + ".";
    keys.push_back(name.starts_with(prefix) ? name.substr(prefix.size()) : prefix + name);
  }
  size_t count = keys.size();
  for (size_t i = 0; i < count; ++i) {
    for (const auto& [old_end, end] : rules.old_ends) {
      if (keys[i].ends_with(end)) {
        keys.push_back(keys[i].substr(0, keys[i].size() - end.size()) + old_end);
      }
    }
  }
  return keys;
}

bool is_ignored(const std::string& key, const MatchRules& rules) {
  return std::any_of(rules.ignored_ends.begin(), rules.ignored_ends.end(),
                     [&](const std::string& end) { return key.ends_with(end); });
}

}  // namespace

ParameterMatch match_parameters(std::span<const ExpectedParameter> parameters, const Checkpoint& checkpoint,
                                const MatchRules& rules) {
  ParameterMatch match;
  std::unordered_set<std::string> used;
  for (const ExpectedParameter& parameter : parameters) {
    std::vector<std::string> keys = possible_keys(parameter.name, rules);
    auto key = std::find_if(keys.begin(), keys.end(), [&](const std::string& k) { return checkpoint.contains(k); });
    if (key == keys.end()) {
      (parameter.optional ? match.absent : match.missing).push_back(parameter.name);
      continue;
    }
    used.insert(*key);
    const std::vector<int64_t>& shape = checkpoint.find(*key)->tensor->shape;
    if (shape == parameter.shape) {
      match.keys.emplace(parameter.name, *key);
    } else {
      match.mismatched.push_back({parameter.name, *key, parameter.shape, shape});
    }
  }
  for (const std::string& key : checkpoint.names()) {
    if (!used.contains(key) && !is_ignored(key, rules)) {
      match.surplus.push_back(key);
    }
  }
  return match;
}

void require_complete(const ParameterMatch& match, const Checkpoint& checkpoint, std::string_view model) {
  std::string file = quote(checkpoint.path().native(), 400);
  if (!match.mismatched.empty()) {
    const ShapeMismatch& first = match.mismatched.front();
    std::string more =
        match.mismatched.size() > 1 ? fmt::format(", and {} more do not fit", match.mismatched.size() - 1) : "";
    throw Error(fmt::format("{} needs {} of shape {}, but the checkpoint {} has it as {} of shape {}{}", model,
                            quote(first.name), shape_text(first.expected), file, quote(first.key),
                            shape_text(first.found), more),
                {}, "config.json and weights are not of one model.");
  }
  if (!match.missing.empty()) {
    std::string hint = did_you_mean(match.missing.front(), match.surplus);
    throw Error(
        fmt::format("The checkpoint {} lacks {} that {} needs: {}", file,
                    match.missing.size() == 1 ? "a parameter" : fmt::format("{} parameters", match.missing.size()),
                    model, listed(match.missing, 5)),
        {}, hint.empty() ? "Export the class that the checkpoint was saved from, or complete the checkpoint." : hint);
  }
  if (!match.surplus.empty()) {
    log_warning("{} does not use {} of the checkpoint {}: {}", model,
                match.surplus.size() == 1 ? "a tensor" : fmt::format("{} tensors", match.surplus.size()), file,
                listed(match.surplus, 5));
  }
}

bool same_bytes(const CheckpointEntry& a, const CheckpointEntry& b) {
  if (a.tensor->dtype != b.tensor->dtype || a.tensor->shape != b.tensor->shape) {
    return false;
  }
  // Mappings of their own: the pages of the checkpoint's ones, which tensors look at, are not this function's to drop.
  std::shared_ptr<const MappedFile> file_a = MappedFile::open(a.file->mapping()->identity());
  std::shared_ptr<const MappedFile> file_b = MappedFile::open(b.file->mapping()->identity());
  constexpr uint64_t kStep = 16u << 20;
  for (uint64_t done = 0; done < a.tensor->nbytes; done += kStep) {
    uint64_t count = std::min(kStep, a.tensor->nbytes - done);
    const std::byte* bytes_a = file_a->bytes(a.tensor->offset + done, count).data();
    const std::byte* bytes_b = file_b->bytes(b.tensor->offset + done, count).data();
    if (std::memcmp(bytes_a, bytes_b, count) != 0) {
      return false;
    }
    file_a->advise_dont_need(a.tensor->offset + done, count);
    file_b->advise_dont_need(b.tensor->offset + done, count);
  }
  return true;
}

}  // namespace exporters
