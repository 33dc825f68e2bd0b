#include "exporters/passes/emit.h"

namespace exporters {
namespace {

std::vector<Argument> replaced(const std::vector<Argument>& arguments, const Value* from, Value* to) {
  std::vector<Argument> result;
  for (const Argument& argument : arguments) {
    const auto* value = argument.get_if<Value*>();
    result.push_back(value != nullptr && *value == from ? Argument(to) : argument);
  }
  return result;
}

void copy_type(const Value& from, Value& to) {
  to.meta() = from.meta();
  to.sym() = from.sym();
}

// Whether some order of the axes has the strides of a tensor without gaps.
bool is_dense(const TensorMeta& meta) {
  std::vector<bool> taken(meta.sizes.size());
  Expr expected = 1;
  for (size_t step = 0; step < meta.sizes.size(); ++step) {
    size_t axis = 0;
    while (axis < meta.sizes.size() &&
           (taken[axis] || !(meta.sizes[axis] == Expr(1) || meta.strides[axis] == expected))) {
      ++axis;
    }
    if (axis == meta.sizes.size()) {
      return false;
    }
    taken[axis] = true;
    expected = expected * meta.sizes[axis];
  }
  return true;
}

}  // namespace

Node* Emit::place(Node* node) const {
  node->place() = origin_.place();
  node->module_stack() = origin_.module_stack();
  return node;
}

Value* Emit::call(std::string_view target, std::vector<Argument> args, const TensorMeta& meta,
                  std::vector<std::pair<std::string, Argument>> kwargs) {
  return call_many(target, std::move(args), {meta}, std::move(kwargs))->value();
}

Node* Emit::call_many(std::string_view target, std::vector<Argument> args, const std::vector<TensorMeta>& metas,
                      std::vector<std::pair<std::string, Argument>> kwargs) {
  Node* node = place(graph_.call(target, std::move(args), std::move(kwargs)));
  for (const TensorMeta& meta : metas) {
    graph_.add_output(node)->meta() = meta;
  }
  return node;
}

Value* Emit::call_list(std::string_view target, std::vector<Argument> args, const std::vector<TensorMeta>& metas,
                       std::vector<std::pair<std::string, Argument>> kwargs) {
  Node* node = place(graph_.call(target, std::move(args), std::move(kwargs)));
  Value* list = graph_.add_output(node, Value::Kind::kTensorList);
  for (const TensorMeta& meta : metas) {
    graph_.add_element(list)->meta() = meta;
  }
  return list;
}

Node* Emit::copy(const Node& node, const Value* from, Value* to) {
  Node* copied = graph_.call(node.target(), replaced(node.args(), from, to), node.kwargs());
  copied->place() = node.place();
  copied->module_stack() = node.module_stack();
  for (const Value* output : node.outputs()) {
    Value* fresh = graph_.add_output(copied, output->kind());
    copy_type(*output, *fresh);
    for (const Value* element : output->elements()) {
      copy_type(*element, *graph_.add_element(fresh));
    }
  }
  return copied;
}

Value* Emit::number(std::string_view target, std::vector<Argument> args, Expr value) {
  Value* result = graph_.add_output(place(graph_.call(target, std::move(args))), Value::Kind::kSymInt);
  result->sym() = std::move(value);
  return result;
}

Argument Emit::size(Value* tensor, int64_t axis) {
  const Expr& size = tensor->meta().sizes[axis];
  if (const auto known = size.as_int()) {
    return Argument(*known);
  }
  return Argument(number("aten.sym_size.int", {tensor, axis}, size));
}

Argument Emit::sizes(Value* tensor) {
  Argument::List list;
  for (int64_t axis = 0; axis < tensor->meta().dim(); ++axis) {
    list.push_back(size(tensor, axis));
  }
  return Argument(std::move(list));
}

Argument Emit::sum(const Argument& a, const Argument& b) {
  return combined("_operator.add", a, b, expr_of(a) + expr_of(b));
}

Argument Emit::product(const Argument& a, const Argument& b) {
  return combined("_operator.mul", a, b, expr_of(a) * expr_of(b));
}

Argument Emit::combined(std::string_view target, const Argument& a, const Argument& b, const Expr& result) {
  if (a.is<int64_t>() && b.is<int64_t>()) {
    return Argument(*result.as_int());
  }
  return Argument(number(target, {a, b}, result));
}

Expr expr_of(const Argument& argument) {
  const auto* value = argument.get_if<Value*>();
  return value != nullptr ? (*value)->sym() : Expr(argument.as<int64_t>());
}

TensorMeta contiguous_meta(TensorMeta meta) {
  meta.strides.assign(meta.sizes.size(), Expr(1));
  Expr stride = 1;
  for (size_t axis = meta.sizes.size(); axis-- > 0;) {
    meta.strides[axis] = stride;
    stride = stride * (meta.sizes[axis] == Expr(0) ? Expr(1) : meta.sizes[axis]);
  }
  meta.storage_offset = 0;
  return meta;
}

TensorMeta dense_meta(TensorMeta meta) {
  meta.requires_grad = false;
  if (!is_dense(meta)) {
    return contiguous_meta(std::move(meta));
  }
  meta.storage_offset = 0;
  return meta;
}

}  // namespace exporters
