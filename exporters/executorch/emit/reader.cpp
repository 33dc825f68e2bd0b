#include "exporters/executorch/emit/reader.h"

#include "exporters/executorch/emit/layout.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"
#include "exporters/support/quote.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>
#include <program_generated.h>

#include <array>
#include <map>

namespace exporters::executorch {
namespace {

namespace fb = executorch_flatbuffer;

constexpr uint64_t kMinFile = 16;

// The verifier lets vectors of 8-byte numbers begin anywhere.
template <typename Number>
Number element(const flatbuffers::Vector<Number>& vector, uint32_t index) {
  const std::span data(reinterpret_cast<const std::byte*>(vector.Data()), uint64_t{vector.size()} * sizeof(Number));
  return number_at<Number>(data, uint64_t{index} * sizeof(Number));
}

std::string_view text_at(std::span<const std::byte> bytes, uint64_t at, size_t size) {
  return {reinterpret_cast<const char*>(bytes.data()) + at, size};
}

// Where the parts of the file lie.
struct FileLayout {
  uint64_t program_size = 0;
  uint64_t segment_base = 0;
  uint64_t segment_end = 0;

  static FileLayout of(std::span<const std::byte> file) {
    ensure(file.size() >= kMinFile, "it has {} bytes, too few for a program", file.size());
    check_identifier(text_at(file, 4, 4));
    FileLayout layout{file.size(), 0, 0};
    if (file.size() < kHeaderOffset + kMinHeaderLength || text_at(file, kHeaderOffset, 4) != kHeaderMagic) {
      return layout;  // no segments: the flatbuffer is all
    }
    const auto length = number_at<uint32_t>(file, kHeaderOffset + 4);
    ensure(length >= kMinHeaderLength && length <= file.size() - kHeaderOffset, "its header says that it has {} bytes",
           length);
    layout.program_size = number_at<uint64_t>(file, kHeaderOffset + 8);
    ensure(layout.program_size >= kHeaderOffset + length && layout.program_size <= file.size(),
           "its header states a program of {} bytes, the file has {}", layout.program_size, file.size());
    layout.segment_base = number_at<uint64_t>(file, kHeaderOffset + 16);
    layout.segment_end = file.size();
    if (layout.segment_base != 0) {
      ensure(layout.segment_base >= layout.program_size && layout.segment_base <= file.size(),
             "its segments begin at byte {}, the file has {}", layout.segment_base, file.size());
      if (length >= kHeaderLength) {
        const auto nbytes = number_at<uint64_t>(file, kHeaderOffset + 24);
        ensure(nbytes <= file.size() - layout.segment_base,
               "it is truncated: {} bytes of data are stated, {} are there", nbytes, file.size() - layout.segment_base);
        layout.segment_end = layout.segment_base + nbytes;
      }
    }
    return layout;
  }

 private:
  static void check_identifier(std::string_view identifier) {
    if (identifier == kFileIdentifier) {
      return;
    }
    if (identifier.starts_with("ET")) {
      throw Error(fmt::format("it is of schema {}, this library reads {}", quote(identifier), kFileIdentifier), {},
                  "Export it again with a matching version.");
    }
    fail("it is no ExecuTorch program: its identifier is {} instead of {}", quote(identifier), kFileIdentifier);
  }
};

// Vectors of a flatbuffer may be shared by many tables, so that a small file unfolds into a large program. No honest
// writer does so: all that is copied out must fit into the program's size a few times over.
class Budget {
 public:
  explicit Budget(uint64_t program_size) : left_(program_size * 8 + 4096) {}
  void spend(uint64_t nbytes) {
    ensure(nbytes <= left_, "it unfolds into more than its size can mean");
    left_ -= nbytes;
  }

 private:
  uint64_t left_;
};

const std::map<int8_t, c10::ScalarType>& known_dtypes() {
  static const auto* dtypes = [] {
    auto* map = new std::map<int8_t, c10::ScalarType>();
    for (const c10::ScalarType dtype : {at::kByte,
                                        at::kChar,
                                        at::kShort,
                                        at::kInt,
                                        at::kLong,
                                        at::kHalf,
                                        at::kFloat,
                                        at::kDouble,
                                        at::kBool,
                                        c10::ScalarType::QInt8,
                                        c10::ScalarType::QUInt8,
                                        c10::ScalarType::QInt32,
                                        at::kBFloat16,
                                        at::kUInt16,
                                        at::kUInt32,
                                        at::kUInt64,
                                        c10::ScalarType::Float8_e5m2,
                                        c10::ScalarType::Float8_e4m3fn,
                                        c10::ScalarType::Float8_e5m2fnuz,
                                        c10::ScalarType::Float8_e4m3fnuz}) {
      map->emplace(static_cast<int8_t>(dtype), dtype);
    }
    return map;
  }();
  return *dtypes;
}

class Reader {
 public:
  Reader(const MappedFile& file, const FileLayout& layout, const fb::Program& program)
      : file_(file), layout_(layout), program_(program), budget_(layout.program_size) {}

  Program read() {
    ensure(program_.version() == kSchemaVersion, "it has schema version {}, this library reads {}", program_.version(),
           kSchemaVersion);
    ensure(program_.execution_plan() != nullptr && program_.execution_plan()->size() > 0, "it has no method");
    for (const fb::ExecutionPlan* plan : *program_.execution_plan()) {
      read_method(required(plan, "a method"));
    }
    if (program_.named_data() != nullptr) {
      for (const fb::NamedData* packed : *program_.named_data()) {
        const fb::NamedData& data = required(packed, "named data");
        result_.named_data.push_back({text(data.key()), segment(data.segment_index()), 1});
      }
    }
    check(result_);
    return std::move(result_);
  }

 private:
  // The verifier lets tables be left out, a union's too.
  template <typename T>
  const T& required(const T* part, const char* what) const {
    ensure(part != nullptr, "{} is missing", what);
    return *part;
  }

  std::string text(const flatbuffers::String* string) {
    if (string == nullptr) {
      return {};
    }
    budget_.spend(string->size());
    return string->str();
  }

  template <typename To, typename From>
  std::vector<To> numbers(const flatbuffers::Vector<From>* vector) {
    if (vector == nullptr) {
      return {};
    }
    budget_.spend(vector->size() * sizeof(To));
    std::vector<To> result;
    result.reserve(vector->size());
    for (uint32_t i = 0; i < vector->size(); ++i) {
      result.push_back(static_cast<To>(element(*vector, i)));
    }
    return result;
  }

  template <typename T>
  uint32_t count(const flatbuffers::Vector<flatbuffers::Offset<T>>* tables) {
    const uint32_t size = tables == nullptr ? 0 : tables->size();
    budget_.spend(uint64_t{size} * 8);
    return size;
  }

  // ── Data outside of the flatbuffer ──

  WeightSource range(uint64_t begin, uint64_t nbytes, uint64_t end) const {
    ensure(begin <= end && nbytes <= end - begin, "{} bytes of data at byte {} leave the file's data", nbytes, begin);
    return {file_.identity(), {}, begin, nbytes};
  }

  WeightSource segment(uint64_t index) const {
    const auto* segments = program_.segments();
    ensure(segments != nullptr && index < segments->size(), "segment {} is not there", index);
    const fb::DataSegment& found = required(segments->Get(static_cast<uint32_t>(index)), "a segment");
    const uint64_t room = layout_.segment_end - layout_.segment_base;
    ensure(layout_.segment_base != 0 || found.size() == 0, "it has segments but no header that says where");
    ensure(found.offset() <= room && found.size() <= room - found.offset(), "segment {} leaves the file", index);
    return {file_.identity(), {}, layout_.segment_base + found.offset(), found.size()};
  }

  WeightSource subsegment(const fb::SubsegmentOffsets& offsets, uint64_t index, uint64_t nbytes) const {
    const WeightSource whole = segment(offsets.segment_index());
    ensure(offsets.offsets() != nullptr && index < offsets.offsets()->size(), "constant {} is not there", index);
    const uint64_t offset = element(*offsets.offsets(), static_cast<uint32_t>(index));
    ensure(offset <= whole.nbytes, "constant {} leaves its segment", index);
    return range(whole.offset + offset, nbytes, whole.offset + whole.nbytes);
  }

  WeightSource constant(const fb::Tensor& tensor, uint64_t nbytes) const {
    const uint32_t index = tensor.data_buffer_idx();
    if (tensor.allocation_info() != nullptr) {
      const uint64_t which =
          tensor.extra_tensor_info() == nullptr ? 0 : tensor.extra_tensor_info()->mutable_data_segments_idx();
      const auto* segments = program_.mutable_data_segments();
      ensure(segments != nullptr && which < segments->size(), "the initial state of a tensor is not there");
      return subsegment(required(segments->Get(static_cast<uint32_t>(which)), "a segment"), index, nbytes);
    }
    const auto* inline_constants = program_.constant_buffer();
    if (inline_constants != nullptr && index < inline_constants->size()) {  // files of before segments
      const auto* storage = required(inline_constants->Get(index), "a constant").storage();
      ensure(storage != nullptr && storage->size() >= nbytes, "constant {} has too few bytes", index);
      const auto* base = reinterpret_cast<const uint8_t*>(file_.bytes().data());
      return {file_.identity(), {}, static_cast<uint64_t>(storage->data() - base), nbytes};
    }
    return subsegment(required(program_.constant_segment(), "the list of constants"), index, nbytes);
  }

  size_t add_constant(WeightSource source) {
    const auto [known, fresh] = constants_.try_emplace({source.offset, source.nbytes}, result_.constants.size());
    if (fresh) {
      result_.constants.emplace_back(std::move(source));
    }
    return known->second;
  }

  size_t add_blob(const fb::BackendDelegateDataReference& reference) {
    WeightSource source{file_.identity(), {}, 0, 0};
    if (reference.location() == fb::DataLocation::SEGMENT) {
      source = segment(reference.index());
    } else {
      const auto* blobs = program_.backend_delegate_data();
      ensure(blobs != nullptr && reference.index() < blobs->size(), "the data of a delegate is not there");
      if (const auto* data = required(blobs->Get(reference.index()), "a blob").data()) {
        const auto* base = reinterpret_cast<const uint8_t*>(file_.bytes().data());
        source.offset = static_cast<uint64_t>(data->data() - base);
        source.nbytes = data->size();
      }
    }
    const auto [known, fresh] = blobs_.try_emplace({source.offset, source.nbytes}, result_.blobs.size());
    if (fresh) {
      result_.blobs.emplace_back(std::move(source));
    }
    return known->second;
  }

  // ── Methods ──

  void read_method(const fb::ExecutionPlan& plan) {
    Method method;
    method.name = text(plan.name());
    if (plan.container_meta_type() != nullptr) {
      method.input_tree = text(plan.container_meta_type()->encoded_inp_str());
      method.output_tree = text(plan.container_meta_type()->encoded_out_str());
    }
    method.memory_sizes = numbers<int64_t>(plan.non_const_buffer_sizes());
    for (uint32_t i = 0, size = count(plan.values()); i < size; ++i) {
      method.values.push_back(read_value(required(plan.values()->Get(i), "a value")));
    }
    method.inputs = numbers<int32_t>(plan.inputs());
    method.outputs = numbers<int32_t>(plan.outputs());
    for (uint32_t i = 0, size = count(plan.operators()); i < size; ++i) {
      const fb::Operator& op = required(plan.operators()->Get(i), "an operator");
      method.operators.push_back({text(op.name()), text(op.overload())});
    }
    for (uint32_t i = 0, size = count(plan.delegates()); i < size; ++i) {
      method.delegates.push_back(read_delegate(required(plan.delegates()->Get(i), "a delegate")));
    }
    ensure(plan.chains() != nullptr && plan.chains()->size() == 1, "method {} does not have exactly one chain",
           quote(method.name));
    const auto* instructions = required(plan.chains()->Get(0), "a chain").instructions();
    for (uint32_t i = 0, size = count(instructions); i < size; ++i) {
      method.instructions.push_back(read_instruction(required(instructions->Get(i), "an instruction")));
    }
    result_.methods.push_back(std::move(method));
  }

  Delegate read_delegate(const fb::BackendDelegate& packed) {
    Delegate delegate;
    delegate.id = text(packed.id());
    delegate.blob = add_blob(required(packed.processed(), "the data of a delegate"));
    for (uint32_t i = 0, size = count(packed.compile_specs()); i < size; ++i) {
      const fb::CompileSpec& spec = required(packed.compile_specs()->Get(i), "a compile spec");
      const std::vector<char> value = numbers<char>(spec.value());
      delegate.compile_specs.emplace_back(text(spec.key()), std::string(value.begin(), value.end()));
    }
    return delegate;
  }

  EValue read_value(const fb::EValue& value) {
    budget_.spend(sizeof(int64_t));
    switch (value.val_type()) {
      case fb::KernelTypes::Null:
        return std::monostate();
      case fb::KernelTypes::Int:
        return EValue(required(value.val_as_Int(), "a value").int_val());
      case fb::KernelTypes::Bool:
        return EValue(required(value.val_as_Bool(), "a value").bool_val());
      case fb::KernelTypes::Double:
        return EValue(required(value.val_as_Double(), "a value").double_val());
      case fb::KernelTypes::Tensor:
        return read_tensor(required(value.val_as_Tensor(), "a value"));
      case fb::KernelTypes::String:
        return text(required(value.val_as_String(), "a value").string_val());
      case fb::KernelTypes::IntList:
        return IntList{numbers<int64_t>(required(value.val_as_IntList(), "a value").items())};
      case fb::KernelTypes::DoubleList:
        return DoubleList{numbers<double>(required(value.val_as_DoubleList(), "a value").items())};
      case fb::KernelTypes::BoolList: {
        const std::vector<uint8_t> items = numbers<uint8_t>(required(value.val_as_BoolList(), "a value").items());
        return BoolList{{items.begin(), items.end()}};
      }
      case fb::KernelTypes::TensorList:
        return TensorList{numbers<int32_t>(required(value.val_as_TensorList(), "a value").items())};
      case fb::KernelTypes::OptionalTensorList:
        return OptionalTensorList{numbers<int32_t>(required(value.val_as_OptionalTensorList(), "a value").items())};
      case fb::KernelTypes::NONE:
        break;
    }
    fail("a value has kind {}, which is not known", static_cast<int>(value.val_type()));
  }

  TensorValue read_tensor(const fb::Tensor& packed) {
    TensorValue tensor;
    const auto dtype = known_dtypes().find(static_cast<int8_t>(packed.scalar_type()));
    ensure(dtype != known_dtypes().end(), "a tensor has dtype number {}, which is not known",
           static_cast<int>(packed.scalar_type()));
    tensor.dtype = dtype->second;
    ensure(packed.storage_offset() == 0, "a tensor has a storage offset, which the runtime does not take");
    tensor.sizes = numbers<int32_t>(packed.sizes());
    tensor.dim_order = numbers<uint8_t>(packed.dim_order());
    const auto dynamism = static_cast<int8_t>(packed.shape_dynamism());
    ensure(dynamism >= 0 && dynamism <= 2, "a tensor has shape dynamism {}, which is not known", dynamism);
    tensor.dynamism = static_cast<ShapeDynamism>(dynamism);
    if (const fb::AllocationDetails* allocation = packed.allocation_info()) {
      tensor.allocation = Allocation{
          allocation->memory_id(), uint64_t{allocation->memory_offset_high()} << 32 | allocation->memory_offset_low()};
    }
    if (const fb::ExtraTensorInfo* extra = packed.extra_tensor_info()) {
      tensor.name = text(extra->fully_qualified_name());
      tensor.external = extra->location() == fb::TensorDataLocation::EXTERNAL;
    }
    if (packed.data_buffer_idx() > 0 && !tensor.external) {
      tensor.constant = add_constant(constant(packed, tensor.nbytes()));
    }
    return tensor;
  }

  Instruction read_instruction(const fb::Instruction& instruction) {
    switch (instruction.instr_args_type()) {
      case fb::InstructionArguments::KernelCall: {
        const fb::KernelCall& call = required(instruction.instr_args_as_KernelCall(), "an instruction");
        return KernelCall{call.op_index(), numbers<int32_t>(call.args())};
      }
      case fb::InstructionArguments::DelegateCall: {
        const fb::DelegateCall& call = required(instruction.instr_args_as_DelegateCall(), "an instruction");
        return DelegateCall{call.delegate_index(), numbers<int32_t>(call.args())};
      }
      case fb::InstructionArguments::MoveCall: {
        const fb::MoveCall& call = required(instruction.instr_args_as_MoveCall(), "an instruction");
        return MoveCall{call.move_from(), call.move_to()};
      }
      case fb::InstructionArguments::JumpFalseCall: {
        const fb::JumpFalseCall& call = required(instruction.instr_args_as_JumpFalseCall(), "an instruction");
        return JumpFalseCall{call.cond_value_index(), call.destination_instruction()};
      }
      case fb::InstructionArguments::FreeCall:
        return FreeCall{required(instruction.instr_args_as_FreeCall(), "an instruction").value_index()};
      case fb::InstructionArguments::NONE:
        break;
    }
    fail("an instruction has kind {}, which is not known", static_cast<int>(instruction.instr_args_type()));
  }

  const MappedFile& file_;
  const FileLayout& layout_;
  const fb::Program& program_;
  Budget budget_;
  Program result_;
  std::map<std::pair<uint64_t, uint64_t>, size_t> constants_;  // offset and bytes → index
  std::map<std::pair<uint64_t, uint64_t>, size_t> blobs_;
};

Program read_mapped(const MappedFile& file) {
  const FileLayout layout = FileLayout::of(file.bytes());
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.bytes().data());
  ensure(layout.program_size < FLATBUFFERS_MAX_BUFFER_SIZE, "its program has {} bytes, more than the format allows",
         layout.program_size);
  constexpr uint32_t kMaxDepth = 32;
  // A table takes 8 bytes at the least.
  const auto max_tables = static_cast<uint32_t>(layout.program_size / 8 + 16);
  flatbuffers::Verifier verifier(bytes, layout.program_size, kMaxDepth, max_tables);
  ensure(fb::VerifyProgramBuffer(verifier), "it is damaged: its flatbuffer does not hold together");
  return Reader(file, layout, *fb::GetProgram(bytes)).read();
}

}  // namespace

Program read_program(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  try {
    return read_mapped(*file);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot read {}: {}", quote(path.native(), 400), error.message()), error.where(),
                error.hint());
  }
}

}  // namespace exporters::executorch
