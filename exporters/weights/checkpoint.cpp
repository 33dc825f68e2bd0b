#include "exporters/weights/checkpoint.h"

#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"
#include "exporters/weights/shard_index.h"

#include <algorithm>
#include <array>

namespace exporters {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

// Also a link that leads nowhere: opening it says what is wrong, and not that there is nothing.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

struct OtherWeights {
  std::string_view end;
  std::string_view hint;
};
constexpr std::array kOtherWeights{
    OtherWeights{".bin",
                 "It has PyTorch weights ({}), which are Python pickles: convert them with transformers "
                 "(`from_pretrained`, then `save_pretrained`), which writes safetensors."},
    OtherWeights{".bin.index.json",
                 "It has PyTorch weights ({}), which are Python pickles: convert them with "
                 "transformers (`from_pretrained`, then `save_pretrained`), which writes safetensors."},
    OtherWeights{".safetensors", "It has {}: give that file itself."},
    OtherWeights{".safetensors.index.json", "It has {}: give that file itself."},
    OtherWeights{".gguf", "It has GGUF weights ({}), which are not read: use the model's safetensors files."},
    OtherWeights{".h5", "It has TensorFlow weights ({}), which are not read: use the model's safetensors files."},
    OtherWeights{".msgpack", "It has Flax weights ({}), which are not read: use the model's safetensors files."}};

// What can be said about a folder that has no checkpoint of ours.
std::string hint_for(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    names.push_back(it->path().filename().native());
  }
  std::sort(names.begin(), names.end());
  for (const OtherWeights& other : kOtherWeights) {
    for (const std::string& name : names) {
      if (name.ends_with(other.end) && name != "training_args.bin") {
        return fmt::format(fmt::runtime(other.hint), quote(name));
      }
    }
  }
  return names.empty() ? "The folder is empty." : "Give the folder that has the model's config.json and weights.";
}

[[noreturn]] void fail_no_weights(const fs::path& folder) {
  throw Error(fmt::format("No {} or {} in {}", kSingleFile, kIndexFile, quote(folder.native(), 400)), {},
              hint_for(folder));
}

std::string listed(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  constexpr size_t kMax = 3;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMax; ++i) {
    text += (i == 0 ? "" : ", ") + quote(names[i]);
  }
  return names.size() > kMax ? fmt::format("{} and {} more", text, names.size() - kMax) : text;
}

void check_shards_exist(const ShardIndex& index, const fs::path& index_file) {
  std::vector<std::string> missing;
  for (const std::string& shard : index.shards) {
    if (!is_there(index_file.parent_path() / shard)) {
      missing.push_back(shard);
    }
  }
  if (!missing.empty()) {
    throw Error(fmt::format("{} of the {} shards that {} names are missing: {}", missing.size(), index.shards.size(),
                            quote(index_file.native(), 400), listed(missing)),
                {}, "Finish the download.");
  }
}

constexpr const char* kNotOneCheckpoint = "Index and shards are not of one checkpoint: download both again.";

// What a model can be made of; 8-bit floats cannot.
constexpr std::array kFloatNames{
    std::pair{"float32", c10::ScalarType::Float}, std::pair{"float16", c10::ScalarType::Half},
    std::pair{"bfloat16", c10::ScalarType::BFloat16}, std::pair{"float64", c10::ScalarType::Double}};

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  std::error_code code;
  if (!fs::is_directory(path, code)) {
    path.native().ends_with(kIndexSuffix) ? checkpoint.open_sharded(path) : checkpoint.open_single(path);
  } else if (is_there(path / kSingleFile)) {
    if (is_there(path / kIndexFile)) {
      log_info("{} has both {} and {}; the single file is used, as in transformers", quote(path.native(), 400),
               kSingleFile, kIndexFile);
    }
    checkpoint.open_single(path / kSingleFile);
  } else if (is_there(path / kIndexFile)) {
    checkpoint.open_sharded(path / kIndexFile);
  } else {
    fail_no_weights(path);
  }
  for (const auto& [name, entry] : checkpoint.entries_) {
    checkpoint.names_.emplace_back(name);
  }
  std::sort(checkpoint.names_.begin(), checkpoint.names_.end());
  return checkpoint;
}

void Checkpoint::open_single(const fs::path& path) {
  std::shared_ptr<const SafetensorsFile> file = SafetensorsFile::open(path);
  for (const SafetensorsEntry& entry : file->entries()) {
    entries_.emplace(entry.name, CheckpointEntry{file, &entry});
  }
  files_.push_back(std::move(file));
}

void Checkpoint::open_sharded(const fs::path& index_file) {
  ShardIndex index = ShardIndex::read(index_file);
  index_dtype_ = index.dtype;
  check_shards_exist(index, index_file);
  for (const std::string& shard : index.shards) {
    files_.push_back(SafetensorsFile::open(index_file.parent_path() / shard));
  }
  merge_shards(index, index_file.parent_path());
  check_index(index, index_file);
}

// A tensor that several shards hold is the one in the shard that the index names.
void Checkpoint::merge_shards(const ShardIndex& index, const fs::path& folder) {
  auto is_placed_in = [&](const CheckpointEntry& entry) {
    auto placed = index.weight_map.find(entry.tensor->name);
    return placed != index.weight_map.end() && entry.file->path() == folder / placed->second;
  };
  std::vector<std::pair<CheckpointEntry, CheckpointEntry>> twice;
  for (const std::shared_ptr<const SafetensorsFile>& file : files_) {
    for (const SafetensorsEntry& tensor : file->entries()) {
      CheckpointEntry entry{file, &tensor};
      auto [it, is_new] = entries_.try_emplace(tensor.name, entry);
      if (is_new) {
        continue;
      }
      twice.emplace_back(it->second, entry);
      if (is_placed_in(entry)) {
        it->second = entry;
      }
    }
  }
  for (const auto& [first, second] : twice) {
    if (!is_placed_in(*find(first.tensor->name))) {
      throw Error(fmt::format("The tensor {} is in two shards, {} and {}, and the index names neither",
                              quote(first.tensor->name), quote(first.file->path().native(), 400),
                              quote(second.file->path().native(), 400)),
                  {}, kNotOneCheckpoint);
    }
  }
}

void Checkpoint::check_index(const ShardIndex& index, const fs::path& index_file) const {
  std::vector<std::string> absent;
  std::vector<std::string> elsewhere;
  std::vector<std::string> unlisted;
  for (const auto& [tensor, shard] : index.weight_map) {
    const CheckpointEntry* entry = find(tensor);
    if (entry == nullptr) {
      absent.push_back(tensor);
    } else if (entry->file->path() != index_file.parent_path() / shard) {
      elsewhere.push_back(tensor);
    }
  }
  for (const auto& [name, entry] : entries_) {
    if (!index.weight_map.contains(std::string(name))) {
      unlisted.emplace_back(name);
    }
  }
  std::string file = quote(index_file.native(), 400);
  if (!absent.empty()) {
    std::string first = *std::min_element(absent.begin(), absent.end());
    throw Error(fmt::format("{} names tensors that no shard holds: {}; {} should be in {}", file, listed(absent),
                            quote(first), quote(index.weight_map.at(first))),
                {}, kNotOneCheckpoint);
  }
  if (!elsewhere.empty()) {
    warn_once(fmt::format("{} places tensors in other shards than they are in: {}. They are taken from where they are",
                          file, listed(elsewhere)));
  }
  if (!unlisted.empty()) {
    warn_once(fmt::format("{} does not list tensors that its shards hold: {}. They belong to the checkpoint as well",
                          file, listed(unlisted)));
  }
}

const CheckpointEntry* Checkpoint::find(std::string_view name) const {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

StateTensor Checkpoint::load(std::string_view name) const {
  const CheckpointEntry* entry = find(name);
  if (entry == nullptr) {
    throw Error(fmt::format("The checkpoint {} has no tensor {}", quote(path_.native(), 400), quote(name)), {},
                did_you_mean(name, names_));
  }
  return load(*entry);
}

StateTensor Checkpoint::load(const CheckpointEntry& entry) const {
  return {entry.file->tensor(*entry.tensor), entry.file->source(*entry.tensor)};
}

std::vector<fs::path> Checkpoint::files() const {
  std::vector<fs::path> paths;
  for (const std::shared_ptr<const SafetensorsFile>& file : files_) {
    paths.push_back(file->path());
  }
  return paths;
}

uint64_t Checkpoint::nbytes() const {
  uint64_t sum = 0;
  for (const auto& [name, entry] : entries_) {
    sum += entry.tensor->nbytes;
  }
  return sum;
}

c10::ScalarType Checkpoint::default_dtype() const {
  for (const auto& [name, dtype] : kFloatNames) {
    if (index_dtype_ == name) {
      return dtype;
    }
  }
  std::vector<const SafetensorsEntry*> tensors;
  for (const SafetensorsEntry& entry : files_.front()->entries()) {
    tensors.push_back(&entry);
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const SafetensorsEntry* entry : tensors) {
    for (const auto& [name, dtype] : kFloatNames) {
      if (entry->dtype == dtype) {
        return dtype;
      }
    }
  }
  return tensors.empty() ? c10::ScalarType::Float : tensors.front()->dtype;
}

}  // namespace exporters
