// ── Stage 4: Translations ──
//
// The table from ATen op to ONNX nodes: `onnx_translation_table`, made of the families in translations/. To extend:
// register_onnx_translation("aten.op.overload", opset, function), which also overrides an entry.

#include "exporters/onnx/convert.h"
#include "exporters/onnx/stages.h"
#include "exporters/onnx/translations/table.h"

namespace exporters::onnx {

Stage translations_stage() {
  Stage stage = {
      4,
      "Translations",
      "Each node of the program is written as ONNX nodes by the function of its op.",
      "`register_onnx_translation(\"aten.op.overload\", opset, function)`, which also replaces an entry; see "
      "docs/adding_a_translation.md.",
      {}};
  for (const OnnxTranslationInfo& entry : onnx_translation_table()) {
    const bool every_opset = entry.opset <= kLowestOpset;
    stage.entries.push_back({"translation",
                             every_opset ? entry.op : entry.op + " from opset " + std::to_string(entry.opset),
                             {},
                             entry.notes.reason,
                             entry.notes.link});
  }
  return stage;
}

}  // namespace exporters::onnx
