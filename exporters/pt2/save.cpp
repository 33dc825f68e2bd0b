#include "exporters/pt2/save.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/pt2/extra_json.h"
#include "exporters/pt2/program_json.h"
#include "exporters/pt2/sample_inputs.h"
#include "exporters/pt2/schema.h"
#include "exporters/pt2/state_files.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/progress.h"
#include "exporters/weights/zip_writer.h"

#include <fmt/format.h>

namespace exporters {
namespace {

using namespace pt2;

// One name for all archives, so that the same program gives the same bytes under every file name.
constexpr std::string_view kRoot = "archive/";

class ArchiveWriter {
 public:
  explicit ArchiveWriter(AtomicFile& file) : zip_(file) {}

  template <typename... Parts>
  void add(std::string_view text, const Parts&... path) {
    zip_.add(name(path...), text);
  }

  void add_state(std::string_view folder, const StateFolder& state, std::string_view config_suffix) {
    uint64_t total = 0;
    for (const StateFile& file : state.files) {
      total += file.size();
    }
    Progress progress("Writing weights", total, Progress::Unit::kBytes);
    auto advance = [&](uint64_t nbytes) { progress.advance(nbytes); };
    for (const StateFile& file : state.files) {
      if (file.source) {
        zip_.add_range(name(folder, file.name), file.source->file, file.source->offset, file.source->nbytes, advance);
      } else if (file.deferred.defined()) {
        zip_.add_pieces(
            name(folder, file.name), file.size(), [&](const ByteSink& sink) { write_deferred(file.deferred, sink); },
            advance);
      } else {
        zip_.add(name(folder, file.name), file.bytes);
        progress.advance(file.bytes.size());
      }
    }
    add(state.config, folder, kDefaultModel, config_suffix);
  }

  // PyTorch tells archives apart by this; ours is made of what the archive holds.
  void finish() {
    add(fmt::format("{:040}", zip_.digest()), ".data/serialization_id");
    zip_.finish();
  }

 private:
  template <typename... Parts>
  static std::string name(const Parts&... parts) {
    std::string result(kRoot);
    ((result += parts), ...);
    return result;
  }

  ZipWriter zip_;
};

}  // namespace

void save_pt2(const ExportedProgram& program, const std::filesystem::path& target) {
  verify(program);
  const std::optional<std::string> samples = sample_inputs_archive(program);
  const std::string model = program_json(program, samples.has_value());
  const StateFolder weights = weight_files(program);
  const StateFolder constants = constant_files(program);

  AtomicFile file(target);
  ArchiveWriter archive(file);
  archive.add(kFormat, kFormatFile);
  archive.add(kVersion, kVersionFile);
  archive.add(kZipVersion, kZipVersionFile);
  archive.add(kByteOrder, kByteOrderFile);
  archive.add(model, kModelsFolder, kDefaultModel, kModelSuffix);
  if (const std::string extra = extra_json(program); !extra.empty()) {
    archive.add(extra, kExtraFile);
  }
  archive.add(samples.value_or(""), kSampleInputsFolder, kDefaultModel, kSampleInputsSuffix);
  archive.add_state(kWeightsFolder, weights, kWeightsConfigSuffix);
  archive.add_state(kConstantsFolder, constants, kConstantsConfigSuffix);
  archive.finish();
  file.commit();
}

}  // namespace exporters
