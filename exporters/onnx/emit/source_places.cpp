#include "exporters/onnx/emit/source_places.h"

#include "exporters/onnx/emit/external_data.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

namespace exporters::onnx {

namespace fs = std::filesystem;

void SourcePlaces::place(OnnxGraph& graph, const Locate& locate) {
  for (OnnxTensor* tensor : pending_tensors(graph)) {
    const auto* source = std::get_if<WeightSource>(&tensor->data);
    if (source == nullptr) {
      continue;
    }
    const uint64_t nbytes = checked_nbytes(*tensor, *source);
    auto known = by_file_.find(source->file);
    if (known == by_file_.end()) {
      const uint64_t size = fs::exists(source->file) ? fs::file_size(source->file) : 0;
      known = by_file_.emplace(source->file, Place{locate(source->file), size}).first;
    }
    const Place& place = known->second;
    ensure(source->offset <= place.size && nbytes <= place.size - source->offset,
           "{} has {}, too few for '{}' with {} at {}: it is not the file that the model was made from",
           quote(source->file, 400), bytes_text(place.size), source->key, bytes_text(nbytes), source->offset);
    tensor->data = StoredBytes{place.location, source->offset, nbytes};
  }
}

std::string location_below(const fs::path& folder, const fs::path& file) {
  const fs::path base = fs::weakly_canonical(folder.empty() ? fs::path(".") : folder);
  const fs::path relative = fs::weakly_canonical(file).lexically_relative(base);
  if (relative.empty() || *relative.begin() == ".." || *relative.begin() == ".") {
    throw Error(
        fmt::format("the weights lie in {}, which is not in {} or below it, and ONNX Runtime opens no other files",
                    quote(file.native(), 400), quote(folder.native(), 400)),
        {},
        "Export to the folder of the weights or one above it (weights=reference), or make the folder stand alone "
        "with weights=link or weights=copy.");
  }
  return relative.generic_string();
}

}  // namespace exporters::onnx
