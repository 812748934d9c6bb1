// Element types: their sizes and names, rounding to them, and their bytes on the host.
//
// Pure functions; thread-safe. templates/common/harness.cu does the same on the device, bit for bit, and
// knows the types by their position here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moetune {

enum class DType { f32, f16, bf16, e4m3, i32, i64, u8, i8, i16, u16, u32, f64 };

std::int64_t dtype_bytes(DType type);
std::string_view dtype_name(DType type);       // "f32", ...
DType dtype_from_name(std::string_view name);  // throws BadInput
bool is_integer(DType type);

// Rounds to the nearest value of `type` (ties to even), as the device does: e4m3 and integers saturate, f16
// and bf16 overflow to infinity, an integer of NaN is 0.
double round_to(DType type, double value);

// Element `index` of a tensor whose bytes start at `bytes`. store_element takes a value that round_to leaves
// as it is, NaN among them; an i64 past 2^53 needs store_integer.
double load_element(DType type, const void* bytes, std::int64_t index);
void store_element(DType type, void* bytes, std::int64_t index, double value);
std::int64_t load_integer(DType type, const void* bytes, std::int64_t index);  // of an integer type
void store_integer(DType type, void* bytes, std::int64_t index, std::int64_t value);

// A whole tensor's elements.
std::vector<double> widened(DType type, std::span<const std::uint8_t> bytes);

}  // namespace moetune
