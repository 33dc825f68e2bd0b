#include "exporters/onnx/emit/reader.h"

#include "exporters/onnx/emit/file_io.h"
#include "exporters/support/error.h"

#include <sys/mman.h>
#include <protozero/pbf_reader.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>

namespace exporters::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr int kMaxDepth = 32;                  // of nested graphs
constexpr uint64_t kMaxElements = 20'000'000;  // messages, names and numbers in all: no real graph comes near

class Parser {
 public:
  explicit Parser(const ReadOptions& options) : options_(options) {}

  OnnxModel model(pbf_reader in) {
    OnnxModel model;
    bool has_graph = false;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          model.ir_version = integer(in);
          break;
        case 2:
          model.producer_name = text(in);
          break;
        case 3:
          model.producer_version = text(in);
          break;
        case 7:
          model.graph = graph(message(in), 0);
          has_graph = true;
          break;
        case 8:
          model.opsets.push_back(opset(message(in)));
          break;
        case 14:
          model.metadata.push_back(string_pair(message(in)));
          break;
        case 25:
          model.functions.push_back(function_name(message(in)));
          break;
        default:
          in.skip();
      }
    }
    ensure(has_graph, "the message holds no graph");
    ensure(model.ir_version > 0, "the message holds no IR version");
    return model;
  }

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
  // Repeated scalars come packed or one by one.
  void integers(pbf_reader& in, std::vector<int64_t>& values) {
    if (in.wire_type() == pbf_wire_type::length_delimited) {
      for (int64_t value : in.get_packed_int64()) {
        count();
        values.push_back(value);
      }
    } else {
      values.push_back(integer(in));
    }
  }
  float real(pbf_reader& in) {
    expect(in, pbf_wire_type::fixed32);
    count();
    return in.get_float();
  }
  void reals(pbf_reader& in, std::vector<float>& values) {
    if (in.wire_type() == pbf_wire_type::length_delimited) {
      for (float value : in.get_packed_float()) {
        count();
        values.push_back(value);
      }
    } else {
      values.push_back(real(in));
    }
  }

  std::pair<std::string, std::string> string_pair(pbf_reader in) {
    std::pair<std::string, std::string> pair;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          pair.first = text(in);
          break;
        case 2:
          pair.second = text(in);
          break;
        default:
          in.skip();
      }
    }
    return pair;
  }

  std::pair<std::string, int64_t> opset(pbf_reader in) {
    std::pair<std::string, int64_t> pair;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          pair.first = text(in);
          break;
        case 2:
          pair.second = integer(in);
          break;
        default:
          in.skip();
      }
    }
    return pair;
  }

  std::string function_name(pbf_reader in) {
    std::string name;
    std::string domain;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          name = text(in);
          break;
        case 10:
          domain = text(in);
          break;
        default:
          in.skip();
      }
    }
    return domain + "::" + name;
  }

  OnnxGraph graph(pbf_reader in, int depth) {
    ensure(depth < kMaxDepth, "graphs are nested deeper than {}", kMaxDepth);
    OnnxGraph graph;
    graph.name.clear();
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          graph.nodes.push_back(node(message(in), depth));
          break;
        case 2:
          graph.name = text(in);
          break;
        case 5:
          graph.initializers.push_back(tensor(message(in)));
          break;
        case 11:
          graph.inputs.push_back(value_info(message(in)));
          break;
        case 12:
          graph.outputs.push_back(value_info(message(in)));
          break;
        case 13:
          graph.value_info.push_back(value_info(message(in)));
          break;
        default:
          in.skip();
      }
    }
    return graph;
  }

  OnnxNode node(pbf_reader in, int depth) {
    OnnxNode node;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          node.inputs.push_back(text(in));
          break;
        case 2:
          node.outputs.push_back(text(in));
          break;
        case 3:
          node.name = text(in);
          break;
        case 4:
          node.op_type = text(in);
          break;
        case 5:
          node.attributes.push_back(attribute(message(in), depth));
          break;
        case 7:
          node.domain = text(in);
          break;
        default:
          in.skip();
      }
    }
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
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          attribute.name = text(in);
          break;
        case 2:
          attribute.data = real(in);
          break;
        case 3:
          attribute.data = integer(in);
          break;
        case 4:
          attribute.data = text(in);
          break;
        case 5:
          attribute.data = tensor(message(in));
          break;
        case 6:
          attribute.data = std::make_shared<OnnxGraph>(graph(message(in), depth + 1));
          break;
        case 7:
          reals(in, floats);
          break;
        case 8:
          integers(in, ints);
          break;
        case 9:
          strings.push_back(text(in));
          break;
        case 11:
          graphs.push_back(std::make_shared<OnnxGraph>(graph(message(in), depth + 1)));
          break;
        case 20:
          type = integer(in);
          break;
        default:
          in.skip();
      }
    }
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
    bool is_external = false;
    std::vector<int64_t> int32_data;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          integers(in, tensor.dims);
          break;
        case 2:
          tensor.dtype = static_cast<OnnxType>(integer(in));
          break;
        case 4:
          append_fixed<float>(
              in, typed, [](pbf_reader& r) { return r.get_packed_float(); }, pbf_wire_type::fixed32,
              [](pbf_reader& r) { return r.get_float(); });
          break;
        case 5:
          integers(in, int32_data);
          break;
        case 7:
          append_integers(in, typed);
          break;
        case 8:
          tensor.name = text(in);
          break;
        case 9:
          raw = bytes(in);
          break;
        case 10:
          append_fixed<double>(
              in, typed, [](pbf_reader& r) { return r.get_packed_double(); }, pbf_wire_type::fixed64,
              [](pbf_reader& r) { return r.get_double(); });
          break;
        case 11:
          append_integers(in, typed);
          break;
        case 13:
          external.push_back(string_pair(message(in)));
          break;
        case 14:
          is_external = integer(in) == 1;
          break;
        default:
          in.skip();
      }
    }
    if (is_external) {
      tensor.data = stored(tensor, external);
    } else {
      append_narrow(tensor, int32_data, typed);
      set_inline(tensor, raw, std::move(typed));
    }
    return tensor;
  }

  template <typename T, typename GetPacked, typename GetOne>
  void append_fixed(pbf_reader& in, InlineBytes& out, GetPacked get_packed, pbf_wire_type single, GetOne get_one) {
    auto append = [&](T value) { out.bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    if (in.wire_type() == pbf_wire_type::length_delimited) {
      for (T value : get_packed(in)) {
        append(value);
      }
    } else {
      expect(in, single);
      append(get_one(in));
    }
  }

  void append_integers(pbf_reader& in, InlineBytes& out) {
    std::vector<int64_t> values;
    integers(in, values);
    out.bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
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
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          info.name = text(in);
          break;
        case 2:
          read_type(message(in), info);
          break;
        default:
          in.skip();
      }
    }
    return info;
  }

  void read_type(pbf_reader in, OnnxValueInfo& info) {
    while (in.next()) {
      if (in.tag() == 1) {
        read_tensor_type(message(in), info);
      } else {
        in.skip();
      }
    }
  }

  void read_tensor_type(pbf_reader in, OnnxValueInfo& info) {
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          info.dtype = static_cast<OnnxType>(integer(in));
          break;
        case 2:
          info.dims = shape(message(in));
          break;
        default:
          in.skip();
      }
    }
  }

  std::vector<OnnxDim> shape(pbf_reader in) {
    std::vector<OnnxDim> dims;
    while (in.next()) {
      if (in.tag() == 1) {
        dims.push_back(dim(message(in)));
      } else {
        in.skip();
      }
    }
    return dims;
  }

  OnnxDim dim(pbf_reader in) {
    OnnxDim dim;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          dim = integer(in);
          break;
        case 2:
          dim = text(in);
          break;
        default:
          in.skip();
      }
    }
    return dim;
  }

  const ReadOptions& options_;
  uint64_t elements_ = 0;
};

struct Mapping {
  void* address = MAP_FAILED;
  size_t size = 0;
  ~Mapping() {
    if (address != MAP_FAILED) {
      munmap(address, size);
    }
  }
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

void for_each_stored(const OnnxGraph& graph, const std::function<void(const OnnxTensor&, const StoredBytes&)>& visit) {
  auto visit_tensor = [&](const OnnxTensor& tensor) {
    if (const auto* stored = std::get_if<StoredBytes>(&tensor.data)) {
      visit(tensor, *stored);
    }
  };
  std::for_each(graph.initializers.begin(), graph.initializers.end(), visit_tensor);
  for (const OnnxNode& node : graph.nodes) {
    for (const OnnxAttribute& attribute : node.attributes) {
      if (const auto* tensor = std::get_if<OnnxTensor>(&attribute.data)) {
        visit_tensor(*tensor);
      } else if (const auto* body = std::get_if<std::shared_ptr<OnnxGraph>>(&attribute.data)) {
        for_each_stored(**body, visit);
      } else if (const auto* bodies = std::get_if<std::vector<std::shared_ptr<OnnxGraph>>>(&attribute.data)) {
        for (const auto& one : *bodies) {
          for_each_stored(*one, visit);
        }
      }
    }
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
  const File file = File::open_for_reading(path);
  Mapping mapping;
  mapping.size = file.size();
  ensure(mapping.size > 0, "{} is empty", path.string());
  ensure(mapping.size <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max()),
         "{} has {} bytes, more than the 2 GB of an ONNX message", path.string(), mapping.size);
  mapping.address = mmap(nullptr, mapping.size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  ensure(mapping.address != MAP_FAILED, "cannot map {}: {}", path.string(), std::strerror(errno));
  const std::string_view bytes(static_cast<const char*>(mapping.address), mapping.size);
  try {
    return parse_model(bytes, options);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot read {}: {}", path.string(), error.message()), error.where(), hint_for(bytes));
  }
}

void check_external_data(const OnnxModel& model, const std::filesystem::path& folder) {
  const std::filesystem::path base = folder.empty() ? "." : folder;
  std::map<std::string, uint64_t> sizes;
  for_each_stored(model.graph, [&](const OnnxTensor& tensor, const StoredBytes& stored) {
    auto found = sizes.find(stored.location);
    if (found == sizes.end()) {
      const File file = File::open_for_reading(resolve_location(stored.location, tensor.name, base));
      found = sizes.emplace(stored.location, file.size()).first;
    }
    check_tensor(tensor, stored, found->second);
  });
}

}  // namespace exporters::onnx
