#include "exporters/graph/dtype.h"

#include "exporters/support/error.h"

namespace exporters {
namespace {

struct DtypeNames {
  c10::ScalarType dtype;
  std::string_view name;
  std::string_view abbreviation;
};

using enum c10::ScalarType;
constexpr DtypeNames kDtypes[] = {
    {Float, "float32", "f32"},
    {Long, "int64", "i64"},
    {Bool, "bool", "b8"},
    {Int, "int32", "i32"},
    {Half, "float16", "f16"},
    {BFloat16, "bfloat16", "bf16"},
    {Double, "float64", "f64"},
    {Byte, "uint8", "u8"},
    {Char, "int8", "i8"},
    {Short, "int16", "i16"},
    {UInt16, "uint16", "u16"},
    {UInt32, "uint32", "u32"},
    {UInt64, "uint64", "u64"},
    {ComplexHalf, "complex32", "c32"},
    {ComplexFloat, "complex64", "c64"},
    {ComplexDouble, "complex128", "c128"},
    {Float8_e5m2, "float8_e5m2", "f8e5m2"},
    {Float8_e4m3fn, "float8_e4m3fn", "f8e4m3fn"},
    {Float8_e5m2fnuz, "float8_e5m2fnuz", "f8e5m2fnuz"},
    {Float8_e4m3fnuz, "float8_e4m3fnuz", "f8e4m3fnuz"},
    {Float8_e8m0fnu, "float8_e8m0fnu", "f8e8m0fnu"},
    {Float4_e2m1fn_x2, "float4_e2m1fn_x2", "f4e2m1fnx2"},
};

const DtypeNames& names_of(c10::ScalarType dtype) {
  for (const DtypeNames& names : kDtypes) {
    if (names.dtype == dtype) {
      return names;
    }
  }
  fail("The scalar type {} has no place in a traced program", c10::toString(dtype));
}

}  // namespace

std::string_view dtype_name(c10::ScalarType dtype) { return names_of(dtype).name; }

std::string_view dtype_abbreviation(c10::ScalarType dtype) { return names_of(dtype).abbreviation; }

std::optional<c10::ScalarType> dtype_from_name(std::string_view name) {
  for (const DtypeNames& names : kDtypes) {
    if (names.name == name) {
      return names.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace exporters
