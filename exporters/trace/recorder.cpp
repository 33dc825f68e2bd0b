#include "exporters/trace/recorder.h"

#include "exporters/fake/fake_tensor.h"
#include "exporters/fake/infer.h"
#include "exporters/fake/shape_call.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/graph/op_name.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace exporters {
namespace {

using torch::jit::Stack;

std::string underscored(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

bool is_size(const c10::IValue& value) { return value.isInt() || value.isSymInt(); }

bool is_default(const c10::Argument& argument, const c10::IValue& value) {
  const auto& standard = argument.default_value();
  if (!standard) {
    return false;
  }
  if (standard->isNone() || value.isNone()) {
    return standard->isNone() && value.isNone();
  }
  if (value.isSymInt() || value.isSymIntList() || value.isTensor() || value.isTensorList()) {
    return false;
  }
  return standard->tagKind() == value.tagKind() && *standard == value;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// What tells whether two tensors are of the same bytes: where these lie, or will come from.
const void* identity_of_data(const at::Tensor& tensor) {
  const DeferredConversion* conversion = deferred_conversion(tensor);
  return conversion != nullptr ? conversion : tensor.const_data_ptr();
}

// "encoder.layers.0.linear1" of "encoder.layers.0.linear1.weight".
std::string owner_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? std::string() : parameter.substr(0, dot);
}

}  // namespace

struct Recorder::Call {
  const c10::OperatorHandle& op;
  const c10::FunctionSchema& schema;
  std::vector<c10::IValue> originals;  // as the caller passed them
  std::vector<Argument> graph_arguments;
  Stack stack;              // fake arguments, then fake results
  std::string module_path;  // for modules that enter no scope: of a parameter among the arguments
};

Recorder::Recorder(ExportedProgram& program, std::shared_ptr<ShapeEnv> env)
    : program_(program), graph_(*program.graph), env_(std::move(env)), numbers_(graph_, *env_) {}

// ── Placeholders ──

void Recorder::add_state(const TracedState& state) {
  const char* prefix = state.is_buffer ? "b_" : "p_";
  Value* value = graph_.add_placeholder(prefix + underscored(state.name));
  value->meta() = meta_of(state.tensor);
  value->meta().requires_grad = state.tensor.requires_grad();

  InputSpec spec;
  spec.kind = state.is_buffer ? InputSpec::Kind::kBuffer : InputSpec::Kind::kParameter;
  spec.name = value->name();
  spec.target = state.name;
  spec.persistent = state.persistent;
  program_.signature.inputs.push_back(std::move(spec));
  ensure(program_.state.emplace(state.name, StateTensor{state.tensor, state.source}).second,
         "two parameters or buffers are called '{}'", state.name);

  state_names_.emplace(value, state.name);
  // A tensor under a second name (tied weights) stays the first one's value.
  if (!known_.contains(state.tensor.unsafeGetTensorImpl())) {
    remember(state.tensor, value);
  }
  if (state.tensor.numel() > 0) {
    state_by_data_.emplace(identity_of_data(state.tensor), value);
  }
}

at::Tensor Recorder::add_input(const std::string& placeholder, const at::Tensor& sample, std::vector<Expr> sizes) {
  Value* value = graph_.add_placeholder(underscored(placeholder));
  ++user_input_count_;
  if (first_user_input_ == nullptr) {
    first_user_input_ = value->node();
  }
  TensorMeta meta = dense(std::move(sizes), sample.scalar_type(), sample.device());
  value->meta() = meta;
  InputSpec spec;
  spec.name = value->name();
  program_.signature.inputs.push_back(std::move(spec));
  numbers_.add_source(value);

  const at::Tensor fake = make_fake(std::move(meta), env_);
  remember(fake, value);
  return fake;
}

void Recorder::add_constant_input(const std::string& placeholder, Argument constant) {
  Value* value = graph_.add_placeholder(underscored(placeholder), Value::Kind::kOther);
  ++user_input_count_;
  if (first_user_input_ == nullptr) {
    first_user_input_ = value->node();
  }
  InputSpec spec;
  spec.kind = InputSpec::Kind::kConstantInput;
  spec.name = value->name();
  spec.constant = std::move(constant);
  program_.signature.inputs.push_back(std::move(spec));
}

c10::IValue Recorder::add_placeholder(InputSpec spec, const Value& original) {
  Value* value = graph_.add_placeholder(spec.name, original.kind());
  spec.name = value->name();
  if (spec.kind == InputSpec::Kind::kUserInput || spec.kind == InputSpec::Kind::kConstantInput) {
    ++user_input_count_;
    first_user_input_ = first_user_input_ != nullptr ? first_user_input_ : value->node();
  } else if (spec.kind == InputSpec::Kind::kTensorConstant) {
    constants_.insert(value);
  }
  state_names_.emplace(value, spec.target);
  program_.signature.inputs.push_back(std::move(spec));
  if (value->kind() == Value::Kind::kSymInt) {
    value->sym() = original.sym();
    if (const auto symbol = value->sym().as_symbol()) {
      numbers_.add_source(*symbol, value);
    }
    return to_sym_int(value->sym(), env_);
  }
  if (!value->is_tensor()) {
    return {};
  }
  value->meta() = original.meta();
  numbers_.add_source(value);
  const at::Tensor fake = make_fake(value->meta(), env_);
  remember(fake, value);
  return fake;
}

// ── One op call ──

void Recorder::handle(const c10::OperatorHandle& op, Stack& stack) {
  if (runs_for_real(op, stack)) {
    run_for_real(op, stack);
    return;
  }
  if (detail::OpReplacement* replacement = active_replacement(op)) {
    run_replacement(*replacement, stack);
    return;
  }
  record_call(op, stack);
}

bool Recorder::runs_for_real(const c10::OperatorHandle& op, const Stack& stack) const {
  return makes_real_tensor(op, stack) || is_under_construction(op, stack);
}

void Recorder::record_call(const c10::OperatorHandle& op, Stack& stack) {
  const OpScope op_scope(c10::toString(op.operator_name()));
  Call call{op, op.schema(), {}, {}, {}, {}};
  call.originals = torch::jit::pop(stack, call.schema.arguments().size());
  read_arguments(call);
  std::optional<ModuleScope> owner;
  if (!call.module_path.empty() && current_module_stack().empty()) {
    owner.emplace(call.module_path, std::string_view(), SourceLocation());
  }
  place_facts_before();
  infer_results(call);
  record(call);
  give_results(call, stack);
}

void Recorder::run_replacement(detail::OpReplacement& replacement, Stack& stack) {
  std::optional<ModuleScope> owner;
  if (current_module_stack().empty()) {
    const size_t count = replacement.link->op.schema().arguments().size();
    if (const std::string path = owner_among(torch::jit::last(stack, count)); !path.empty()) {
      owner.emplace(path, std::string_view(), SourceLocation());
    }
  }
  const OpScope op_scope(replacement.target());
  const DispatchMode::Scope recording(*this);
  call_replacement(replacement, stack, [this](const c10::IValue& result) { return node_of(result); });
}

// The module whose parameter or buffer this is, also seen through views: `weight.t()` is still the weight's.
std::string Recorder::state_owner(const Value* value) const {
  while (!value->node()->is_placeholder()) {
    const Node& node = *value->node();
    const auto op = is_dispatcher_target(node.target()) ? find_operator(node.target()) : std::nullopt;
    const Value* returned = value->list() != nullptr ? value->list() : value;
    const auto base = op ? aliased_input(op->schema(), returned->output_index()) : std::nullopt;
    value = base && *base < node.arg_count() && node.arg(*base).is_value() ? node.arg(*base).value() : nullptr;
    if (value == nullptr) {
      return {};
    }
  }
  const auto name = state_names_.find(value);
  return name == state_names_.end() ? std::string() : owner_of(name->second);
}

// The module of a parameter among the arguments, else the one that made the first of them that has one.
std::string Recorder::owner_among(c10::ArrayRef<c10::IValue> arguments) const {
  std::string maker;
  for (const c10::IValue& argument : arguments) {
    const auto known = argument.isTensor() && argument.toTensor().defined()
                           ? known_.find(argument.toTensor().unsafeGetTensorImpl())
                           : known_.end();
    if (known == known_.end()) {
      continue;
    }
    const Value* value = known->second.value;
    if (std::string owner = state_owner(value); !owner.empty()) {
      return owner;
    }
    if (maker.empty()) {
      maker = value->node()->place().module_path;
    }
  }
  return maker;
}

std::string Recorder::node_of(const c10::IValue& result) {
  if (!result.isTensor() || !known_.contains(result.toTensor().unsafeGetTensorImpl())) {
    return {};
  }
  return value_of(result.toTensor())->node()->name();
}

// Sizes that the model read since the last op: of a module that enters no scope, only its ops tell the name.
void Recorder::place_facts_before() {
  Place place = current_place();
  if (!place.module_path.empty()) {
    place.op = "before " + place.op;
    env_->place_facts(place);
  }
}

// Note [Tensors under construction]
// `at::tensor({…})` shows as `empty` and then writes through data_ptr, `torch::tensor` as `empty`, `select` and
// `fill_`. Such a tensor holds real data: ops on it alone run for real and are not recorded. The first op that brings
// it together with traced tensors lifts it as a constant (`lift_fresh_copy`, as torch.export does); from then on it is
// traced.
void Recorder::run_for_real(const c10::OperatorHandle& op, Stack& stack) {
  op.callBoxed(stack);
  for (const c10::IValue& result : torch::jit::last(stack, op.schema().returns().size())) {
    if (result.isTensor()) {
      under_construction_.emplace(result.toTensor().unsafeGetTensorImpl(), result.toTensor());
    } else if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) {
        under_construction_.emplace(tensor.unsafeGetTensorImpl(), tensor);
      }
    }
  }
}

bool Recorder::is_under_construction(const c10::OperatorHandle& op, const Stack& stack) const {
  if (under_construction_.empty() || !has_only_real_tensors(op, stack)) {
    return false;
  }
  bool all = true;
  const auto check = [&](const at::Tensor& tensor) {
    const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    all &= wrapped || under_construction_.contains(tensor.unsafeGetTensorImpl());
  };
  for (const c10::IValue& argument : torch::jit::last(stack, op.schema().arguments().size())) {
    if (argument.isTensor() && argument.toTensor().defined()) {
      check(argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        check(tensor);
      }
    }
  }
  return all;
}

void Recorder::read_arguments(Call& call) {
  const auto& arguments = call.schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& original = call.originals[i];
    call.graph_arguments.push_back(argument_of(original, arguments[i].real_type()));
    call.stack.push_back(fake_argument(original));
    if (is_written(arguments[i])) {
      refuse_written_constant(call.graph_arguments.back());
    }
    call.graph_arguments.back().for_each_value([&](const Value* value) {
      if (!call.module_path.empty() || value == nullptr || !value->is_tensor()) {
        return;
      }
      if (!value->node()->is_placeholder()) {
        call.module_path = value->node()->place().module_path;
      }
    });
    call.graph_arguments.back().for_each_value([&](const Value* value) {
      if (value != nullptr) {
        if (std::string owner = state_owner(value); !owner.empty()) {
          call.module_path = std::move(owner);
        }
      }
    });
  }
}

// A lifted constant is part of the program: writing to it would change what the next run starts from.
void Recorder::refuse_written_constant(const Argument& argument) const {
  argument.for_each_value([&](const Value* value) {
    if (constants_.contains(value)) {
      throw Error("the forward writes to a tensor that is no input, parameter or buffer of the module",
                  current_place().str(), "Register it as a buffer, or write to a clone of it.");
    }
  });
}

void Recorder::infer_results(Call& call) {
  infer(call.op, call.stack, env_);
  refuse_changed_shapes(call);
}

// `unsqueeze_` on a parameter: the module would have another one after the trace, and goes on with its own meanwhile.
void Recorder::refuse_changed_shapes(const Call& call) const {
  for (size_t i = 0; i < call.originals.size(); ++i) {
    const c10::IValue& original = call.originals[i];
    const bool written = is_written(call.schema.arguments()[i]) && original.isTensor() && original.toTensor().defined();
    if (!written || is_fake(original.toTensor())) {
      continue;
    }
    const TensorMeta before = meta_of(original.toTensor());
    const TensorMeta after = meta_of(known_.at(original.toTensor().unsafeGetTensorImpl()).fake);
    if (before.sizes != after.sizes || before.strides != after.strides) {
      throw Error("the forward changes the shape of a parameter or buffer in place", current_place().str(),
                  "Use the op without '_'.");
    }
  }
}

void Recorder::record(Call& call) {
  const auto& arguments = call.schema.arguments();
  std::vector<Argument> positional;
  std::vector<std::pair<std::string, Argument>> keyword;
  size_t wanted = 0;  // positional arguments up to the last one that is not its default
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool standard = is_default(arguments[i], call.originals[i]);
    if (arguments[i].kwarg_only()) {
      if (!standard) {
        keyword.emplace_back(arguments[i].name(), call.graph_arguments[i]);
      }
      continue;
    }
    positional.push_back(call.graph_arguments[i]);
    if (!standard) {
      wanted = positional.size();
    }
  }
  positional.resize(wanted);
  Node* node = graph_.call(target_from_op(call.op.operator_name()), std::move(positional), std::move(keyword),
                           std::exchange(next_name_, {}));
  node->place() = current_place();
  node->module_stack() = current_module_stack();
  const auto results = torch::jit::last(call.stack, call.schema.returns().size());
  add_results(node, call.schema, results.vec());
}

void Recorder::add_results(Node* node, const c10::FunctionSchema& schema, const std::vector<c10::IValue>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const c10::IValue& result = results[i];
    if (result.isTensor()) {
      remember_result(graph_.add_output(node), result.toTensor());
    } else if (result.isTensorList()) {
      Value* list = graph_.add_output(node, Value::Kind::kTensorList);
      for (const at::Tensor& element : result.toTensorVector()) {
        remember_result(graph_.add_element(list), element);
      }
    } else if (result.isSymInt() || (result.isScalar() && result.toScalar().isSymbolic()) || result.isInt()) {
      Value* number = graph_.add_output(node, Value::Kind::kSymInt);
      number->sym() = is_size(result) ? to_expr(result) : to_expr(result.toScalar().toSymInt());
      if (const auto symbol = number->sym().as_symbol()) {
        numbers_.add_source(*symbol, number);
      }
    } else if (result.isNone()) {
      graph_.add_output(node, Value::Kind::kNone);
    } else if (result.isBool()) {
      graph_.add_output(node, Value::Kind::kSymBool);
    } else {
      throw Error(schema.name() + " returns a " + result.tagKind() + ", which cannot be recorded",
                  current_place().str());
    }
  }
}

// The caller gets back its own tensors where the op returns an argument, also real ones.
void Recorder::give_results(Call& call, Stack& stack) {
  for (c10::IValue result : torch::jit::last(call.stack, call.schema.returns().size())) {
    if (result.isTensor()) {
      for (const c10::IValue& original : call.originals) {
        if (original.isTensor() && original.toTensor().defined() &&
            fake_of(original.toTensor()).is_same(result.toTensor())) {
          result = original;
          break;
        }
      }
    }
    stack.push_back(std::move(result));
  }
}

void Recorder::remember_result(Value* value, const at::Tensor& result) {
  value->meta() = meta_of(result);
  numbers_.add_source(value);
  // An in-place op gives its argument back: its later uses read the new value.
  if (const auto known = known_.find(result.unsafeGetTensorImpl()); known != known_.end()) {
    known->second.value = value;
    return;
  }
  remember(result, value);
}

void Recorder::remember(const at::Tensor& tensor, Value* value) {
  Known known;
  known.tensor = tensor;
  known.value = value;
  known.fake = is_fake(tensor) ? tensor : fake_like(tensor, env_);
  const at::Tensor fake = known.fake;
  const bool is_new = known_.insert_or_assign(tensor.unsafeGetTensorImpl(), std::move(known)).second;
  // The twin of a real tensor is what ops see and give back.
  if (is_new && !fake.is_same(tensor)) {
    Known twin;
    twin.tensor = fake;
    twin.value = value;
    twin.fake = fake;
    known_.emplace(fake.unsafeGetTensorImpl(), std::move(twin));
  }
}

// ── Arguments ──

Value* Recorder::value_of(const at::Tensor& tensor) {
  const auto found = known_.find(tensor.unsafeGetTensorImpl());
  if (found == known_.end()) {
    ensure(!is_fake(tensor),
           "a traced tensor that no recorded op made ({}): it belongs to another trace or was made by "
           "a copy that the dispatcher does not show",
           current_place().str());
    return lift(tensor);
  }
  // A real tensor's value is kept under its twin, which in-place ops update.
  const Known& known = found->second;
  return known.fake.is_same(known.tensor) ? known.value : known_.at(known.fake.unsafeGetTensorImpl()).value;
}

at::Tensor Recorder::fake_of(const at::Tensor& tensor) {
  const auto found = known_.find(tensor.unsafeGetTensorImpl());
  if (found != known_.end()) {
    return found->second.fake;
  }
  // A fake one that is not known gives an error; a real one without a value is a number.
  if (is_fake(tensor)) {
    value_of(tensor);
  }
  return fake_like(tensor, env_);
}

Value* Recorder::lift(const at::Tensor& real) {
  Value* value = state_value(real);
  if (value == nullptr) {
    const bool constructed = under_construction_.contains(real.unsafeGetTensorImpl());
    value = constructed ? lift_constructed(real) : lift_constant(real);
  }
  remember(real, value);
  return value;
}

// A tensor made without the dispatcher from a parameter, as `data()` makes it: same bytes, same shape.
Value* Recorder::state_value(const at::Tensor& real) {
  if (real.numel() == 0 || !real.has_storage()) {
    return nullptr;
  }
  const auto found = state_by_data_.find(identity_of_data(real));
  if (found == state_by_data_.end()) {
    return nullptr;
  }
  const TensorMeta mine = meta_of(real);
  const TensorMeta& theirs = found->second->meta();
  const bool same = mine.dtype == theirs.dtype && mine.sizes == theirs.sizes && mine.strides == theirs.strides;
  return same ? found->second : nullptr;
}

Value* Recorder::lift_constructed(const at::Tensor& real) {
  for (auto it = under_construction_.begin(); it != under_construction_.end();) {
    it = it->second.is_alias_of(real) ? under_construction_.erase(it) : std::next(it);
  }
  const bool wrapped = real.unsafeGetTensorImpl()->is_wrapped_number();
  Value* constant = lift_constant(real.clone());
  if (wrapped || !constant->node()->is_placeholder()) {
    return constant;
  }
  Node* copy = graph_.call("aten.lift_fresh_copy.default", {constant});
  copy->place() = current_place();
  copy->module_stack() = current_module_stack();
  Value* value = graph_.add_output(copy);
  value->meta() = meta_of(real);
  return value;
}

Value* Recorder::lift_constant(const at::Tensor& tensor) {
  std::string name;
  do {
    name = "lifted_tensor_" + std::to_string(lifted_count_++);
  } while (program_.state.contains(name));
  Value* value = graph_.add_placeholder("c_" + name);
  value->meta() = meta_of(tensor);
  program_.state.emplace(name, StateTensor{tensor, std::nullopt});
  constants_.insert(value);
  InputSpec spec;
  spec.kind = InputSpec::Kind::kTensorConstant;
  spec.name = value->name();
  spec.target = name;
  // Constants stand before the user inputs, as torch.export orders placeholders.
  auto& inputs = program_.signature.inputs;
  if (first_user_input_ == nullptr) {
    inputs.push_back(std::move(spec));
    return value;
  }
  graph_.move_before(value->node(), first_user_input_);
  inputs.insert(inputs.end() - static_cast<std::ptrdiff_t>(user_input_count_), std::move(spec));
  return value;
}

c10::IValue Recorder::fake_argument(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? c10::IValue(fake_of(value.toTensor())) : value;
  }
  if (value.isTensorList()) {
    std::vector<at::Tensor> fakes;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      fakes.push_back(fake_of(tensor));
    }
    return fakes;
  }
  if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    const c10::List<c10::IValue> list = value.toList();
    c10::impl::GenericList fakes(list.elementType());
    for (const c10::IValue& item : value.toListRef()) {
      fakes.push_back(fake_argument(item));
    }
    return fakes;
  }
  return value;
}

namespace {

// An enumeration travels as an int on the stack; only the declared type tells it from a number.
std::optional<Argument> enumeration(const c10::IValue& value, const c10::TypePtr& type) {
  if (!value.isInt()) {
    return std::nullopt;
  }
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return Argument(value.toScalarType());
    case c10::TypeKind::LayoutType:
      return Argument(value.toLayout());
    case c10::TypeKind::MemoryFormatType:
      return Argument(value.toMemoryFormat());
    default:
      return std::nullopt;
  }
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) {
    return optional->getElementType();
  }
  return type;
}

}  // namespace

Argument Recorder::tensor_argument(const at::Tensor& tensor) {
  return is_fake(tensor) || known_.contains(tensor.unsafeGetTensorImpl()) ? value_of(tensor) : lifted(tensor);
}

Argument Recorder::argument_of(const c10::IValue& value, const c10::TypePtr& declared) {
  const c10::TypePtr type = without_optional(declared);
  if (value.isNone()) {
    return {};
  }
  if (const auto constant = enumeration(value, type)) {
    return *constant;
  }
  if (value.isTensor()) {
    return value.toTensor().defined() ? tensor_argument(value.toTensor()) : Argument();
  }
  if (is_size(value)) {
    return numbers_.argument(to_expr(value));
  }
  if (value.isBool()) {
    return value.toBool();
  }
  if (value.isDouble()) {
    return value.toDouble();
  }
  if (value.isComplexDouble()) {
    return value.toComplexDouble();
  }
  if (value.isString()) {
    return std::string(value.toStringView());
  }
  if (value.isDevice()) {
    return value.toDevice();
  }
  if (value.isIntList() || value.isList()) {
    const auto list_type = type->cast<c10::ListType>();
    const c10::TypePtr element = list_type ? list_type->getElementType() : type;
    Argument::List list;
    for (const c10::IValue& item : value.toListRef()) {
      list.push_back(argument_of(item, element));
    }
    return list;
  }
  throw Error(std::string("an argument of kind ") + value.tagKind() + " cannot be recorded", current_place().str());
}

// ── The end of a trace ──

void Recorder::settle() {
  for (Node& node : graph_) {
    for (Value* value : node.outputs()) {
      const auto settle_value = [&](Value* each) {
        if (each->is_tensor()) {
          for (std::vector<Expr>* exprs : {&each->meta().sizes, &each->meta().strides}) {
            for (Expr& expr : *exprs) {
              expr = env_->simplify(expr);
            }
          }
          each->meta().storage_offset = env_->simplify(each->meta().storage_offset);
        } else if (each->kind() == Value::Kind::kSymInt) {
          each->sym() = env_->simplify(each->sym());
          if (const auto constant = each->sym().as_int()) {
            replace_number(each, *constant);
          }
        }
      };
      settle_value(value);
      for (Value* element : value->elements()) {
        settle_value(element);
      }
    }
  }
  // Backwards, so that what only a dead number used goes as well.
  for (Node* node = graph_.output_node()->prev(); node != nullptr;) {
    Node* previous = node->prev();
    const std::vector<Value*>& outputs = node->outputs();
    const bool computes_number = !outputs.empty() && !node->is_placeholder() &&
                                 (node->target() == "aten.sym_size.int" || !is_dispatcher_target(node->target()));
    if (computes_number &&
        std::none_of(outputs.begin(), outputs.end(), [](const Value* output) { return output->has_users(); })) {
      graph_.erase(node);
    }
    node = previous;
  }
}

}  // namespace exporters
