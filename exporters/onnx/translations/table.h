#pragma once

#include "exporters/onnx/translations/op_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::onnx {

/// Emits the ONNX form of one op. Gives one value for each output of the node (for an output that is a list of tensors,
/// its elements); where a value's dtype is not the output's, the converter casts.
using OnnxTranslation = std::function<OnnxValues(TranslationContext&, const OpCall&)>;

/// An ONNX operator's name as a template argument, for functions that differ in it only.
template <size_t N>
struct OpName {
  char text[N];
  constexpr OpName(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT(google-explicit-constructor)
  constexpr std::string_view str() const { return {text, N - 1}; }
};

/// One line of the table: the op with its overload ("aten.add.Tensor") or for all overloads ("aten.add"), and the
/// lowest opset the function is for. Of several entries for an op, that of the highest opset which the model reaches
/// counts; an entry with the overload wins over one without.
struct OnnxTranslationEntry {
  const char* op;
  int64_t opset;
  OnnxValues (*function)(TranslationContext&, const OpCall&);
  /// The ONNX operators that its calls become, separated by spaces: without casts and arithmetic of sizes, unless there
  /// is nothing else. A test holds it against what samples become.
  const char* operators = "";
  const char* limits = "";  ///< what it refuses, in words
};

// The table, by family.
std::span<const OnnxTranslationEntry> elementwise_translations();
std::span<const OnnxTranslationEntry> activation_translations();
std::span<const OnnxTranslationEntry> comparison_translations();
std::span<const OnnxTranslationEntry> reduce_translations();
std::span<const OnnxTranslationEntry> view_translations();
std::span<const OnnxTranslationEntry> join_translations();
std::span<const OnnxTranslationEntry> linear_translations();
std::span<const OnnxTranslationEntry> norm_translations();
std::span<const OnnxTranslationEntry> attention_translations();
std::span<const OnnxTranslationEntry> index_translations();
std::span<const OnnxTranslationEntry> scatter_translations();
std::span<const OnnxTranslationEntry> factory_translations();
std::span<const OnnxTranslationEntry> random_translations();
std::span<const OnnxTranslationEntry> sort_translations();
std::span<const OnnxTranslationEntry> conv_translations();
std::span<const OnnxTranslationEntry> sym_translations();
std::span<const OnnxTranslationEntry> control_flow_translations();

/// What there is to say of a translation; for listings.
struct TranslationNotes {
  std::string reason = {};     ///< why it is more than the plain one
  std::string link = {};       ///< the upstream issue, where there is one
  std::string operators = {};  ///< the ONNX operators that calls become, separated by spaces
  std::string limits = {};     ///< what it refuses
};

/// Adds a translation, or puts another in place of the one there is. Thread-safe; counts for conversions from then on.
void register_onnx_translation(std::string_view op, int64_t opset, OnnxTranslation translation,
                               TranslationNotes notes = {});

/// The translation of an op at an opset, or null. The pointer stays valid.
const OnnxTranslation* find_onnx_translation(std::string_view target, int64_t opset);

/// All entries, sorted: for listings.
struct OnnxTranslationInfo {
  std::string op;
  int64_t opset;
  TranslationNotes notes;
};
std::vector<OnnxTranslationInfo> onnx_translation_table();

}  // namespace exporters::onnx
