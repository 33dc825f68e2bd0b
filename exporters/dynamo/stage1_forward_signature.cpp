// ── Stage 1: Forward signature ──
//
// The model is called with exactly the sample inputs, by their names, flat: they are the arguments of the traced
// program and the keys of a call. Nothing else becomes an input, whatever the model's forward could take besides.
//
// Output flags (use_cache, output_attentions, output_hidden_states, return_dict, return_loss) are no inputs. For this
// one trace they replace what the model's config says: the source gives a forward that has them, and the model and its
// config stay as they are, so there is nothing to restore.
//
// To extend: a new kind of source sets ExportSource::forward and, where its model has a config, with_output_flags
// (exporters/framework/exporter.h). What has to be computed from the inputs' data before the trace is an input preparer
// (exporters/framework/prepare_export.h).
#include "exporters/dynamo/stages.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <algorithm>
#include <set>

namespace exporters {
namespace {

bool is_identifier(std::string_view name) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), is_word);
}

void check_names(const NamedInputs& inputs) {
  std::set<std::string_view> seen;
  for (const auto& [name, value] : inputs) {
    if (!is_identifier(name)) {
      throw Error(quote(name) + " cannot be the name of an input", {},
                  "Inputs have the names of the forward's arguments: letters, digits and underscores.");
    }
    ensure(seen.insert(name).second, "the input '{}' is there twice", name);
  }
}

Forward patch_model_config(const ExportSource& model, const NamedInputs& output_flags) {
  return output_flags.empty() || !model.with_output_flags ? model.forward : model.with_output_flags(output_flags);
}

}  // namespace

Forward patch_forward_signature(const ExportSource& model, const PreparedInputs& prepared) {
  ensure(model.forward != nullptr, "the model {} has no forward", model.architecture);
  check_names(prepared.inputs);
  return patch_model_config(model, prepared.output_flags);
}

}  // namespace exporters
