#include "exporters/weights/shard_index.h"

#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <set>

namespace exporters {
namespace {

// A shard is a file in the checkpoint's folder or below it. (Where a link there leads is the user's business: the
// hub's cache is made of links.)
void check_shard_name(const std::string& name, const std::string& tensor, const JsonField& weight_map) {
  std::filesystem::path path(name);
  const char* problem = nullptr;
  if (name.empty()) {
    problem = "is empty";
  } else if (path.is_absolute()) {
    problem = "is an absolute path";
  } else if (name.find('\0') != std::string::npos || name.find('\\') != std::string::npos) {
    problem = "has a character that no shard name has";
  }
  for (const std::filesystem::path& part : path) {
    if (part == "..") {
      problem = "leaves the folder with '..'";
    }
  }
  if (problem != nullptr) {
    throw Error(fmt::format("The shard {} of tensor {} in {} {}", quote(name), quote(tensor),
                            quote(weight_map.file(), 400), problem),
                {}, "Shards are named relative to the folder of the index.");
  }
}

}  // namespace

ShardIndex ShardIndex::read(const std::filesystem::path& file) {
  nlohmann::json document = read_json(file);
  JsonField weight_map = JsonField(document, file.native()).at("weight_map");
  if (!weight_map.is_object() || weight_map.value().empty()) {
    weight_map.fail_here("must be an object that names at least one tensor");
  }
  ShardIndex index;
  std::set<std::string> shards;
  const nlohmann::json& entries = weight_map.value();
  for (auto it = entries.begin(); it != entries.end(); ++it) {
    std::string shard = JsonField(*it, weight_map.file(), "weight_map." + it.key()).as_string();
    if (shards.insert(shard).second) {
      check_shard_name(shard, it.key(), weight_map);
    }
    index.weight_map.emplace(it.key(), std::move(shard));
  }
  index.shards.assign(shards.begin(), shards.end());
  if (document.contains("metadata") && document["metadata"].is_object()) {
    index.dtype = document["metadata"].value("dtype", nlohmann::json()).is_string()
                      ? document["metadata"]["dtype"].get<std::string>()
                      : std::string();
  }
  return index;
}

}  // namespace exporters
