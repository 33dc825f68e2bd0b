#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/generation/config.h"
#include "exporters/generation/decompose.h"
#include "exporters/models/pretrained.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace exporters {

/// An export for generation as HfExporter::export_for_generation takes it.
struct GenerationExport {
  std::shared_ptr<const models::PreTrainedModel> model;
  /// What generate takes: "input_ids", and "attention_mask" for exports that serve padded batches.
  NamedInputs sample_inputs;
  /// For every component; or one for each by name, and then it has to be there for all of them.
  ExportConfig* config = nullptr;
  std::map<std::string, ExportConfig*> component_configs = {};
  /// Written into the folder, as generation by it will need it; its cache settings say which cache is exported.
  GenerationConfig generation_config = {};
  bool multi_token_decode = false;
  bool merged = false;  ///< see DecomposeOptions
  /// Forward arguments that are no tensors.
  models::ForwardArgs flags = {};
};

/// A component as something to export. `flags` go to its forward.
ExportSource export_source(const GenerationComponent& component, models::ForwardArgs flags = {});

}  // namespace exporters
