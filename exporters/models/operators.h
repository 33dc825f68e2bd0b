#pragma once

// `a + b` and the like on tensors. Without the macro this header pulls in every ATen function, seconds per file.
#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS
#include <ATen/TensorOperators.h>
#undef AT_PER_OPERATOR_HEADERS
#else
#include <ATen/TensorOperators.h>
#endif
