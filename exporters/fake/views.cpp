#include "exporters/fake/families.h"

namespace exporters::families {

std::span<const ShapeEntry> views() { return {}; }

}  // namespace exporters::families
