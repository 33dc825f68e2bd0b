#pragma once

#include "exporters/graph/pytree.h"
#include "exporters/trace/trace.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace exporters {

/// The dtype of an input by its name; nothing where it is not known.
using InputDtype = std::function<std::optional<c10::ScalarType>(const std::string& name)>;

/// Tensors by name from command-line words: a .safetensors or .npz file with all its tensors, or name=value with a JSON
/// number, bool or nested list ("input_ids=[[101, 102]]"). Numbers take the dtype that `dtype_of` says, rounded to a
/// floating one; where it says nothing, or what they cannot be (1.5 no int64), whole numbers give int64, others
/// float32. Throws Error that names the word, for lists of uneven length, names given twice and whole numbers out of
/// the dtype's range too.
NamedInputs read_tensors(const std::vector<std::string>& words, const InputDtype& dtype_of = {});

/// Prompts from token ids on a command line: "1, 2, 3", or JSON with a list for each row, "[[1, 2, 3], [4, 5]]".
/// Shorter rows are padded on the left with `padding`. Gives "input_ids" and "attention_mask", int64 [batch, length].
/// Throws Error for anything but whole numbers, and for rows without any.
NamedInputs read_prompts(const std::string& text, int64_t padding);

/// Forward arguments that are no tensors, from name=value: true, false, numbers, null, else a string. Throws
/// Error, also for names given twice.
std::vector<std::pair<std::string, PyTree>> read_flags(const std::vector<std::string>& words);

}  // namespace exporters
