#pragma once

#include "exporters/graph/exported_program.h"

#include <cstdint>
#include <map>
#include <string>

namespace exporters::pt2 {

/// The program's hints, with others in place of those that PyTorch would draw conclusions from: it takes an axis whose
/// hint is 0 or 1 for static, and two with one hint for equal. Within the ranges and guards; a hint for which there is
/// no other value stays.
std::map<std::string, int64_t> generic_hints(const ExportedProgram& program);

}  // namespace exporters::pt2
