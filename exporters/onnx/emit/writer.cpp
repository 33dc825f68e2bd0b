#include "exporters/onnx/emit/writer.h"

#include "exporters/support/error.h"

#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include <limits>

namespace exporters::onnx {
namespace {

using protozero::pbf_writer;

// Field numbers are those of onnx.proto (onnx/onnx/onnx.proto); fields go out in ascending order of their number in
// each message, so that the bytes equal what protobuf itself would write.

void write_string_pair(pbf_writer& parent, uint32_t field, const std::string& key, const std::string& value) {
  pbf_writer entry(parent, field);
  entry.add_string(1, key);
  entry.add_string(2, value);
}

class TensorWriter {
 public:
  TensorWriter(pbf_writer& out, const OnnxTensor& tensor) : out_(out), tensor_(tensor) {}

  void run() {
    add_description();
    std::visit(*this, tensor_.data);
  }

  /// All but the values, which come last.
  void add_description() {
    for (int64_t dim : tensor_.dims) {
      out_.add_int64(1, dim);
    }
    out_.add_int32(2, static_cast<int32_t>(tensor_.dtype));
    if (!tensor_.name.empty()) {
      out_.add_string(8, tensor_.name);
    }
  }

  void operator()(const InlineBytes& data) { out_.add_bytes(9, data.bytes); }
  void operator()(const StoredBytes& data) {
    write_string_pair(out_, 13, "location", data.location);
    write_string_pair(out_, 13, "offset", std::to_string(data.offset));
    if (data.length) {
      write_string_pair(out_, 13, "length", std::to_string(*data.length));
    }
    out_.add_enum(14, 1);
  }
  template <typename Pending>
  void operator()(const Pending&) {
    fail("initializer '{}' has no place in a file yet; lay out the external data before serializing", tensor_.name);
  }

 private:
  pbf_writer& out_;
  const OnnxTensor& tensor_;
};

void write_value_info(pbf_writer& out, const OnnxValueInfo& info) {
  out.add_string(1, info.name);
  if (info.dtype == OnnxType::kUndefined) {
    return;
  }
  pbf_writer type(out, 2);
  pbf_writer tensor(type, 1);
  tensor.add_int32(1, static_cast<int32_t>(info.dtype));
  if (!info.dims) {
    return;
  }
  // A nested writer leaves out empty messages, which here mean something: rank 0, and an unknown size.
  std::string shape_bytes;
  pbf_writer shape(shape_bytes);
  for (const OnnxDim& dim : *info.dims) {
    std::string entry_bytes;
    pbf_writer entry(entry_bytes);
    if (const auto* number = std::get_if<int64_t>(&dim)) {
      entry.add_int64(1, *number);
    } else if (const auto* name = std::get_if<std::string>(&dim)) {
      entry.add_string(2, *name);
    }
    shape.add_message(1, entry_bytes);
  }
  tensor.add_message(2, shape_bytes);
}

void write_graph(pbf_writer& out, const OnnxGraph& graph);

class AttributeWriter {
 public:
  AttributeWriter(pbf_writer& out, const OnnxAttribute& attribute) : out_(out), attribute_(attribute) {}

  void run() {
    out_.add_string(1, attribute_.name);
    std::visit(*this, attribute_.data);
  }

  void operator()(std::monostate) { fail("attribute '{}' has no value that can be written", attribute_.name); }
  void operator()(float value) { out_.add_float(2, value), type(1); }
  void operator()(int64_t value) { out_.add_int64(3, value), type(2); }
  void operator()(const std::string& value) { out_.add_bytes(4, value), type(3); }
  void operator()(const OnnxTensor& value) {
    {
      pbf_writer tensor(out_, 5);
      TensorWriter(tensor, value).run();
    }
    type(4);
  }
  void operator()(const std::shared_ptr<OnnxGraph>& value) {
    {
      pbf_writer graph(out_, 6);
      write_graph(graph, *value);
    }
    type(5);
  }
  void operator()(const std::vector<float>& values) {
    for (float value : values) {
      out_.add_float(7, value);
    }
    type(6);
  }
  void operator()(const std::vector<int64_t>& values) {
    for (int64_t value : values) {
      out_.add_int64(8, value);
    }
    type(7);
  }
  void operator()(const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      out_.add_bytes(9, value);
    }
    type(8);
  }
  void operator()(const std::vector<std::shared_ptr<OnnxGraph>>& values) {
    for (const auto& value : values) {
      pbf_writer graph(out_, 11);
      write_graph(graph, *value);
    }
    type(10);
  }

 private:
  void type(int32_t kind) { out_.add_enum(20, kind); }

  pbf_writer& out_;
  const OnnxAttribute& attribute_;
};

void write_node(pbf_writer& out, const OnnxNode& node) {
  for (const std::string& input : node.inputs) {
    out.add_string(1, input);
  }
  for (const std::string& output : node.outputs) {
    out.add_string(2, output);
  }
  out.add_string(3, node.name);
  out.add_string(4, node.op_type);
  for (const OnnxAttribute& attribute : node.attributes) {
    pbf_writer entry(out, 5);
    AttributeWriter(entry, attribute).run();
  }
  if (!node.domain.empty()) {
    out.add_string(7, node.domain);
  }
}

void write_nodes(pbf_writer& out, const OnnxGraph& graph) {
  for (const OnnxNode& node : graph.nodes) {
    pbf_writer entry(out, 1);
    write_node(entry, node);
  }
  out.add_string(2, graph.name);
}

void write_initializer(pbf_writer& out, const OnnxTensor& tensor) {
  pbf_writer entry(out, 5);
  TensorWriter(entry, tensor).run();
}

void write_values(pbf_writer& out, const OnnxGraph& graph) {
  const std::pair<uint32_t, const std::vector<OnnxValueInfo>*> lists[] = {
      {11, &graph.inputs}, {12, &graph.outputs}, {13, &graph.value_info}};
  for (const auto& [field, infos] : lists) {
    for (const OnnxValueInfo& info : *infos) {
      pbf_writer entry(out, field);
      write_value_info(entry, info);
    }
  }
}

void write_graph(pbf_writer& out, const OnnxGraph& graph) {
  write_nodes(out, graph);
  for (const OnnxTensor& tensor : graph.initializers) {
    write_initializer(out, tensor);
  }
  write_values(out, graph);
}

void write_producer(pbf_writer& out, const OnnxModel& model) {
  out.add_int64(1, model.ir_version);
  out.add_string(2, model.producer_name);
  out.add_string(3, model.producer_version);
}

void write_opsets(pbf_writer& out, const OnnxModel& model) {
  for (const auto& [domain, version] : model.opsets) {
    pbf_writer entry(out, 8);
    entry.add_string(1, domain);
    entry.add_int64(2, version);
  }
  for (const auto& [key, value] : model.metadata) {
    write_string_pair(out, 14, key, value);
  }
}

uint64_t inline_bytes(const OnnxGraph& graph) {
  uint64_t total = 0;
  for (const OnnxTensor& tensor : graph.initializers) {
    if (const auto* data = std::get_if<InlineBytes>(&tensor.data)) {
      total += data->bytes.size();
    }
  }
  return total;
}

void check_size(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
    throw Error(fmt::format("the ONNX message would have {} bytes, more than protobuf's 2 GB", bytes), {},
                "Keep the weights in external data.");
  }
}

}  // namespace

std::string serialize(const OnnxModel& model) {
  check_size(inline_bytes(model.graph));
  std::string bytes;
  pbf_writer out(bytes);
  write_producer(out, model);
  {
    pbf_writer graph(out, 7);
    write_graph(graph, model.graph);
  }
  write_opsets(out, model);
  check_size(bytes.size());
  return bytes;
}

namespace {

// A message of parts, which grows at its end.
class Parts {
 public:
  /// What `write` puts into a writer of the message.
  template <typename Write>
  void add(Write write) {
    pbf_writer out(parts_.back().text);
    const size_t before = parts_.back().text.size();
    write(out);
    size_ += parts_.back().text.size() - before;
  }

  /// The key of a field that holds bytes, with their number.
  void begin(uint32_t field, uint64_t nbytes) {
    std::string& text = parts_.back().text;
    const size_t before = text.size();
    protozero::add_varint_to_buffer(&text,
                                    field << 3 | static_cast<uint32_t>(protozero::pbf_wire_type::length_delimited));
    protozero::add_varint_to_buffer(&text, nbytes);
    size_ += text.size() - before;
  }

  void add_text(const std::string& text) {
    parts_.back().text += text;
    size_ += text.size();
  }

  void add_bytes(const OnnxTensor& tensor, uint64_t nbytes) {
    parts_.back().bytes = &tensor;
    parts_.emplace_back();
    size_ += nbytes;
  }

  void append(Parts other) {
    add_text(other.parts_.front().text);
    parts_.back().bytes = other.parts_.front().bytes;
    parts_.insert(parts_.end(), std::make_move_iterator(other.parts_.begin() + 1),
                  std::make_move_iterator(other.parts_.end()));
    size_ += other.size_ - other.parts_.front().text.size();
  }

  uint64_t size() const { return size_; }
  std::vector<MessagePart> take() && { return std::move(parts_); }

 private:
  std::vector<MessagePart> parts_ = std::vector<MessagePart>(1);
  uint64_t size_ = 0;
};

// TensorProto.raw_data is the last field of what a tensor with inline bytes has.
void add_pending(Parts& graph, const OnnxTensor& tensor) {
  const std::optional<uint64_t> nbytes = tensor.expected_bytes();
  ensure(nbytes.has_value(), "initializer '{}' has a shape whose size cannot be computed", tensor.name);
  Parts entry;
  entry.add([&](pbf_writer& out) { TensorWriter(out, tensor).add_description(); });
  entry.begin(9, *nbytes);
  graph.begin(5, entry.size() + *nbytes);
  entry.add_bytes(tensor, *nbytes);
  graph.append(std::move(entry));
}

}  // namespace

std::vector<MessagePart> serialize_in_parts(const OnnxModel& model) {
  Parts graph;
  graph.add([&](pbf_writer& out) { write_nodes(out, model.graph); });
  for (const OnnxTensor& tensor : model.graph.initializers) {
    if (tensor.is_pending()) {
      add_pending(graph, tensor);
    } else {
      graph.add([&](pbf_writer& out) { write_initializer(out, tensor); });
    }
  }
  graph.add([&](pbf_writer& out) { write_values(out, model.graph); });
  Parts whole;
  whole.add([&](pbf_writer& out) { write_producer(out, model); });
  whole.begin(7, graph.size());
  whole.append(std::move(graph));
  whole.add([&](pbf_writer& out) { write_opsets(out, model); });
  check_size(whole.size());
  return std::move(whole).take();
}

}  // namespace exporters::onnx
