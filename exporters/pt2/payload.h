#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/pt2/archive.h"

#include <map>
#include <set>
#include <string>

namespace exporters::pt2 {

/// The tensors of an archive: parameters and buffers in data/weights, constants and non-persistent buffers in
/// data/constants. Stored entries are mapped, not read; the checksum of each is verified. Compressed ones are unpacked.
///
/// `needed`: the names that the program's signature has. Throws Error, naming tensor and entry, when one of these only
/// a pickle holds, and for entries that are missing, damaged or shorter than the tensor; other pickles are left alone.
std::map<std::string, StateTensor> read_payload(const Archive& archive, const std::set<std::string>& needed);

}  // namespace exporters::pt2
