#pragma once

#include "exporters/support/place.h"

#include <string>
#include <string_view>
#include <vector>

namespace exporters::pt2 {

// What torch.export writes where a node belongs to no module.
inline constexpr std::string_view kNoModules = "_empty_nn_module_stack_from_metadata_hook";

/// `nn_module_stack` of a node's metadata, "key,path,class" for each module, outermost first, joined by ';'. Empty for
/// none. Throws Error for another form.
std::vector<ModuleFrame> module_stack_from_text(std::string_view text);

/// "bert/modeling_bert.py:120": the innermost line of a Python stack trace, with the last two parts of the file's path;
/// empty where there is none.
std::string source_of_stack_trace(std::string_view trace);

/// "BertModel" of "transformers.models.bert.modeling_bert.BertModel".
std::string_view short_class_name(std::string_view qualified);

}  // namespace exporters::pt2
