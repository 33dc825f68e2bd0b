#include "listing_backend.h"

#include <exporters/framework/registry.h>
#include <exporters/pt2/load.h>
#include <exporters/pt2/save.h>
#include <exporters/support/atomic_file.h>
#include <exporters/support/error.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

namespace listing {

using namespace exporters;
namespace fs = std::filesystem;

namespace {

const ListingProgram& as_listing(const BackendProgram& program) {
  const auto* found = dynamic_cast<const ListingProgram*>(&program);
  ensure(found != nullptr, "the program was not made by the listing exporter");
  return *found;
}

int64_t parameters_of(const ExportedProgram& program) {
  int64_t count = 0;
  for (const InputSpec& input : program.signature.inputs) {
    if (input.kind == InputSpec::Kind::kParameter) {
      count += program.state.at(input.target).tensor.numel();
    }
  }
  return count;
}

}  // namespace

std::vector<ConfigField> ListingConfig::fields() {
  std::vector<ConfigField> result = DynamoConfig::fields();
  result.push_back(bool_field("count_parameters", "end the listing with the number of parameters", count_parameters));
  return result;
}

// The graph comes traced; Dynamo's own export_traced checks it and keeps what export.json says.
ExportedComponent ListingExporter::export_traced(TracedModel traced, ExportConfig& config) const {
  const auto* listing_config = dynamic_cast<const ListingConfig*>(&config);
  ensure(listing_config != nullptr, "the listing exporter takes a ListingConfig, not one for '{}'",
         config.export_format());
  const std::shared_ptr<ExportedProgram> program = traced.program;
  std::string text = program->str();
  if (listing_config->count_parameters) {
    text += "Parameters: " + std::to_string(parameters_of(*program)) + "\n";
  }
  ExportedComponent component = DynamoExporter::export_traced(std::move(traced), config);
  component.program = std::make_shared<ListingProgram>(std::move(text), program);
  return component;
}

void ListingExporter::save_program(const BackendProgram& program, const fs::path& file) const {
  write_file(file, as_listing(program).text());
  save_pt2(*program.traced(), file.string() + ".pt2");
}

std::shared_ptr<BackendProgram> ListingExporter::load_program(const fs::path& file) const {
  std::ifstream stream(file);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  return std::make_shared<ListingProgram>(std::move(text), load_pt2(file.string() + ".pt2"));
}

// A format with a runtime of its own derives its runner from ModelRunner.
void register_listing_backend() { register_backend<ListingExporter, DynamoRunner>(); }

}  // namespace listing
