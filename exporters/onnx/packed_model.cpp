#include "exporters/onnx/packed_model.h"

#include "exporters/onnx/runner.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <fmt/format.h>
#include <onnxruntime_session_options_config_keys.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <set>

namespace exporters::onnx {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModel = "packed.onnx";
constexpr const char* kMadeOf = "made_of.json";

// What packed weights look like depends on the instructions that the processor has.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string name;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features") ||
        line.starts_with("CPU part")) {
      name += line.substr(line.find(':') + 1);
    }
  }
  return name;
}

json stamp(const fs::path& file) {
  return {{"bytes", fs::file_size(file)}, {"modified", fs::last_write_time(file).time_since_epoch().count()}};
}

json made_of(const OnnxModel& model, const fs::path& path, const std::string& settings) {
  std::set<std::string> locations;
  for_each_tensor(model.graph, [&](const OnnxTensor& tensor) {
    if (const auto* stored = std::get_if<StoredBytes>(&tensor.data)) {
      locations.insert(stored->location);
    }
  });
  json weights = json::object();
  for (const std::string& location : locations) {
    weights[location] = stamp(path.parent_path() / location);
  }
  return {{"model", stamp(path)},
          {"weights", weights},
          {"onnxruntime", onnxruntime_version()},
          {"processor", processor()},
          {"settings", settings}};
}

bool is_current(const fs::path& folder, const json& source) {
  return fs::exists(folder / kMadeOf) && read_json(folder / kMadeOf) == source;
}

// Nothing but what this makes is replaced.
void check_folder(const fs::path& folder) {
  if (fs::exists(folder) && !fs::exists(folder / kMadeOf) && !(fs::is_directory(folder) && fs::is_empty(folder))) {
    throw Error(fmt::format("{} is not a folder of packed weights", folder.string()), {},
                "Name a new folder, or an empty one, for each model.");
  }
}

}  // namespace

fs::path packed_model(const OnnxModel& model, const fs::path& path, const fs::path& folder, const std::string& settings,
                      Ort::Env& env, Ort::SessionOptions options) {
  check_folder(folder);
  const json source = made_of(model, path, settings);
  if (!is_current(folder, source)) {
    AtomicFolder made(folder, {.keep = [](const fs::path&) { return false; }});
    const std::string data = std::string(kModel) + ".data";
    options.SetOptimizedModelFilePath((made.path() / kModel).c_str());
    options.AddConfigEntry(kOrtSessionOptionsOptimizedModelExternalInitializersFileName, data.c_str());
    options.AddConfigEntry(kOrtSessionOptionsOptimizedModelExternalInitializersMinSizeInBytes,
                           "1024");  // others: inside
    options.AddConfigEntry(kOrtSessionOptionsSavePrePackedConstantInitializers, "1");
    Ort::Session(env, path.c_str(), options);  // writes the copy as it loads the model
    write_file(made.path() / kMadeOf, pretty_json(source));
    made.commit();
  }
  return folder / kModel;
}

}  // namespace exporters::onnx
