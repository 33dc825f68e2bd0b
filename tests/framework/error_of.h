#pragma once

#include "exporters/support/error.h"

#include <functional>
#include <string>

namespace exporters {

/// The message of the Error that `run` throws, "no error" if none.
inline std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace exporters
