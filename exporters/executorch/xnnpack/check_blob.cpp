#include "exporters/executorch/xnnpack/check_blob.h"

#include "exporters/executorch/emit/layout.h"
#include "exporters/executorch/xnnpack/blob_layout.h"
#include "exporters/executorch/xnnpack/serialize.h"
#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"

#include <flatbuffers/flatbuffers.h>
#include <schema_generated.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace exporters::executorch::xnnpack {
namespace {

namespace fb = fb_xnnpack;

constexpr flatbuffers::uoffset_t kMostTables = 1u << 20;
constexpr flatbuffers::uoffset_t kDeepest = 16;

// Bits of an element; nothing for types whose size does not follow from dims.
std::optional<uint64_t> bits_of(fb::XNNDatatype dtype) {
  switch (dtype) {
    case fb::XNNDatatype::xnn_datatype_fp32:
    case fb::XNNDatatype::xnn_datatype_qint32:
    case fb::XNNDatatype::xnn_datatype_qcint32:
      return 32;
    case fb::XNNDatatype::xnn_datatype_fp16:
      return 16;
    case fb::XNNDatatype::xnn_datatype_qint8:
    case fb::XNNDatatype::xnn_datatype_quint8:
    case fb::XNNDatatype::xnn_datatype_qcint8:
      return 8;
    case fb::XNNDatatype::xnn_datatype_qcint4:
    case fb::XNNDatatype::xnn_datatype_qbint4:
      return 4;
    default:
      return std::nullopt;
  }
}

class BlobCheck {
 public:
  using NamedSizes = std::map<std::string, uint64_t>;

  BlobCheck(std::span<const std::byte> blob, const NamedSizes& named) : blob_(blob), named_(named) { find_parts(); }

  void run() {
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(graph_bytes_.data()), graph_bytes_.size(), kDeepest,
                                   kMostTables);
    ensure(verifier.VerifyBuffer<fb::XNNGraph>(nullptr), "its flatbuffer does not hold together");
    graph_ = flatbuffers::GetRoot<fb::XNNGraph>(graph_bytes_.data());
    for (flatbuffers::uoffset_t i = 0; graph_->xvalues() != nullptr && i < graph_->xvalues()->size(); ++i) {
      add_value(*graph_->xvalues()->Get(i));
    }
    for (flatbuffers::uoffset_t i = 0; graph_->xnodes() != nullptr && i < graph_->xnodes()->size(); ++i) {
      check_node(*graph_->xnodes()->Get(i));
    }
  }

 private:
  // A header says where the flatbuffer and the constants are; the oldest blobs have none.
  void find_parts() {
    graph_bytes_ = blob_;
    if (blob_.size() < kHeaderLength || std::memcmp(blob_.data() + kMagicOffset, kMagic.data(), kMagic.size()) != 0) {
      return;
    }
    const auto graph = part(number_at<uint32_t>(blob_, 10), number_at<uint32_t>(blob_, 14));
    aligned_.assign(graph.begin(), graph.end());
    graph_bytes_ = aligned_;
    constants_ = part(number_at<uint32_t>(blob_, 18), number_at<uint64_t>(blob_, 22));
  }

  std::span<const std::byte> part(uint64_t offset, uint64_t nbytes) const {
    ensure(offset <= blob_.size() && nbytes <= blob_.size() - offset, "its parts lie outside of it");
    return blob_.subspan(offset, nbytes);
  }

  void add_value(const fb::XValue& value) {
    const fb::XNNTensorValue* tensor = value.xvalue_union_as_XNNTensorValue();
    if (const auto* quantized = value.xvalue_union_as_XNNQuantizedTensorValue()) {
      tensor = quantized->tensor_value();
    }
    ensure(tensor != nullptr, "a value is missing");
    const flatbuffers::uoffset_t count = tensor->dims() == nullptr ? 0 : tensor->dims()->size();
    ensure(tensor->num_dims() == count && count <= kMaxDims, "value {} has {} axes, and says {}", tensor->id_out(),
           count, tensor->num_dims());
    values_[tensor->id_out()] = tensor;
    if (tensor->constant_buffer_idx() != 0) {
      check_constant(*tensor);
    }
  }

  void check_constant(const fb::XNNTensorValue& tensor) const {
    const auto* table = graph_->constant_data();
    // Blobs from before the header have their constants elsewhere.
    if (table == nullptr || table->size() == 0) {
      return;
    }
    ensure(tensor.constant_buffer_idx() < table->size(), "value {} is a constant that is not there", tensor.id_out());
    const fb::ConstantDataOffset* data = table->Get(tensor.constant_buffer_idx());
    uint64_t available = data->size();
    if (data->named_key() != nullptr && data->named_key()->size() > 0) {
      const auto found = named_.find(data->named_key()->str());
      if (found == named_.end()) {
        return;  // in another file
      }
      available = found->second;
    } else {
      ensure(data->offset() <= constants_.size() && available <= constants_.size() - data->offset(),
             "constant {} lies outside of its data", tensor.id_out());
    }
    const std::optional<uint64_t> bits = bits_of(tensor.datatype());
    ensure(!bits || needed_bytes(tensor, *bits) <= available, "constant {} has {} bytes, which are too few",
           tensor.id_out(), available);
  }

  static uint64_t needed_bytes(const fb::XNNTensorValue& tensor, uint64_t bits) {
    uint64_t total = bits;
    for (flatbuffers::uoffset_t i = 0; i < tensor.num_dims(); ++i) {
      ensure(!__builtin_mul_overflow(total, uint64_t{tensor.dims()->Get(i)}, &total), "value {} is too large",
             tensor.id_out());
    }
    return (total + 7) / 8;
  }

  void check_node(const fb::XNode& node) const {
    switch (node.xnode_union_type()) {
      case fb::XNodeUnion::XNNFullyConnected: {
        const auto& product = *node.xnode_union_as_XNNFullyConnected();
        const fb::XNNTensorValue& filter = value(product.filter_id());
        ensure(filter.num_dims() == 2, "the weight of a product has {} axes", filter.num_dims());
        check_bias(product.bias_id(), filter.dims()->Get((product.flags() & kFlagTransposeWeights) != 0 ? 1 : 0));
        break;
      }
      case fb::XNodeUnion::XNNConv2d:
        check_convolution(*node.xnode_union_as_XNNConv2d());
        break;
      case fb::XNodeUnion::XNNDepthwiseConv2d:
        check_convolution(*node.xnode_union_as_XNNDepthwiseConv2d());
        break;
      case fb::XNodeUnion::XNNConvTranspose2d:
        check_convolution(*node.xnode_union_as_XNNConvTranspose2d());
        break;
      default:
        break;
    }
  }

  void check_convolution(const fb::_XNNNodeConv& convolution) const {
    value(convolution.filter_id());
    check_bias(convolution.bias_id(), uint64_t{convolution.groups()} * convolution.group_output_channels());
  }

  const fb::XNNTensorValue& value(uint32_t id) const {
    const auto found = values_.find(id);
    ensure(found != values_.end(), "there is no value {}", id);
    return *found->second;
  }

  void check_bias(uint32_t id, uint64_t channels) const {
    if (id == kNoValue) {
      return;
    }
    const fb::XNNTensorValue& bias = value(id);
    ensure(bias.constant_buffer_idx() != 0 && bias.num_dims() == 1 && bias.dims()->Get(0) == channels,
           "value {} is no bias of {} channels", id, channels);
  }

  std::span<const std::byte> blob_;
  const NamedSizes& named_;
  std::vector<std::byte> aligned_;  // the graph, wherever it lay in the file
  std::span<const std::byte> graph_bytes_;
  std::span<const std::byte> constants_;
  const fb::XNNGraph* graph_ = nullptr;
  std::unordered_map<uint32_t, const fb::XNNTensorValue*> values_;
};

void check_blob(const Bytes& bytes, const BlobCheck::NamedSizes& named) {
  if (const auto* source = std::get_if<WeightSource>(&bytes)) {
    const auto file = MappedFile::open(source->file);
    BlobCheck(file->bytes(source->offset, source->nbytes), named).run();
  } else if (const auto* text = std::get_if<std::string>(&bytes)) {
    BlobCheck(std::as_bytes(std::span(*text)), named).run();
  }
}

}  // namespace

void check_delegates(const Program& program) {
  BlobCheck::NamedSizes named;
  for (const NamedData& data : program.named_data) {
    named[data.key] = nbytes_of(data.bytes);
  }
  std::set<size_t> checked;  // methods may share blobs
  for (const Method& method : program.methods) {
    for (const Delegate& delegate : method.delegates) {
      if (delegate.id != kBackendId || !checked.insert(delegate.blob).second) {
        continue;
      }
      try {
        check_blob(program.blobs.at(delegate.blob), named);
      } catch (const Error& error) {
        throw error.with_context("damaged data of a delegate in method " + method.name);
      }
    }
  }
}

}  // namespace exporters::executorch::xnnpack
