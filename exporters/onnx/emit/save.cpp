#include "exporters/onnx/emit/save.h"

#include "exporters/onnx/emit/external_data.h"
#include "exporters/onnx/emit/inline_weights.h"
#include "exporters/onnx/emit/source_places.h"
#include "exporters/onnx/emit/writer.h"
#include "exporters/support/atomic_file.h"

#include <optional>

namespace exporters::onnx {
namespace {

namespace fs = std::filesystem;

// Models of one folder that have their weights beside them, one after the other.
class FolderSaver {
 public:
  FolderSaver(const fs::path& folder, const SaveOptions& options) : folder_(folder), options_(options) {}

  void save(const std::string& name, OnnxModel& model) {
    AtomicFile file(folder_ / name);
    const Links links = leave_in_files(name, model.graph);
    shared_.refer(model.graph);
    const std::string data_name = name + (links.empty() ? ".data" : ".data.extra");
    const ExternalData data = shared_.lay_out(model.graph, data_name);
    file.write(serialize(model));
    std::optional<AtomicFile> data_file;
    if (data.size > 0 || links.empty()) {
      write_external_data(data, data_file.emplace(folder_ / data_name));
    }
    for (const auto& [source, location] : links) {
      link_file(source, folder_ / location);
    }
    if (data_file) {
      data_file->commit();
    }
    file.commit();
  }

 private:
  using Links = std::vector<std::pair<fs::path, std::string>>;  // file → location of its link

  // Gives the links that are to be made.
  Links leave_in_files(const std::string& name, OnnxGraph& graph) {
    Links links;
    if (options_.weights == WeightsMode::kReference) {
      const fs::path& target = options_.target.empty() ? folder_ : options_.target;
      places_.place(graph, [&](const fs::path& file) { return location_below(target, file); });
    } else if (options_.weights == WeightsMode::kLink) {
      places_.place(graph, [&](const fs::path& file) {
        const std::string number = links.empty() ? "" : "." + std::to_string(links.size() + 1);
        return links.emplace_back(file, name + ".data" + number).second;
      });
    }
    return links;
  }

  const fs::path& folder_;
  const SaveOptions& options_;
  SharedData shared_;
  SourcePlaces places_;
};

// All messages are made before one is written, so that one that is too long is known in time.
void save_inline(std::vector<std::pair<std::string, OnnxModel>> models, const fs::path& folder) {
  std::vector<std::pair<fs::path, InlineModel>> messages;
  for (auto& [name, model] : models) {
    messages.emplace_back(folder / name, InlineModel(std::move(model)));
  }
  for (const auto& [path, message] : messages) {
    message.write(path);
    write_file(path.string() + ".data", "");
  }
}

}  // namespace

void save_models(std::vector<std::pair<std::string, OnnxModel>> models, const fs::path& folder,
                 const SaveOptions& options) {
  if (options.weights == WeightsMode::kInline) {
    save_inline(std::move(models), folder);
    return;
  }
  FolderSaver saver(folder, options);
  for (auto& [name, model] : models) {
    saver.save(name, model);
  }
}

void save_model(OnnxModel model, const fs::path& path, const SaveOptions& options) {
  std::vector<std::pair<std::string, OnnxModel>> models;
  models.emplace_back(path.filename().string(), std::move(model));
  save_models(std::move(models), path.parent_path(), options);
}

}  // namespace exporters::onnx
