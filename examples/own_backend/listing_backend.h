#pragma once

#include <exporters/dynamo/exporter.h>

/// A format of one's own: `model.listing` is the traced graph as text for a person to read, beside it lies
/// `model.listing.pt2`, which the runner runs. docs/adding_a_backend.md goes through it.
namespace listing {

/// The fields of DynamoConfig and one more.
class ListingConfig : public exporters::DynamoConfig {
 public:
  bool count_parameters = true;  ///< end the listing with the number of parameters

  std::string export_format() const override { return "listing"; }
  std::vector<exporters::ConfigField> fields() override;
};

/// What lies in the files, or is to be written there.
class ListingProgram : public exporters::DynamoProgram {
 public:
  ListingProgram(std::string text, std::shared_ptr<exporters::ExportedProgram> program)
      : DynamoProgram(std::move(program)), text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class ListingExporter : public exporters::DynamoExporter {
 public:
  std::string export_format() const override { return "listing"; }
  std::string program_suffix() const override { return ".listing"; }
  std::unique_ptr<exporters::ExportConfig> make_config() const override { return std::make_unique<ListingConfig>(); }
  exporters::ExportedComponent export_traced(exporters::TracedModel traced,
                                             exporters::ExportConfig& config) const override;
  void save_program(const exporters::BackendProgram& program, const std::filesystem::path& file) const override;
  std::shared_ptr<exporters::BackendProgram> load_program(const std::filesystem::path& file) const override;
  std::vector<std::string> program_files(const std::string& file) const override { return {file, file + ".pt2"}; }
};

/// Registers the format "listing".
void register_listing_backend();

}  // namespace listing
