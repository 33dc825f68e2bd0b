#include "exporters/graph/argument.h"

#include <bit>

namespace exporters {
namespace {

// By bits: a program with NaN equals itself, and 0.0 is not -0.0.
bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

template <typename T>
bool same(const T& a, const T& b) {
  return a == b;
}
bool same(double a, double b) { return same_bits(a, b); }
bool same(const c10::complex<double>& a, const c10::complex<double>& b) {
  return same_bits(a.real(), b.real()) && same_bits(a.imag(), b.imag());
}
bool same(const GraphArgument& a, const GraphArgument& b) { return a.name == b.name && a.graph == b.graph; }

}  // namespace

bool operator==(const Argument& a, const Argument& b) {
  if (a.data_.index() != b.data_.index()) {
    return false;
  }
  return std::visit([&](const auto& held) { return same(held, std::get<std::decay_t<decltype(held)>>(b.data_)); },
                    a.data_);
}

}  // namespace exporters
