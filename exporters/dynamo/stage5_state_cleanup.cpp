// ── Stage 5: State cleanup ──
//
// Some modules keep a tensor of one forward for the next: a table of rotary embeddings, the length that it was made
// for. Such an attribute must not flow into a trace, where it would become a constant, and what a trace leaves there is
// a tensor without data. So the attributes whose names are registered are cleared for the trace and restored after it.
//
// To extend: add the attribute's name to `stateful_cache_attrs`, or at run time with register_stateful_cache_attr; a
// source lists where its modules have it (ExportSource::attributes).
#include "exporters/dynamo/stages.h"

#include <algorithm>
#include <mutex>

namespace exporters {
namespace {

struct Attributes {
  std::mutex mutex;
  std::vector<StatefulCacheAttr> all = {
      {"cached_rotary_positional_embedding", "rotary tables of wav2vec2_bert, seamless_m4t and clvp"},
      {"cached_sequence_length", "the length that those tables were made for"},
  };
};

Attributes& attributes() {
  static Attributes instance;
  return instance;
}

std::string_view last_part(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace

std::vector<StatefulCacheAttr> stateful_cache_attrs() {
  const std::lock_guard lock(attributes().mutex);
  return attributes().all;
}

void register_stateful_cache_attr(std::string name, std::string reason) {
  const std::lock_guard lock(attributes().mutex);
  std::vector<StatefulCacheAttr>& all = attributes().all;
  if (std::none_of(all.begin(), all.end(), [&](const StatefulCacheAttr& attr) { return attr.name == name; })) {
    all.push_back({std::move(name), std::move(reason)});
  }
}

ResetModelState::ResetModelState(const ExportSource& model) {
  const std::vector<StatefulCacheAttr> registered = stateful_cache_attrs();
  for (const ModuleAttribute& attribute : model.attributes) {
    const bool is_stateful = std::any_of(registered.begin(), registered.end(), [&](const StatefulCacheAttr& attr) {
      return attr.name == last_part(attribute.name);
    });
    if (is_stateful && attribute.tensor != nullptr) {
      originals_.push_back({attribute.tensor, *attribute.tensor});
    }
  }
  for (const Original& original : originals_) {
    original.attribute->reset();
  }
}

ResetModelState::~ResetModelState() {
  for (Original& original : originals_) {
    *original.attribute = std::move(original.value);
  }
}

}  // namespace exporters
