#pragma once

#include "exporters/weights/zip_archive.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace exporters::pt2 {

/// A .pt2 archive: a zip file with one root folder. Names of entries are those below it ("models/model.json").
class Archive {
 public:
  /// Throws Error, with what the file is where that can be said, for everything but a .pt2 archive of the known version
  /// that holds one program, or several of which one is called "model".
  static Archive open(const std::filesystem::path& file);

  const ZipArchive& zip() const { return zip_; }
  /// The name of the program: "model".
  const std::string& model() const { return model_; }

  const ZipEntry* find(std::string_view name) const;
  /// Throws Error that says that the archive lacks the entry.
  const ZipEntry& at(std::string_view name) const;
  /// The entry's content, held against its checksum. Throws Error for entries over `max_bytes` before anything is
  /// allocated.
  std::string text(std::string_view name, uint64_t max_bytes) const;

 private:
  explicit Archive(ZipArchive zip) : zip_(std::move(zip)) {}
  void find_root();
  void check_versions() const;
  void choose_model();

  ZipArchive zip_;
  std::string root_;  ///< "model/"
  std::string model_;
};

}  // namespace exporters::pt2
