#include "exporters/fake/families.h"

namespace exporters::families {

std::span<const ShapeEntry> convolution() { return {}; }

}  // namespace exporters::families
