#pragma once

#include "exporters/support/error.h"

#include <string>

namespace exporters::testing {

/// The message of the Error that `f` throws, or "no error". Other exceptions pass.
template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace exporters::testing
