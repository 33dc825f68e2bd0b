#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// How far one output of a program is from what it gives with its weights as they are.
struct OutputError {
  std::string output;
  double max_abs = 0;
  double relative = 0;  ///< of the Euclidean norms
};

/// What an export did to the weights of a program that it rounded.
struct QuantizationSummary {
  std::string scheme;                                     ///< "int4, blocks of 32, symmetric"
  size_t weights = 0;                                     ///< that were rounded
  uint64_t bytes_before = 0;                              ///< of these weights
  uint64_t bytes_after = 0;                               ///< with scales and zero points
  std::vector<std::pair<std::string, std::string>> kept;  ///< weight → why it stays as it is
  std::vector<OutputError> errors;                        ///< on the sample inputs
  std::string unmeasured;                                 ///< why there are no errors; else empty
};

}  // namespace exporters
