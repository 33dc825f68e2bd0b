#pragma once

#include "exporters/graph/pytree.h"
#include "exporters/trace/trace.h"

#include <string>
#include <vector>

namespace exporters {

/// Tensors by name from command-line words: a .safetensors or .npz file with all its tensors, or name=value with a JSON
/// number, bool or nested list ("input_ids=[[101, 102]]"). Whole numbers give int64, others float32.
/// Throws Error that names the word, for lists of uneven length and names given twice too.
NamedInputs read_tensors(const std::vector<std::string>& words);

/// Prompts from token ids on a command line: "1, 2, 3", or JSON with a list for each row, "[[1, 2, 3], [4, 5]]".
/// Shorter rows are padded on the left with `padding`. Gives "input_ids" and "attention_mask", int64 [batch, length].
/// Throws Error for anything but whole numbers, and for rows without any.
NamedInputs read_prompts(const std::string& text, int64_t padding);

/// Forward arguments that are no tensors, from name=value: true, false, numbers, null, else a string. Throws
/// Error, also for names given twice.
std::vector<std::pair<std::string, PyTree>> read_flags(const std::vector<std::string>& words);

}  // namespace exporters
