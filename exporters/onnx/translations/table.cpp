#include "exporters/onnx/translations/table.h"

#include <list>
#include <map>
#include <mutex>

namespace exporters::onnx {
namespace {

struct Version {
  const OnnxTranslation* function = nullptr;
  TranslationNotes notes;
};

struct Table {
  std::mutex mutex;
  // op → opset → function; the list keeps replaced functions alive for those who hold a pointer.
  std::map<std::string, std::map<int64_t, Version>, std::less<>> entries;
  std::list<OnnxTranslation> functions;

  Table() {
    for (const auto family :
         {elementwise_translations(), activation_translations(), comparison_translations(), reduce_translations(),
          view_translations(), join_translations(), linear_translations(), norm_translations(),
          attention_translations(), index_translations(), scatter_translations(), factory_translations(),
          random_translations(), sort_translations(), conv_translations(), sym_translations(),
          control_flow_translations()}) {
      for (const OnnxTranslationEntry& entry : family) {
        add(entry.op, entry.opset, entry.function, {.operators = entry.operators, .limits = entry.limits});
      }
    }
  }

  void add(std::string_view op, int64_t opset, OnnxTranslation function, TranslationNotes notes) {
    entries[std::string(op)][opset] = {&functions.emplace_back(std::move(function)), std::move(notes)};
  }

  const OnnxTranslation* find(std::string_view op, int64_t opset) const {
    const auto versions = entries.find(op);
    if (versions == entries.end()) {
      return nullptr;
    }
    const auto above = versions->second.upper_bound(opset);
    return above == versions->second.begin() ? nullptr : std::prev(above)->second.function;
  }
};

Table& table() {
  static Table instance;
  return instance;
}

}  // namespace

void register_onnx_translation(std::string_view op, int64_t opset, OnnxTranslation translation,
                               TranslationNotes notes) {
  const std::lock_guard lock(table().mutex);
  table().add(op, opset, std::move(translation), std::move(notes));
}

const OnnxTranslation* find_onnx_translation(std::string_view target, int64_t opset) {
  const std::lock_guard lock(table().mutex);
  if (const OnnxTranslation* exact = table().find(target, opset)) {
    return exact;
  }
  const size_t overload = target.rfind('.');
  return overload == std::string_view::npos ? nullptr : table().find(target.substr(0, overload), opset);
}

std::vector<OnnxTranslationInfo> onnx_translation_table() {
  const std::lock_guard lock(table().mutex);
  std::vector<OnnxTranslationInfo> all;
  for (const auto& [op, versions] : table().entries) {
    for (const auto& [opset, version] : versions) {
      all.push_back({op, opset, version.notes});
    }
  }
  return all;
}

}  // namespace exporters::onnx
