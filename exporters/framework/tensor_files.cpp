#include "exporters/framework/tensor_files.h"

#include "exporters/framework/prepare_export.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/weights/npz.h"
#include "exporters/weights/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <sstream>

namespace exporters {
namespace {

using nlohmann::json;

bool is_file(const std::string& word, std::string_view suffix) {
  return word.size() > suffix.size() && word.ends_with(suffix);
}

std::pair<std::string, std::string> split_assignment(const std::string& word, const char* what) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error("'" + word + "' is no " + what, {}, "Write name=value.");
  }
  return {word.substr(0, equals), word.substr(equals + 1)};
}

// Shape and flat numbers of a nested list.
class NestedList {
 public:
  explicit NestedList(const json& value) { walk(value, 0); }

  /// Of int64, float64 or bool.
  at::Tensor tensor() const {
    at::Tensor result = at::empty(shape_, kind_);
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (kind_ == at::kBool) {
        result.mutable_data_ptr<bool>()[at] = numbers_[i].get<bool>();
      } else if (kind_ == at::kLong) {
        result.mutable_data_ptr<int64_t>()[at] = numbers_[i].get<int64_t>();
      } else {
        result.mutable_data_ptr<double>()[at] = numbers_[i].get<double>();
      }
    }
    return result;
  }

 private:
  void walk(const json& value, size_t depth) {
    if (!value.is_array()) {
      ensure(depth == shape_.size() || numbers_.empty(), "the lists have uneven depth");
      add(value);
      return;
    }
    const auto size = static_cast<int64_t>(value.size());
    if (depth == shape_.size()) {
      ensure(numbers_.empty(), "the lists have uneven depth");
      shape_.push_back(size);
    }
    ensure(shape_[depth] == size, "a list of {} elements stands beside one of {}", size, shape_[depth]);
    for (const json& item : value) {
      walk(item, depth + 1);
    }
  }

  void add(const json& number) {
    const bool is_bool = number.is_boolean();
    ensure(is_bool || number.is_number(), "{} is no number", number.dump());
    const at::ScalarType kind = is_bool ? at::kBool : number.is_number_integer() ? at::kLong : at::kDouble;
    ensure(numbers_.empty() || (kind == at::kBool) == (kind_ == at::kBool), "numbers and bools are mixed");
    kind_ = numbers_.empty() || kind == at::kDouble ? kind : kind_;
    numbers_.push_back(number);
  }

  std::vector<int64_t> shape_;
  std::vector<json> numbers_;
  at::ScalarType kind_ = at::kDouble;
};

// Numbers as written become what the input takes.
at::Tensor as_dtype(const at::Tensor& written, std::optional<c10::ScalarType> dtype) {
  const bool is_float = written.is_floating_point();
  if (!dtype || written.scalar_type() == at::kBool || (is_float && !c10::isFloatingType(*dtype))) {
    return is_float ? written.to(at::kFloat) : written;
  }
  at::Tensor result = written.to(*dtype);
  ensure(is_float || c10::isFloatingType(*dtype) || result.to(at::kLong).equal(written),
         "a number is out of the range of {}", dtype_name(*dtype));
  return result;
}

at::Tensor literal(const std::string& name, const std::string& text, const InputDtype& dtype_of) {
  try {
    return as_dtype(NestedList(parse_json(text, name)).tensor(), dtype_of ? dtype_of(name) : std::nullopt);
  } catch (const Error& error) {
    throw error.with_context("input '" + name + "'");
  }
}

// Values by name, each given once.
class Given {
 public:
  void add(const std::string& name, PyTree value, const std::string& word) {
    const auto [first, is_new] = words_.emplace(name, word);
    ensure(is_new, "'{}' is given twice: by '{}' and by '{}'", name, first->second, word);
    values_.emplace_back(name, std::move(value));
  }
  NamedInputs values() && { return std::move(values_); }

 private:
  NamedInputs values_;
  std::map<std::string, std::string> words_;
};

}  // namespace

NamedInputs read_tensors(const std::vector<std::string>& words, const InputDtype& dtype_of) {
  Given inputs;
  for (const std::string& word : words) {
    if (is_file(word, ".safetensors")) {
      const auto file = SafetensorsFile::open(word);
      for (const SafetensorsEntry& entry : file->entries()) {
        inputs.add(entry.name, file->tensor(entry), word);
      }
    } else if (is_file(word, ".npz")) {
      for (auto& [name, tensor] : load_npz(word)) {
        inputs.add(name, tensor, word);
      }
    } else {
      const auto [name, text] = split_assignment(word, "input: neither a .safetensors or .npz file nor name=value");
      inputs.add(name, literal(name, text, dtype_of), word);
    }
  }
  return std::move(inputs).values();
}

NamedInputs read_prompts(const std::string& text, int64_t padding) {
  std::string list = text;
  if (list.find('[') == std::string::npos) {
    std::replace(list.begin(), list.end(), ',', ' ');
    std::istringstream words(list);
    list = "[";
    for (std::string word; words >> word;) {
      list += (list.size() > 1 ? "," : "") + word;
    }
    list += "]";
  }
  const json value = json::parse(list, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() || value.empty()) {
    throw Error("'" + text + "' are no token ids", {}, "Write \"1, 2, 3\", or a list for each row: \"[[1, 2], [3]]\".");
  }
  const json rows = value.front().is_array() ? value : json::array({value});
  size_t length = 0;
  for (const json& row : rows) {
    ensure(row.is_array() && !row.empty(), "each prompt is a list of token ids, not {}", row.dump());
    length = std::max(length, row.size());
  }
  const auto batch = static_cast<int64_t>(rows.size());
  at::Tensor ids = at::full({batch, static_cast<int64_t>(length)}, padding, at::kLong);
  at::Tensor mask = at::zeros(ids.sizes(), at::kLong);
  for (size_t row = 0; row < rows.size(); ++row) {
    size_t at = (row + 1) * length - rows[row].size();
    for (const json& id : rows[row]) {
      ensure(id.is_number_integer(), "{} is no token id: they are whole numbers", id.dump());
      ids.mutable_data_ptr<int64_t>()[at] = id.get<int64_t>();
      mask.mutable_data_ptr<int64_t>()[at] = 1;
      ++at;
    }
  }
  return {{"input_ids", ids}, {"attention_mask", mask}};
}

std::vector<std::pair<std::string, PyTree>> read_flags(const std::vector<std::string>& words) {
  Given flags;
  for (const std::string& word : words) {
    const auto [name, text] = split_assignment(word, "forward argument");
    const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_boolean()) {
      flags.add(name, PyTree(value.get<bool>()), word);
    } else if (value.is_number_integer()) {
      flags.add(name, PyTree(value.get<int64_t>()), word);
    } else if (value.is_number_float()) {
      flags.add(name, PyTree(value.get<double>()), word);
    } else if (value.is_null()) {
      flags.add(name, PyTree(), word);
    } else {
      flags.add(name, PyTree(text), word);
    }
  }
  return std::move(flags).values();
}

}  // namespace exporters
