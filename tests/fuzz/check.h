#pragma once

/// What must hold of everything that a parser accepts; the fuzzer keeps the input that breaks it.
#define FUZZ_CHECK(condition) \
  do {                        \
    if (!(condition)) {       \
      __builtin_trap();       \
    }                         \
  } while (false)
