#pragma once

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What the reader and the writer of .pt2 archives share: names of files and codes of enumerations, as PyTorch 2.13 has
/// them in torch/_export/serde/schema.py and torch/csrc/export/pt2_archive_constants.h.
namespace exporters::pt2 {

/// Any minor version of this major one is read: fields that are not known are left out.
inline constexpr int64_t kSchemaMajor = 8;
inline constexpr int64_t kSchemaMinor = 20;
inline constexpr int64_t kAtenOpset = 10;

// Files of an archive, below its one root folder. The model is called "model" unless the archive has several.
inline constexpr std::string_view kDefaultModel = "model";
inline constexpr std::string_view kFormatFile = "archive_format";
inline constexpr std::string_view kFormat = "pt2";
inline constexpr std::string_view kVersionFile = "archive_version";
inline constexpr std::string_view kVersion = "0";
inline constexpr std::string_view kByteOrderFile = "byteorder";
inline constexpr std::string_view kByteOrder = "little";
inline constexpr std::string_view kZipVersionFile = ".data/version";
inline constexpr std::string_view kZipVersion = "6\n";
inline constexpr std::string_view kModelsFolder = "models/";
inline constexpr std::string_view kModelSuffix = ".json";
inline constexpr std::string_view kWeightsFolder = "data/weights/";
inline constexpr std::string_view kWeightsConfigSuffix = "_weights_config.json";
inline constexpr std::string_view kWeightPrefix = "weight_";
inline constexpr std::string_view kConstantsFolder = "data/constants/";
inline constexpr std::string_view kConstantsConfigSuffix = "_constants_config.json";
inline constexpr std::string_view kConstantPrefix = "tensor_";
inline constexpr std::string_view kSampleInputsFolder = "data/sample_inputs/";
inline constexpr std::string_view kSampleInputsSuffix = ".pt";
/// Ours (extra_json.h), where torch.export.load gives it to who asks for extra_files.
inline constexpr std::string_view kExtraFile = "extra/exporters_cpp.json";

/// How an argument is passed (NamedArgument.kind).
enum class ArgumentKind : int64_t { kUnknown = 0, kPositional = 1, kKeyword = 2 };

// Nothing for what the schema has no code for, and for codes that it does not have.
std::optional<int64_t> dtype_code(c10::ScalarType dtype);
std::optional<c10::ScalarType> dtype_from_code(int64_t code);
std::optional<int64_t> layout_code(c10::Layout layout);
std::optional<c10::Layout> layout_from_code(int64_t code);
std::optional<int64_t> memory_format_code(c10::MemoryFormat format);
std::optional<c10::MemoryFormat> memory_format_from_code(int64_t code);

/// "aten.add.Tensor" → "torch.ops.aten.add.Tensor", "higher_order.cond" → "torch.ops.higher_order.cond"; operations on
/// sizes ("_operator.add", "math.trunc", "torch.sym_max") stay as they are.
std::string target_to_schema(std::string_view target);
/// The other way.
std::string target_from_schema(std::string_view text);

// Keys of Node::metadata() for what torch.export keeps of a node beside its place and module stack; the same keys as in
// the schema ("torch_fn", "source_fn_stack", "from_node", "custom"), and two that are fields of their own there:
/// On a higher-order op: "true" or "false". Whether it gives one tensor, or a tuple.
inline constexpr std::string_view kSingleTensorReturnKey = "is_hop_single_tensor_return";
/// On the output node of a subgraph: "true" when it gives one tensor, and not a tuple.
inline constexpr std::string_view kGraphSingleTensorReturnKey = "is_single_tensor_return";
/// The source lines as Python has them, of which Place::source is the innermost one.
inline constexpr std::string_view kStackTraceKey = "stack_trace";
inline constexpr std::string_view kModuleStackKey = "nn_module_stack";

}  // namespace exporters::pt2
