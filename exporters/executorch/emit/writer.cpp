#include "exporters/executorch/emit/writer.h"

#include "exporters/executorch/emit/layout.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "exporters/support/file_copy.h"
#include "exporters/support/quote.h"

#include <flatbuffers/flatbuffers.h>
#include <program_generated.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

namespace exporters::executorch {
namespace {

namespace fb = executorch_flatbuffer;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <typename T>
using Offsets = std::vector<Offset<T>>;

uint64_t aligned(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

// ── Segments ──

struct Segment {
  std::vector<std::pair<uint64_t, const Bytes*>> pieces;  // by offset in the segment
  uint64_t size = 0;
  uint64_t alignment = 1;
  uint64_t offset = 0;                      // from the first segment
  std::optional<uint64_t> constant_offset;  // of a segment without bytes of its own, in that of the constants

  uint64_t append(const Bytes& bytes, uint64_t piece_alignment) {
    const uint64_t begin = aligned(size, piece_alignment);
    pieces.emplace_back(begin, &bytes);
    size = begin + nbytes_of(bytes);
    return begin;
  }
};

// The constants of one segment in their order, and the offsets that the schema lists: the first is for none.
struct ConstantSegment {
  Segment segment;
  std::vector<uint64_t> offsets = {0};
  std::map<size_t, uint32_t> index;  // Program::constants → offsets

  void add(const Program& program, size_t constant) {
    if (index.try_emplace(constant, static_cast<uint32_t>(offsets.size())).second) {
      offsets.push_back(segment.append(program.constants[constant], 16));
    }
  }
};

// Every segment of the file: constants, initial state, delegates' blobs, named data.
struct Segments {
  explicit Segments(const Program& program) {
    for_each_constant(program, [&](const TensorValue& tensor) {
      (tensor.allocation ? state : constants).add(program, *tensor.constant);
    });
    all.push_back(std::move(constants.segment));
    if (state.offsets.size() > 1) {
      state_index = add(std::move(state.segment));
    }
    for (const Bytes& blob : program.blobs) {
      blobs.push_back(add(blob, 1));
    }
    for (const NamedData& data : program.named_data) {
      named.push_back(add_named(program, data));
    }
    uint64_t end = 0;
    for (Segment& segment : all) {
      if (segment.constant_offset) {
        segment.offset = all.front().offset + *segment.constant_offset;
        continue;
      }
      segment.offset = aligned(end, std::lcm(kSegmentAlignment, segment.alignment));
      end = segment.offset + segment.size;
    }
    size = end;
  }

  // What a delegate and a kernel both use, such as a tied embedding, is one piece of the file: a segment of its own
  // over bytes of the constants. The same for data under several names.
  uint32_t add_named(const Program& program, const NamedData& data) {
    for (size_t i = 0; i < named.size(); ++i) {
      if (same_bytes(program.named_data[i].bytes, data.bytes)) {
        return named[i];
      }
    }
    for (const auto& [constant, index] : constants.index) {
      const uint64_t offset = constants.offsets[index];
      if (offset % data.alignment == 0 && same_bytes(program.constants[constant], data.bytes)) {
        Segment segment;
        segment.size = nbytes_of(data.bytes);
        segment.constant_offset = offset;
        return add(std::move(segment));
      }
    }
    return add(data.bytes, data.alignment);
  }

  // In the order of Program::constants, whatever the order of methods and values.
  template <typename Visit>
  static void for_each_constant(const Program& program, Visit&& visit) {
    std::vector<const TensorValue*> tensors;
    for (const Method& method : program.methods) {
      for (const EValue& value : method.values) {
        const auto* tensor = std::get_if<TensorValue>(&value);
        if (tensor != nullptr && tensor->constant) {
          tensors.push_back(tensor);
        }
      }
    }
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const TensorValue* a, const TensorValue* b) { return *a->constant < *b->constant; });
    for (const TensorValue* tensor : tensors) {
      visit(*tensor);
    }
  }

  uint32_t add(Segment segment) {
    all.push_back(std::move(segment));
    return static_cast<uint32_t>(all.size() - 1);
  }
  uint32_t add(const Bytes& bytes, uint64_t alignment) {
    Segment segment;
    segment.alignment = alignment;
    segment.append(bytes, 1);
    return add(std::move(segment));
  }

  uint32_t data_buffer(const TensorValue& tensor) const {
    return tensor.constant ? (tensor.allocation ? state : constants).index.at(*tensor.constant) : 0;
  }

  ConstantSegment constants;
  ConstantSegment state;
  std::vector<Segment> all;
  uint32_t state_index = 0;
  std::vector<uint32_t> blobs;  // segment of each blob
  std::vector<uint32_t> named;  // segment of each named piece
  uint64_t size = 0;
};

// ── The flatbuffer ──

class ProgramTable {
 public:
  ProgramTable(const Program& program, const Segments& segments) : program_(program), segments_(segments) {}

  // The finished flatbuffer, without the extended header.
  const FlatBufferBuilder& build() {
    std::vector<const Method*> methods;
    for (const Method& method : program_.methods) {
      methods.push_back(&method);
    }
    std::sort(methods.begin(), methods.end(), [](const Method* a, const Method* b) { return a->name < b->name; });
    Offsets<fb::ExecutionPlan> plans;
    for (const Method* method : methods) {
      plans.push_back(pack(*method));
    }
    const auto plan_vector = builder_.CreateVector(plans);
    const auto no_buffers = builder_.CreateVector(Offsets<fb::Buffer>());
    const auto no_inline_data = builder_.CreateVector(Offsets<fb::BackendDelegateInlineData>());
    const auto segment_vector = pack_segments();
    const auto constants = subsegments(0, segments_.constants.offsets);
    Offsets<fb::SubsegmentOffsets> state;
    if (segments_.state.offsets.size() > 1) {
      state.push_back(subsegments(segments_.state_index, segments_.state.offsets));
    }
    const auto state_vector = builder_.CreateVector(state);
    const auto named = pack_named_data();
    builder_.Finish(fb::CreateProgram(builder_, kSchemaVersion, plan_vector, no_buffers, no_inline_data, segment_vector,
                                      constants, state_vector, named),
                    std::string(kFileIdentifier).c_str());
    return builder_;
  }

 private:
  Offset<fb::SubsegmentOffsets> subsegments(uint32_t segment, const std::vector<uint64_t>& offsets) {
    return fb::CreateSubsegmentOffsets(builder_, segment, builder_.CreateVector(offsets));
  }

  Offset<flatbuffers::Vector<Offset<fb::DataSegment>>> pack_segments() {
    Offsets<fb::DataSegment> result;
    for (const Segment& segment : segments_.all) {
      result.push_back(fb::CreateDataSegment(builder_, segment.offset, segment.size));
    }
    return builder_.CreateVector(result);
  }

  Offset<flatbuffers::Vector<Offset<fb::NamedData>>> pack_named_data() {
    Offsets<fb::NamedData> result;
    for (size_t i = 0; i < program_.named_data.size(); ++i) {
      const auto key = builder_.CreateString(program_.named_data[i].key);
      result.push_back(fb::CreateNamedData(builder_, key, segments_.named[i]));
    }
    return builder_.CreateVector(result);
  }

  Offset<fb::ExecutionPlan> pack(const Method& method) {
    const auto name = builder_.CreateString(method.name);
    const auto input_tree = builder_.CreateString(method.input_tree);
    const auto output_tree = builder_.CreateString(method.output_tree);
    const auto trees = fb::CreateContainerMetadata(builder_, input_tree, output_tree);
    Offsets<fb::EValue> values;
    for (const EValue& value : method.values) {
      values.push_back(std::visit([&](const auto& held) { return pack_value(held); }, value));
    }
    const auto value_vector = builder_.CreateVector(values);
    const auto inputs = builder_.CreateVector(method.inputs);
    const auto outputs = builder_.CreateVector(method.outputs);
    const auto chains = builder_.CreateVector(Offsets<fb::Chain>{pack_chain(method)});
    Offsets<fb::Operator> operators;
    for (const Operator& op : method.operators) {
      const auto op_name = builder_.CreateString(op.name);
      operators.push_back(fb::CreateOperator(builder_, op_name, builder_.CreateString(op.overload)));
    }
    const auto operator_vector = builder_.CreateVector(operators);
    Offsets<fb::BackendDelegate> delegates;
    for (const Delegate& delegate : method.delegates) {
      delegates.push_back(pack(delegate));
    }
    const auto delegate_vector = builder_.CreateVector(delegates);
    const auto sizes = builder_.CreateVector(method.memory_sizes);
    return fb::CreateExecutionPlan(builder_, name, trees, value_vector, inputs, outputs, chains, operator_vector,
                                   delegate_vector, sizes);
  }

  // Strings are made one by one, never two in the arguments of one call: their order would be the compiler's.
  Offset<fb::BackendDelegate> pack(const Delegate& delegate) {
    const auto id = builder_.CreateString(delegate.id);
    const auto data =
        fb::CreateBackendDelegateDataReference(builder_, fb::DataLocation::SEGMENT, segments_.blobs[delegate.blob]);
    Offsets<fb::CompileSpec> specs;
    for (const auto& [key, value] : delegate.compile_specs) {
      const auto packed_key = builder_.CreateString(key);
      const auto* bytes = reinterpret_cast<const uint8_t*>(value.data());
      specs.push_back(fb::CreateCompileSpec(builder_, packed_key, builder_.CreateVector(bytes, value.size())));
    }
    return fb::CreateBackendDelegate(builder_, id, data, builder_.CreateVector(specs));
  }

  Offset<fb::Chain> pack_chain(const Method& method) {
    Offsets<fb::Instruction> instructions;
    for (const Instruction& instruction : method.instructions) {
      instructions.push_back(std::visit([&](const auto& held) { return pack_instruction(held); }, instruction));
    }
    const auto none = builder_.CreateVector(std::vector<int32_t>());
    const auto instruction_vector = builder_.CreateVector(instructions);
    return fb::CreateChain(builder_, none, none, instruction_vector);
  }

  // ── Values ──

  template <typename Table>
  Offset<fb::EValue> boxed(fb::KernelTypes type, Offset<Table> table) {
    return fb::CreateEValue(builder_, type, table.Union());
  }

  Offset<fb::EValue> pack_value(std::monostate) { return boxed(fb::KernelTypes::Null, fb::CreateNull(builder_)); }
  Offset<fb::EValue> pack_value(int64_t value) { return boxed(fb::KernelTypes::Int, fb::CreateInt(builder_, value)); }
  Offset<fb::EValue> pack_value(bool value) { return boxed(fb::KernelTypes::Bool, fb::CreateBool(builder_, value)); }
  Offset<fb::EValue> pack_value(double value) {
    return boxed(fb::KernelTypes::Double, fb::CreateDouble(builder_, value));
  }
  Offset<fb::EValue> pack_value(const std::string& value) {
    return boxed(fb::KernelTypes::String, fb::CreateString(builder_, builder_.CreateString(value)));
  }
  Offset<fb::EValue> pack_value(const IntList& list) {
    return boxed(fb::KernelTypes::IntList, fb::CreateIntList(builder_, builder_.CreateVector(list.values)));
  }
  Offset<fb::EValue> pack_value(const DoubleList& list) {
    return boxed(fb::KernelTypes::DoubleList, fb::CreateDoubleList(builder_, builder_.CreateVector(list.items)));
  }
  Offset<fb::EValue> pack_value(const BoolList& list) {
    const std::vector<uint8_t> items(list.items.begin(), list.items.end());
    return boxed(fb::KernelTypes::BoolList, fb::CreateBoolList(builder_, builder_.CreateVector(items)));
  }
  Offset<fb::EValue> pack_value(const TensorList& list) {
    return boxed(fb::KernelTypes::TensorList, fb::CreateTensorList(builder_, builder_.CreateVector(list.values)));
  }
  Offset<fb::EValue> pack_value(const OptionalTensorList& list) {
    return boxed(fb::KernelTypes::OptionalTensorList,
                 fb::CreateOptionalTensorList(builder_, builder_.CreateVector(list.values)));
  }

  Offset<fb::EValue> pack_value(const TensorValue& tensor) {
    const auto sizes = builder_.CreateVector(tensor.sizes);
    const auto dim_order = builder_.CreateVector(tensor.dim_order);
    Offset<fb::AllocationDetails> allocation = 0;
    if (tensor.allocation) {
      allocation = fb::CreateAllocationDetails(builder_, tensor.allocation->memory_id,
                                               static_cast<uint32_t>(tensor.allocation->offset),
                                               static_cast<uint32_t>(tensor.allocation->offset >> 32));
    }
    Offset<fb::ExtraTensorInfo> extra = 0;
    if (!tensor.name.empty()) {
      const auto location = tensor.external ? fb::TensorDataLocation::EXTERNAL : fb::TensorDataLocation::SEGMENT;
      extra = fb::CreateExtraTensorInfo(builder_, 0, builder_.CreateString(tensor.name), location);
    }
    return boxed(fb::KernelTypes::Tensor,
                 fb::CreateTensor(builder_, static_cast<fb::ScalarType>(tensor.dtype), 0, sizes, dim_order, false,
                                  segments_.data_buffer(tensor), allocation, 0,
                                  static_cast<fb::TensorShapeDynamism>(tensor.dynamism), extra));
  }

  // ── Instructions ──

  template <typename Table>
  Offset<fb::Instruction> boxed(fb::InstructionArguments type, Offset<Table> table) {
    return fb::CreateInstruction(builder_, type, table.Union());
  }

  Offset<fb::Instruction> pack_instruction(const KernelCall& call) {
    return boxed(fb::InstructionArguments::KernelCall,
                 fb::CreateKernelCall(builder_, call.op, builder_.CreateVector(call.args)));
  }
  Offset<fb::Instruction> pack_instruction(const DelegateCall& call) {
    return boxed(fb::InstructionArguments::DelegateCall,
                 fb::CreateDelegateCall(builder_, call.delegate, builder_.CreateVector(call.args)));
  }
  Offset<fb::Instruction> pack_instruction(const MoveCall& call) {
    return boxed(fb::InstructionArguments::MoveCall, fb::CreateMoveCall(builder_, call.from, call.to));
  }
  Offset<fb::Instruction> pack_instruction(const JumpFalseCall& call) {
    return boxed(fb::InstructionArguments::JumpFalseCall,
                 fb::CreateJumpFalseCall(builder_, call.condition, call.destination));
  }
  Offset<fb::Instruction> pack_instruction(const FreeCall& call) {
    return boxed(fb::InstructionArguments::FreeCall, fb::CreateFreeCall(builder_, call.value));
  }

  const Program& program_;
  const Segments& segments_;
  FlatBufferBuilder builder_;
};

// ── The file ──

template <typename Number>
void put(std::string& text, size_t at, Number number) {
  std::memcpy(text.data() + at, &number, sizeof number);  // little-endian machines only, as the format
}

// The flatbuffer with the extended header put in after its identifier: everything behind moves, and so does the root.
std::string with_header(const FlatBufferBuilder& built, uint64_t segment_bytes) {
  std::string bytes(reinterpret_cast<const char*>(built.GetBufferPointer()), built.GetSize());
  bytes.insert(kHeaderOffset, kHeaderLength, '\0');
  uint32_t root = 0;
  std::memcpy(&root, bytes.data(), sizeof root);
  put(bytes, 0, root + kHeaderLength);
  std::memcpy(bytes.data() + kHeaderOffset, kHeaderMagic.data(), kHeaderMagic.size());
  put(bytes, kHeaderOffset + 4, kHeaderLength);
  put(bytes, kHeaderOffset + 8, uint64_t{bytes.size()});
  put(bytes, kHeaderOffset + 16, aligned(bytes.size(), kSegmentAlignment));
  put(bytes, kHeaderOffset + 24, segment_bytes);
  return bytes;
}

void write_piece(AtomicFile& file, const Bytes& bytes) {
  if (const auto* source = std::get_if<WeightSource>(&bytes)) {
    append_range(file, source->file, source->offset, source->nbytes);
  } else if (const auto* tensor = std::get_if<at::Tensor>(&bytes); tensor != nullptr && deferred_conversion(*tensor)) {
    write_deferred(*tensor, {[&](std::span<const std::byte> piece) { file.write(piece); },
                             [&](uint64_t count) { file.reserve(count); }});
  } else if (tensor != nullptr) {
    ensure(tensor->is_cpu() && tensor->is_contiguous(), "constants of a program are contiguous CPU tensors");
    file.write({static_cast<const std::byte*>(tensor->const_data_ptr()), tensor->nbytes()});
  } else {
    file.write(std::get<std::string>(bytes));
  }
}

}  // namespace

void save_program(const Program& program, const std::filesystem::path& path) {
  check(program);
  const Segments segments(program);
  ProgramTable table(program, segments);
  AtomicFile file(path);
  file.write(with_header(table.build(), segments.size));
  file.align(kSegmentAlignment);
  const uint64_t base = file.size();
  for (const Segment& segment : segments.all) {
    for (const auto& [offset, bytes] : segment.pieces) {
      file.reserve(base + segment.offset + offset - file.size());  // padding stays zeros
      write_piece(file, *bytes);
    }
  }
  file.commit();
}

}  // namespace exporters::executorch
