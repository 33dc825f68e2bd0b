#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/generation/config.h"
#include "exporters/generation/decompose.h"
#include "exporters/models/pretrained.h"

#include <map>
#include <memory>
#include <optional>
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
  std::optional<bool> merged = {};  ///< see DecomposeOptions; nothing: what the exporter prefers for the config
  /// Forward arguments that are no tensors.
  models::ForwardArgs flags = {};
};

/// Whether prefill and decode become one component: as wanted, else as the exporter prefers for the config, where the
/// model and its sizes allow it.
bool merges(const HfExporter& exporter, const ExportConfig* config, const models::PreTrainedModel& model,
            std::optional<bool> wanted);

/// A component as something to export. `flags` go to its forward.
ExportSource export_source(const GenerationComponent& component, models::ForwardArgs flags = {});

}  // namespace exporters
