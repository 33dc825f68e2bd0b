#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/onnx/emit/model.h"

#include <c10/core/Scalar.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace exporters::onnx {

/// A tensor in the ONNX graph under construction; without a name it is an optional input left out.
struct OnnxValue {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;

  bool present() const { return !name.empty(); }
};
using OnnxValues = std::vector<OnnxValue>;

/// An attribute of an emitted node.
struct Attr : OnnxAttribute {
  Attr(std::string name, bool value) : OnnxAttribute{std::move(name), int64_t{value}} {}
  Attr(std::string name, int value) : OnnxAttribute{std::move(name), int64_t{value}} {}
  Attr(std::string name, int64_t value) : OnnxAttribute{std::move(name), value} {}
  Attr(std::string name, double value) : OnnxAttribute{std::move(name), static_cast<float>(value)} {}
  Attr(std::string name, const char* value) : OnnxAttribute{std::move(name), std::string(value)} {}
  Attr(std::string name, std::string value) : OnnxAttribute{std::move(name), std::move(value)} {}
  Attr(std::string name, std::vector<int64_t> value) : OnnxAttribute{std::move(name), std::move(value)} {}
  Attr(std::string name, std::shared_ptr<OnnxGraph> value) : OnnxAttribute{std::move(name), std::move(value)} {}
  Attr(std::string name, c10::ScalarType value)
      : OnnxAttribute{std::move(name), static_cast<int64_t>(onnx_type(value))} {}
};
using Attrs = std::vector<Attr>;
using Sizes = std::vector<Expr>;

/// Builds the ONNX graph: emits nodes, constants and shape arithmetic. Equal nodes and equal constants are emitted
/// once. Symbolic sizes are expressions; their values come from the `Shape` of whatever has such an axis, when they are
/// needed.
class TranslationContext {
 public:
  /// @param ort_fusions the execution provider whose own operators of ONNX Runtime may be used; nothing: none
  TranslationContext(const ExportedProgram& program, int64_t opset, std::optional<std::string> ort_fusions = {});
  ~TranslationContext();
  TranslationContext(const TranslationContext&) = delete;
  TranslationContext& operator=(const TranslationContext&) = delete;

  int64_t opset() const { return opset_; }
  const ExportedProgram& program() const { return program_; }
  const std::optional<std::string>& ort_fusions() const { return ort_fusions_; }

  // ── Nodes ──
  /// Emits a standard operator. The result's dtype follows from the operator: bool for comparisons, int64 for Shape and
  /// the like, `to` for Cast, else that of the first (Where: second) input.
  OnnxValue emit(std::string_view op, const OnnxValues& inputs, const Attrs& attrs = {});
  OnnxValues emit_many(std::string_view op, const OnnxValues& inputs, const Attrs& attrs, size_t outputs);
  /// An operator of ONNX Runtime's own domain. The results' dtype is the first input's.
  OnnxValues emit_contrib(std::string_view op, const OnnxValues& inputs, const Attrs& attrs, size_t outputs);
  /// As `emit` for elementwise operators on operands of known sizes: works on the 2-D form where the operands are
  /// reshapes of 2-D tensors, so that the reshapes between matrix products fall away.
  OnnxValue emit_pointwise(std::string_view op, const OnnxValues& inputs, const Attrs& attrs = {});

  // ── Constants ──
  OnnxValue constant(int64_t value, c10::ScalarType dtype = c10::kLong);  ///< 0-d
  OnnxValue constant(double value, c10::ScalarType dtype);                ///< 0-d
  OnnxValue constant(const c10::Scalar& value, c10::ScalarType dtype);    ///< 0-d
  OnnxValue constant(const std::vector<int64_t>& values);                 ///< int64, 1-d
  OnnxValue constant(const at::Tensor& tensor);
  /// The numbers of a 1-d int64 constant, or of a 0-d one; nothing for other values.
  std::optional<std::vector<int64_t>> constant_ints(const OnnxValue& value) const;
  /// A small int64 constant or parameter of any rank; undefined for other values.
  at::Tensor constant_tensor(const OnnxValue& value) const;

  // ── Types ──
  OnnxValue cast(const OnnxValue& value, c10::ScalarType dtype);
  /// In a dtype that the CPU provider computes with: bfloat16 becomes float.
  OnnxValue computable(const OnnxValue& value) { return cast(value, compute_dtype(value.dtype)); }
  static c10::ScalarType compute_dtype(c10::ScalarType dtype);

  // ── Sizes ──
  ShapeEnv& env() { return *env_; }
  /// Whether the expression is at least `bound` for every allowed size.
  bool at_least(const Expr& expr, int64_t bound);
  bool same(const Sizes& a, const Sizes& b) const;
  OnnxValue size(const Expr& expr);         ///< int64, 1-d of one element
  OnnxValue size_scalar(const Expr& expr);  ///< int64, 0-d
  OnnxValue sizes(const Sizes& exprs);      ///< int64, 1-d
  /// Says that a tensor has these sizes, so that symbols can be read from it and its reshapes can be simplified.
  void declare_sizes(const OnnxValue& value, const Sizes& sizes);
  const Sizes* sizes_of(const OnnxValue& value) const;
  /// The size of that axis is computed from other axes from now on, where those tell it.
  void avoid_axis(const OnnxValue& value, int64_t axis);
  /// Says that what was emitted holds only for sizes of at least one: the runtime refuses others. Such facts become
  /// conditions of the model that are checked before each run.
  void require_not_empty(const Expr& size);
  /// The same for any condition.
  void require(const BoolExpr& condition);
  const std::vector<BoolExpr>& requirements() const { return requirements_; }
  /// Operators on float64 that were emitted, and that ONNX Runtime's CPU provider has no kernel of.
  const std::set<std::string>& without_kernel() const { return without_kernel_; }
  /// Says where an unbacked symbol's value is: an integer tensor of one element.
  void declare_symbol(Symbol symbol, const OnnxValue& scalar);
  /// The same for a symbol that may have had another value so far: see SizeScope.
  void redeclare_symbol(Symbol symbol, const OnnxValue& scalar);

  // ── Movement; all take and give sizes so that chains collapse ──
  OnnxValue reshape(const OnnxValue& value, const Sizes& from, const Sizes& to);
  /// [product of the leading sizes, last size].
  OnnxValue as_matrix(const OnnxValue& value, const Sizes& sizes);
  OnnxValue transpose(const OnnxValue& value, const std::vector<int64_t>& perm);
  OnnxValue expand(const OnnxValue& value, const Sizes& from, const Sizes& to);
  OnnxValue unsqueeze(const OnnxValue& value, const std::vector<int64_t>& axes);
  OnnxValue squeeze(const OnnxValue& value, const std::vector<int64_t>& axes);
  OnnxValue slice(const OnnxValue& value, int64_t axis, const OnnxValue& start, const OnnxValue& end, int64_t step = 1);
  /// Where for every dtype, bool included.
  OnnxValue where(const OnnxValue& condition, const OnnxValue& yes, const OnnxValue& no);
  OnnxValue full(const Sizes& sizes, const OnnxValue& scalar);
  /// 0, 1, …, n - 1 as int64.
  OnnxValue iota(const Expr& n);

  /// The node that made a value, or null for inputs and initializers. Valid until the next emit.
  const OnnxNode* producer(const OnnxValue& value) const;
  /// If `value` is a transpose: its operand and permutation.
  struct Transposed {
    OnnxValue source;
    std::vector<int64_t> perm;
  };
  const Transposed* transposed_from(const OnnxValue& value) const;
  /// If `value` is a reshape: its operand and the operand's sizes.
  struct Reshaped {
    OnnxValue source;
    Sizes sizes;
  };
  const Reshaped* reshaped_from(const OnnxValue& value) const;

  // ── The torch side ──
  /// The node under translation: names what is emitted from now on.
  void enter(const Node* node);
  const Node* node() const { return node_; }
  void bind(const Value* value, OnnxValue result);
  /// Those that take a value from now on take this one, which is equal to what was bound before.
  void rebind(const Value* value, OnnxValue result);
  /// What was bound to a value so far, or null. Valid until the next bind.
  const OnnxValue* find_bound(const Value* value) const;
  /// The ONNX value of a tensor, SymFloat or SymBool; parameters become initializers at first use. Throws Error when
  /// there is none.
  OnnxValue value(const Value* value);
  /// What a placeholder of the program stands for; null for other values.
  const InputSpec* input_spec(const Value& value) const;

  // ── Graphs inside nodes ──
  /// What symbols and sizes are is forgotten again at the end of the scope.
  class SizeScope {
   public:
    explicit SizeScope(TranslationContext& context);
    ~SizeScope();
    SizeScope(const SizeScope&) = delete;
    SizeScope& operator=(const SizeScope&) = delete;

   private:
    struct Saved;
    TranslationContext& context_;
    std::unique_ptr<Saved> saved_;
  };
  /// A branch of If or the body of Loop under construction: what is emitted goes into it and is seen in it only, and it
  /// sees what stands before it. Initializers go to the outermost graph. Costs a copy of what the context knows.
  class Subgraph {
   public:
    Subgraph(TranslationContext& context, const std::string& name);
    ~Subgraph();
    Subgraph(const Subgraph&) = delete;
    Subgraph& operator=(const Subgraph&) = delete;

    /// An input of the graph, of fixed or unknown sizes.
    OnnxValue add_input(c10::ScalarType dtype, const Sizes& sizes);
    void add_output(const OnnxValue& value, const Sizes& sizes);
    /// Without dead nodes. The last call.
    std::shared_ptr<OnnxGraph> finish();

   private:
    struct Saved;
    OnnxValueInfo info(const OnnxValue& value, const Sizes& sizes) const;

    TranslationContext& context_;
    SizeScope sizes_;
    std::unique_ptr<Saved> saved_;
    std::string name_;
    std::unordered_set<std::string> given_;  // names of outputs
  };

  // ── For the converter ──
  void reserve_name(const std::string& name) { names_.insert(name); }
  std::string unique_name(const std::string& hint);
  OnnxGraph take_graph() && { return std::move(graph_); }
  OnnxGraph& graph() { return graph_; }

 private:
  struct Axis {
    OnnxValue tensor;
    int64_t axis;
  };

  OnnxValues emit_node(std::string_view domain, std::string_view op, const OnnxValues& inputs, const Attrs& attrs,
                       size_t outputs);
  std::string node_name();
  OnnxValue add_initializer(std::string name, const StateTensor& state);
  OnnxValue parameter(const InputSpec& spec);
  OnnxValue size_sum(const Expr& expr);
  OnnxValue size_term(const Expr::Term& term);
  OnnxValue size_atom(const Expr::Atom& atom);
  OnnxValue size_symbol(Symbol symbol);
  OnnxValue floor_divide(const Expr& numerator, const Expr& denominator);
  const Axis* find_axis(const Expr& expr) const;
  bool tells_symbols(const Expr& expr) const;
  const Expr* sum_with(const Expr& part) const;
  OnnxValue reshape_shape(const Sizes& from, const Sizes& to, bool& allow_zero);

  const ExportedProgram& program_;
  std::unordered_map<std::string_view, const InputSpec*> input_specs_;  // by placeholder
  int64_t opset_;
  std::optional<std::string> ort_fusions_;
  std::unique_ptr<ShapeEnv> env_;
  OnnxGraph graph_;
  const Node* node_ = nullptr;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, uint32_t> name_counts_;
  std::unordered_map<std::string, OnnxValues> emitted_;   // node key → outputs
  std::unordered_map<std::string, size_t> producers_;     // value → index of its node
  std::unordered_map<std::string, OnnxValue> constants_;  // dtype, dims, bytes → initializer
  std::unordered_map<std::string, std::vector<int64_t>> constant_ints_;
  std::unordered_map<std::string, at::Tensor> constant_tensors_;
  std::unordered_map<std::string, Sizes> sizes_;
  std::unordered_map<std::string, Reshaped> reshaped_;
  std::unordered_map<std::string, Transposed> transposed_;
  std::unordered_map<Expr, Axis> axes_;
  std::unordered_map<Symbol, OnnxValue> symbols_;
  std::unordered_map<Expr, OnnxValue> size_values_;
  std::unordered_map<const Value*, OnnxValue> values_;
  std::vector<BoolExpr> requirements_;
  std::set<std::string> without_kernel_;
};

}  // namespace exporters::onnx
