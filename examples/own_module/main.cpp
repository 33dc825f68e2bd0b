// The smallest user of the installed package: an operation on tensors, and an error of the library.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <exporters/support/error.h>

#include <cstdio>

int main() {
  const at::Tensor ones = at::ones({2, 3});
  try {
    exporters::ensure(ones.dim() == 3, "expected a tensor with 3 dimensions, got one with {}", ones.dim());
  } catch (const exporters::Error& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
