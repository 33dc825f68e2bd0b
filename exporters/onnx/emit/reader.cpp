#include "exporters/onnx/emit/reader.h"

#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"

#include <protozero/pbf_reader.hpp>

#include <algorithm>
#include <charconv>
#include <map>

namespace exporters::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr int kMaxDepth = 32;                  // of nested graphs
constexpr uint64_t kMaxElements = 20'000'000;  // messages, names and numbers in all: no real graph comes near

/// What to do with one field of a message.
template <typename Take>
struct Field {
  uint32_t number;
  Take take;
};
template <typename Take>
Field(uint32_t, Take) -> Field<Take>;

// Field numbers are those of onnx.proto. `take` gets the reader at the field; fields without one are read over.
template <typename... Takes>
void read_fields(pbf_reader in, const Field<Takes>&... fields) {
  while (in.next()) {
    const bool known = ((in.tag() == fields.number && (fields.take(in), true)) || ...);
    if (!known) {
      in.skip();
    }
  }
}

class Parser {
 public:
  explicit Parser(const ReadOptions& options) : options_(options) {}

 private:
  void count() { ensure(++elements_ <= kMaxElements, "the message has more than {} parts", kMaxElements); }
  static void expect(const pbf_reader& in, pbf_wire_type type) {
    ensure(in.wire_type() == type, "field {} has wire type {}, expected {}", uint32_t{in.tag()},
           static_cast<uint32_t>(in.wire_type()), static_cast<uint32_t>(type));
  }
  std::string_view bytes(pbf_reader& in) {
    expect(in, pbf_wire_type::length_delimited);
    count();
    const auto view = in.get_view();
    return {view.data(), view.size()};
  }
  std::string text(pbf_reader& in) { return std::string(bytes(in)); }
  pbf_reader message(pbf_reader& in) {
    expect(in, pbf_wire_type::length_delimited);
    count();
    return in.get_message();
  }
  int64_t integer(pbf_reader& in) {
    expect(in, pbf_wire_type::varint);
    count();
    return in.get_int64();
  }
  float real(pbf_reader& in) {
    expect(in, pbf_wire_type::fixed32);
    count();
    return in.get_float();
  }
  // Repeated scalars come packed or one by one.
  template <typename Packed, typename One, typename Append>
  void scalars(pbf_reader& in, Packed packed, pbf_wire_type single, One one, Append append) {
    if (in.wire_type() == pbf_wire_type::length_delimited) {
      for (const auto value : (in.*packed)()) {
        append(value);
      }
    } else {
      expect(in, single);
      append((in.*one)());
    }
  }
  // Counted, since one byte of the message becomes eight.
  template <typename Append>
  void integers(pbf_reader& in, Append append) {
    scalars(in, &pbf_reader::get_packed_int64, pbf_wire_type::varint, &pbf_reader::get_int64, [&](int64_t value) {
      count();
      append(value);
    });
  }
  template <typename Append>
  void floats(pbf_reader& in, Append append) {
    scalars(in, &pbf_reader::get_packed_float, pbf_wire_type::fixed32, &pbf_reader::get_float, append);
  }
  template <typename Append>
  void doubles(pbf_reader& in, Append append) {
    scalars(in, &pbf_reader::get_packed_double, pbf_wire_type::fixed64, &pbf_reader::get_double, append);
  }

  // ── Where a field goes ──

  auto to(std::string& target) {
    return [this, &target](pbf_reader& in) { target = text(in); };
  }
  auto to(int64_t& target) {
    return [this, &target](pbf_reader& in) { target = integer(in); };
  }
  auto to(OnnxType& target) {
    return [this, &target](pbf_reader& in) { target = static_cast<OnnxType>(integer(in)); };
  }
  auto to(std::vector<std::string>& target) {
    return [this, &target](pbf_reader& in) { target.push_back(text(in)); };
  }
  auto to(std::vector<int64_t>& target) {
    return [this, &target](pbf_reader& in) { integers(in, [&](int64_t value) { target.push_back(value); }); };
  }
  auto to(std::vector<float>& target) {
    return [this, &target](pbf_reader& in) { floats(in, [&](float value) { target.push_back(value); }); };
  }

  // ── Messages ──

 public:
  OnnxModel model(pbf_reader in) {
    OnnxModel model;
    bool has_graph = false;
    read_fields(in, Field{1, to(model.ir_version)}, Field{2, to(model.producer_name)},
                Field{3, to(model.producer_version)},
                Field{7,
                      [&](pbf_reader& field) {
                        model.graph = graph(message(field), 0);
                        has_graph = true;
                      }},
                Field{8, [&](pbf_reader& field) { model.opsets.push_back(opset(message(field))); }},
                Field{14, [&](pbf_reader& field) { model.metadata.push_back(string_pair(message(field))); }},
                Field{25, [&](pbf_reader& field) { model.functions.push_back(function_name(message(field))); }});
    ensure(has_graph, "the message holds no graph");
    ensure(model.ir_version > 0, "the message holds no IR version");
    return model;
  }

 private:
  std::pair<std::string, std::string> string_pair(pbf_reader in) {
    std::pair<std::string, std::string> pair;
    read_fields(in, Field{1, to(pair.first)}, Field{2, to(pair.second)});
    return pair;
  }

  std::pair<std::string, int64_t> opset(pbf_reader in) {
    std::pair<std::string, int64_t> pair;
    read_fields(in, Field{1, to(pair.first)}, Field{2, to(pair.second)});
    return pair;
  }

  std::string function_name(pbf_reader in) {
    std::string name;
    std::string domain;
    read_fields(in, Field{1, to(name)}, Field{10, to(domain)});
    return domain + "::" + name;
  }

  OnnxGraph graph(pbf_reader in, int depth) {
    ensure(depth < kMaxDepth, "graphs are nested deeper than {}", kMaxDepth);
    OnnxGraph graph;
    graph.name.clear();
    const auto infos = [this](std::vector<OnnxValueInfo>& target) {
      return [this, &target](pbf_reader& field) { target.push_back(value_info(message(field))); };
    };
    read_fields(in, Field{1, [&](pbf_reader& field) { graph.nodes.push_back(node(message(field), depth)); }},
                Field{2, to(graph.name)},
                Field{5, [&](pbf_reader& field) { graph.initializers.push_back(tensor(message(field))); }},
                Field{11, infos(graph.inputs)}, Field{12, infos(graph.outputs)}, Field{13, infos(graph.value_info)});
    return graph;
  }

  OnnxNode node(pbf_reader in, int depth) {
    OnnxNode node;
    read_fields(in, Field{1, to(node.inputs)}, Field{2, to(node.outputs)}, Field{3, to(node.name)},
                Field{4, to(node.op_type)},
                Field{5, [&](pbf_reader& field) { node.attributes.push_back(attribute(message(field), depth)); }},
                Field{7, to(node.domain)});
    return node;
  }

  // The fields that are there decide the kind when `type` is missing, as old writers left it out.
  OnnxAttribute attribute(pbf_reader in, int depth) {
    OnnxAttribute attribute;
    std::vector<float> floats;
    std::vector<int64_t> ints;
    std::vector<std::string> strings;
    std::vector<std::shared_ptr<OnnxGraph>> graphs;
    int64_t type = 0;
    const auto subgraph = [&](pbf_reader& field) {
      return std::make_shared<OnnxGraph>(graph(message(field), depth + 1));
    };
    read_fields(in, Field{1, to(attribute.name)}, Field{2, [&](pbf_reader& field) { attribute.data = real(field); }},
                Field{3, [&](pbf_reader& field) { attribute.data = integer(field); }},
                Field{4, [&](pbf_reader& field) { attribute.data = text(field); }},
                Field{5, [&](pbf_reader& field) { attribute.data = tensor(message(field)); }},
                Field{6, [&](pbf_reader& field) { attribute.data = subgraph(field); }}, Field{7, to(floats)},
                Field{8, to(ints)}, Field{9, to(strings)},
                Field{11, [&](pbf_reader& field) { graphs.push_back(subgraph(field)); }}, Field{20, to(type)});
    if (type == 6 || !floats.empty()) {
      attribute.data = std::move(floats);
    } else if (type == 7 || !ints.empty()) {
      attribute.data = std::move(ints);
    } else if (type == 8 || !strings.empty()) {
      attribute.data = std::move(strings);
    } else if (type == 10 || !graphs.empty()) {
      attribute.data = std::move(graphs);
    } else if (std::holds_alternative<std::monostate>(attribute.data)) {
      // proto3 writers leave out zeros.
      if (type == 1) attribute.data = 0.0f;
      if (type == 2) attribute.data = int64_t{0};
      if (type == 3) attribute.data = std::string();
    }
    return attribute;
  }

  OnnxTensor tensor(pbf_reader in) {
    OnnxTensor tensor;
    InlineBytes typed;  // float_data and the like, as raw bytes
    std::optional<std::string_view> raw;
    std::vector<std::pair<std::string, std::string>> external;
    int64_t data_location = 0;
    std::vector<int64_t> int32_data;
    const auto append = [&](auto value) { typed.bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    const auto append_integers = [&](pbf_reader& field) { integers(field, append); };
    read_fields(in, Field{1, to(tensor.dims)}, Field{2, to(tensor.dtype)},
                Field{4, [&](pbf_reader& field) { floats(field, append); }}, Field{5, to(int32_data)},
                Field{7, append_integers}, Field{8, to(tensor.name)},
                Field{9, [&](pbf_reader& field) { raw = bytes(field); }},
                Field{10, [&](pbf_reader& field) { doubles(field, append); }}, Field{11, append_integers},
                Field{13, [&](pbf_reader& field) { external.push_back(string_pair(message(field))); }},
                Field{14, to(data_location)});
    if (data_location == 1) {
      tensor.data = stored(tensor, external);
    } else {
      append_narrow(tensor, int32_data, typed);
      set_inline(tensor, raw, std::move(typed));
    }
    return tensor;
  }

  // int32_data holds every type of up to 32 bits, one element a number.
  void append_narrow(const OnnxTensor& tensor, const std::vector<int64_t>& values, InlineBytes& out) {
    const auto width = static_cast<size_t>(std::max<int64_t>(bits_per_element(tensor.dtype) / 8, 1));
    for (int64_t value : values) {
      out.bytes.append(reinterpret_cast<const char*>(&value), std::min(width, sizeof value));
    }
  }

  void set_inline(OnnxTensor& tensor, const std::optional<std::string_view>& raw, InlineBytes typed) {
    const uint64_t nbytes = raw ? raw->size() : typed.bytes.size();
    if (nbytes > options_.keep_inline_bytes) {
      tensor.data = OmittedBytes{nbytes};
    } else if (raw) {
      tensor.data = InlineBytes{std::string(*raw)};
    } else {
      tensor.data = std::move(typed);
    }
  }

  static uint64_t number(const OnnxTensor& tensor, const std::string& key, const std::string& value) {
    uint64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    ensure(error == std::errc() && end == value.data() + value.size() && !value.empty(),
           "external data of '{}' has {} '{}', which is not a number", tensor.name, key, value);
    return result;
  }

  static StoredBytes stored(const OnnxTensor& tensor, const std::vector<std::pair<std::string, std::string>>& entries) {
    StoredBytes stored;
    for (const auto& [key, value] : entries) {
      if (key == "location") {
        stored.location = value;
      } else if (key == "offset") {
        stored.offset = number(tensor, key, value);
      } else if (key == "length") {
        stored.length = number(tensor, key, value);
      }
    }
    return stored;
  }

  OnnxValueInfo value_info(pbf_reader in) {
    OnnxValueInfo info;
    read_fields(in, Field{1, to(info.name)}, Field{2, [&](pbf_reader& field) { read_type(message(field), info); }});
    return info;
  }

  void read_type(pbf_reader in, OnnxValueInfo& info) {
    read_fields(in, Field{1, [&](pbf_reader& field) { read_tensor_type(message(field), info); }});
  }

  void read_tensor_type(pbf_reader in, OnnxValueInfo& info) {
    read_fields(in, Field{1, to(info.dtype)}, Field{2, [&](pbf_reader& field) { info.dims = shape(message(field)); }});
  }

  std::vector<OnnxDim> shape(pbf_reader in) {
    std::vector<OnnxDim> dims;
    read_fields(in, Field{1, [&](pbf_reader& field) { dims.push_back(dim(message(field))); }});
    return dims;
  }

  OnnxDim dim(pbf_reader in) {
    OnnxDim dim;
    read_fields(in, Field{1, [&](pbf_reader& field) { dim = integer(field); }},
                Field{2, [&](pbf_reader& field) { dim = text(field); }});
    return dim;
  }

  const ReadOptions& options_;
  uint64_t elements_ = 0;
};

std::string hint_for(std::string_view bytes) {
  using namespace std::string_view_literals;
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"PK\x03\x04"sv, "It is a zip archive, perhaps a .pt2."},
      {"version https://git-lfs"sv, "It is a Git LFS pointer: fetch the file itself with `git lfs pull`."},
      {"<"sv, "It looks like a web page or XML file, not an ONNX model."},
      {"{"sv, "It looks like JSON, not an ONNX model."},
  };
  for (const auto& [start, hint] : kOthers) {
    if (bytes.starts_with(start)) {
      return std::string(hint);
    }
  }
  if (bytes.size() > 8 && bytes.substr(4, 4) == "ET12"sv) {
    return "It is an ExecuTorch program (.pte).";
  }
  return "The file is damaged or not an ONNX model.";
}

// As the message is read: an initializer's location, once resolved, must lie below the model's folder.
std::filesystem::path resolve_location(const std::string& location, const std::string& tensor,
                                       const std::filesystem::path& folder) {
  const std::filesystem::path relative(location);
  const bool climbs = std::any_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
  ensure(!location.empty() && location.find('\0') == std::string::npos && relative.is_relative() && !climbs,
         "initializer '{}' lies at '{}', outside the model's folder", tensor, location);
  std::error_code error;
  const auto target = std::filesystem::canonical(folder / relative, error);
  if (error) {
    throw Error(
        fmt::format("initializer '{}' needs the file '{}', which is not in the model's folder", tensor, location), {},
        "Keep the external data file beside the .onnx file, under its own name.");
  }
  const auto inside = target.lexically_relative(std::filesystem::canonical(folder));
  ensure(!inside.empty() && *inside.begin() != "..",
         "initializer '{}' lies at '{}', a link that leaves the model's folder", tensor, location);
  return target;
}

void check_tensor(const OnnxTensor& tensor, const StoredBytes& stored, uint64_t file_size) {
  const std::optional<uint64_t> expected = tensor.expected_bytes();
  ensure(expected.has_value(), "initializer '{}' of type {} has a shape whose size cannot be computed", tensor.name,
         type_name(tensor.dtype));
  ensure(stored.length.value_or(*expected) == *expected,
         "initializer '{}' states {} bytes in '{}', but its shape needs {}", tensor.name, stored.length.value_or(0),
         stored.location, *expected);
  uint64_t end = 0;
  if (__builtin_add_overflow(stored.offset, *expected, &end) || end > file_size) {
    throw Error(fmt::format("initializer '{}' needs {} bytes at offset {} of '{}', which has only {} bytes",
                            tensor.name, *expected, stored.offset, stored.location, file_size),
                {}, "The external data file is truncated or belongs to another model: copy it again.");
  }
}

}  // namespace

OnnxModel parse_model(std::string_view bytes, const ReadOptions& options) {
  try {
    return Parser(options).model(pbf_reader(bytes.data(), bytes.size()));
  } catch (const protozero::exception& error) {
    throw Error(fmt::format("not a well-formed ONNX message: {}", error.what()));
  }
}

OnnxModel read_model(const std::filesystem::path& path, const ReadOptions& options) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  ensure(file->size() > 0, "{} is empty", path.string());
  ensure(file->size() <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max()),
         "{} has {} bytes, more than the 2 GB of an ONNX message", path.string(), file->size());
  const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()), file->size());
  try {
    return parse_model(bytes, options);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot read {}: {}", path.string(), error.message()), error.where(), hint_for(bytes));
  }
}

void check_external_data(const OnnxModel& model, const std::filesystem::path& folder) {
  const std::filesystem::path base = folder.empty() ? "." : folder;
  std::map<std::string, uint64_t> sizes;
  for_each_tensor(model.graph, [&](const OnnxTensor& tensor) {
    const auto* stored = std::get_if<StoredBytes>(&tensor.data);
    if (stored == nullptr) {
      return;
    }
    auto found = sizes.find(stored->location);
    if (found == sizes.end()) {
      const auto file = MappedFile::open(resolve_location(stored->location, tensor.name, base));
      found = sizes.emplace(stored->location, file->size()).first;
    }
    check_tensor(tensor, *stored, found->second);
  });
}

void refer_to_external_data(OnnxModel& model, const std::filesystem::path& folder) {
  for_each_tensor(model.graph, [&](OnnxTensor& tensor) {
    if (const auto* stored = std::get_if<StoredBytes>(&tensor.data)) {
      const std::filesystem::path file = std::filesystem::absolute(folder / stored->location);
      tensor.data = WeightSource{file.string(), tensor.name, stored->offset, tensor.expected_bytes().value()};
    }
  });
}

}  // namespace exporters::onnx
