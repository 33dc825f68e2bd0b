#pragma once

#include <cstddef>
#include <cstdint>

// The border between our code, which uses libtorch, and the library that holds ExecuTorch's runtime. Only plain data
// crosses it: nothing that one side allocates is freed on the other, and no exception leaves the library.

namespace exporters::executorch {

/// A dense tensor; `dtype` is a c10::ScalarType. Sizes and data belong to whoever gives the view.
struct TensorView {
  int32_t dtype = 0;
  int32_t rank = 0;
  const int32_t* sizes = nullptr;
  const uint8_t* dim_order = nullptr;
  void* data = nullptr;
  uint64_t nbytes = 0;
};

/// An input or output of a method.
struct ValueView {
  enum class Kind : int32_t { kNone, kTensor, kInt, kDouble, kBool, kOther };
  Kind kind = Kind::kNone;
  TensorView tensor;
  int64_t integer = 0;  ///< kInt and kBool
  double real = 0;      ///< kDouble
};

/// A loaded program. One call at a time: a session keeps its activations, state and last outputs.
class Session {
 public:
  /// Prepares a method: planned memory, kernels, delegates. Does nothing when that is done. False on failure.
  virtual bool load(const char* method) = 0;
  /// Memory for an output that the program does not plan; it holds until changed.
  virtual bool set_output(const char* method, size_t index, const TensorView& memory) = 0;
  /// Runs a method, which is loaded if it must be. False on failure.
  virtual bool execute(const char* method, const ValueView* inputs, size_t count) = 0;
  /// Of the last execute; their memory is the session's until the next call.
  virtual size_t output_count() const = 0;
  virtual ValueView output(size_t index) const = 0;
  /// Why the last call failed: what the runtime logged meanwhile and its error code in words.
  virtual const char* error() const = 0;

 protected:
  ~Session() = default;
};

}  // namespace exporters::executorch

extern "C" {
/// Opens a program file; nothing is checked before the first load. `share_state`: memory of equal ids is shared by all
/// methods of the session. Never null.
exporters::executorch::Session* exporters_executorch_open(const char* path, bool share_state);
void exporters_executorch_close(exporters::executorch::Session* session);
/// Calls `visit` with every kernel that the runtime has: "aten::add.out".
void exporters_executorch_kernels(void (*visit)(void* context, const char* name), void* context);
}
