#pragma once

#include "exporters/onnx/translations/context.h"

namespace exporters::onnx {

/// floor(a / b) as torch has it, elementwise with broadcasting; both of one dtype, floating or integer. Right for all
/// integers of the dtype, the smallest one too.
OnnxValue floor_divide(TranslationContext& context, const OnnxValue& a, const OnnxValue& b);

}  // namespace exporters::onnx
