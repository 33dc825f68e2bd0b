#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace exporters::models {

/// The recurrence h(t) = a(t) · h(t - 1) + b(t) over the axis of time, as selective state spaces have it (Gu and Dao,
/// 2023).
///
/// A length that is a number is gone through step by step. One that is symbolic, for which a program has no loop, in
/// doublings (Hillis and Steele, 1986): after the k-th one, every place holds what the last 2^k steps make of it. Each
/// doubling goes over the whole sequence, whatever its length, so that there is a longest one.
class LinearScan {
 public:
  /// The longest sequence of symbolic length.
  static constexpr int64_t kMaxLength = (int64_t{1} << 16) - 1;

  /// To be shared by the layers of one forward. Throws Error for a symbolic length beyond kMaxLength.
  /// @param length of the sequences, without the state before them
  /// @param with_state whether there is a state before them
  LinearScan(const c10::SymInt& length, bool with_state);

  /// All h(t): [batch, length, channels, state].
  /// @param a,b [batch, length, channels, state], float32
  /// @param before h before the first step, [batch, channels, state]; undefined (as the constructor was told): zeros
  at::Tensor operator()(const at::Tensor& a, const at::Tensor& b, const at::Tensor& before) const;

 private:
  /// Where each place looks back to, and 0 where there is no such place.
  struct Doubling {
    at::Tensor places;  // int64 [length]
    at::Tensor exists;  // float32 [length, 1, 1]
  };

  at::Tensor by_doubling(at::Tensor a, at::Tensor b) const;

  std::vector<Doubling> doublings_;  // empty: the length is a number
};

}  // namespace exporters::models
