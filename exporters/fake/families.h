#pragma once

#include "exporters/fake/registry.h"

#include <span>

// The tables of built-in shape functions, one for each family and file.
namespace exporters::families {

std::span<const ShapeEntry> pointwise();
std::span<const ShapeEntry> reductions();
std::span<const ShapeEntry> matmul();
std::span<const ShapeEntry> views();
std::span<const ShapeEntry> joins();
std::span<const ShapeEntry> indexing();
std::span<const ShapeEntry> advanced_indexing();
std::span<const ShapeEntry> factories();
std::span<const ShapeEntry> sorting();
std::span<const ShapeEntry> normalization();
std::span<const ShapeEntry> attention();
std::span<const ShapeEntry> convolution();
std::span<const ShapeEntry> pooling();
std::span<const ShapeEntry> resampling();
std::span<const ShapeEntry> recurrent();
std::span<const ShapeEntry> spectral();
std::span<const ShapeEntry> grouped();
std::span<const ShapeEntry> data_sized();
std::span<const ShapeEntry> data_dependent();

/// All of the above.
std::span<std::span<const ShapeEntry> (*const)()> all();

}  // namespace exporters::families
