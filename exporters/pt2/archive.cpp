#include "exporters/pt2/archive.h"

#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace exporters::pt2 {
namespace {

constexpr uint64_t kMaxVersionText = 64;

// What people take for a .pt2 file, by its first bytes. A zip archive begins with "PK".
struct OtherFile {
  size_t offset;
  std::string_view bytes;
  std::string_view what;
};
constexpr std::array kOtherFiles{
    OtherFile{4, "ET12", "an ExecuTorch program (.pte)"},
    OtherFile{0, "\x80\x02", "a Python pickle"},
    OtherFile{0, "GGUF", "a GGUF model"},
    OtherFile{0, "\x89HDF", "an HDF5 file"},
    OtherFile{0, "version https://git-lfs", "a pointer of Git LFS, not the file itself"},
    OtherFile{0, "<!DOCTYPE", "a web page"},
    OtherFile{0, "<html", "a web page"},
    OtherFile{8, "{\"", "a safetensors file"},
};

// What is in zip archives that are no .pt2 of today, by the name of an entry.
struct OtherArchive {
  std::string_view part;
  std::string_view what;
  std::string_view hint;
};
constexpr std::array kOtherArchives{
    OtherArchive{"serialized_exported_program.json", "a .pt2 of an older PyTorch, which holds its weights as pickles",
                 "Load it with torch.export.load of PyTorch 2.9 or later, and save it again with torch.export.save."},
    OtherArchive{"constants.pkl", "a TorchScript archive",
                 "Export the model with torch.export and save it with torch.export.save."},
    OtherArchive{"data.pkl", "a file of torch.save, which is a Python pickle",
                 "Export the model with torch.export and save it with torch.export.save."},
    OtherArchive{"word/", "a document", ""},
};

std::string quoted(const std::filesystem::path& path) { return quote(path.native(), 400); }

void refuse_other_files(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->size());
  for (const OtherFile& other : kOtherFiles) {
    if (text.size() >= other.offset && text.substr(other.offset).starts_with(other.bytes)) {
      fail("{} is no .pt2 archive: it is {}", quoted(path), other.what);
    }
  }
}

bool is_unsafe(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos) {
    return true;
  }
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == ".." || part == "." || part.empty()) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

}  // namespace

Archive Archive::open(const std::filesystem::path& file) {
  refuse_other_files(file);
  Archive archive(ZipArchive::open(file));
  archive.find_root();
  archive.check_versions();
  archive.choose_model();
  return archive;
}

// The root folder may have any name: it is the one that says what format it is.
void Archive::find_root() {
  for (const ZipEntry& entry : zip_.entries()) {
    if (is_unsafe(entry.name)) {
      fail("{} has an entry {}, which leads out of the archive", quoted(zip_.path()), quote(entry.name));
    }
  }
  for (const ZipEntry& entry : zip_.entries()) {
    const size_t slash = entry.name.find('/');
    if (slash != std::string::npos && entry.name.substr(slash + 1) == kFormatFile) {
      root_ = entry.name.substr(0, slash + 1);
      return;
    }
  }
  for (const OtherArchive& other : kOtherArchives) {
    for (const ZipEntry& entry : zip_.entries()) {
      if (entry.name.find(other.part) != std::string::npos) {
        throw Error(fmt::format("{} is no .pt2 archive: it is {}", quoted(zip_.path()), other.what), {},
                    std::string(other.hint));
      }
    }
  }
  fail("{} is no .pt2 archive: it has no entry '{}'", quoted(zip_.path()), kFormatFile);
}

void Archive::check_versions() const {
  const std::string format = text(kFormatFile, kMaxVersionText);
  ensure(format == kFormat, "{} has the format {}; {} is read", quoted(zip_.path()), quote(format), quote(kFormat));
  const std::string version = text(kVersionFile, kMaxVersionText);
  ensure(version == kVersion, "{} has the archive version {}; {} is read", quoted(zip_.path()), quote(version),
         quote(kVersion));
  if (find(kByteOrderFile) != nullptr) {
    const std::string order = text(kByteOrderFile, kMaxVersionText);
    ensure(order == kByteOrder, "{} has the byte order {}; {} is read", quoted(zip_.path()), quote(order),
           quote(kByteOrder));
  }
}

void Archive::choose_model() {
  const std::string folder = root_ + std::string(kModelsFolder);
  std::vector<std::string> models;
  bool compiled = false;
  for (const ZipEntry& entry : zip_.entries()) {
    if (entry.name.starts_with(folder) && entry.name.ends_with(kModelSuffix) &&
        entry.name.size() > folder.size() + kModelSuffix.size()) {
      models.push_back(entry.name.substr(folder.size(), entry.name.size() - folder.size() - kModelSuffix.size()));
    }
    compiled = compiled || entry.name.starts_with(root_ + "data/aotinductor/");
  }
  if (models.empty()) {
    throw Error(fmt::format("{} holds no program{}", quoted(zip_.path()),
                            compiled ? ", only code that AOTInductor compiled" : ""),
                {}, "Save the ExportedProgram with torch.export.save.");
  }
  if (std::find(models.begin(), models.end(), kDefaultModel) != models.end()) {
    model_ = kDefaultModel;
    return;
  }
  if (models.size() > 1) {
    constexpr size_t kShown = 5;
    const size_t count = models.size();
    std::transform(models.begin(), models.end(), models.begin(), [](const std::string& name) { return quote(name); });
    models.resize(std::min(count, kShown));
    fail("{} holds {} programs ({}{}) and none that is called '{}'", quoted(zip_.path()), count,
         fmt::join(models, ", "), count > kShown ? ", …" : "", kDefaultModel);
  }
  model_ = models.front();
}

const ZipEntry* Archive::find(std::string_view name) const { return zip_.find(root_ + std::string(name)); }

const ZipEntry& Archive::at(std::string_view name) const {
  const ZipEntry* entry = find(name);
  if (entry == nullptr) {
    fail("{} lacks its entry {}", quoted(zip_.path()), quote(name));
  }
  return *entry;
}

std::string Archive::text(std::string_view name, uint64_t max_bytes) const {
  const ZipEntry& entry = at(name);
  if (entry.size > max_bytes) {
    fail("{} in {} has {}; at most {} are read", quote(name), quoted(zip_.path()), bytes_text(entry.size),
         bytes_text(max_bytes));
  }
  std::string content(entry.size, '\0');
  zip_.read(entry, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace exporters::pt2
