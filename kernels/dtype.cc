#include "kernels/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {
namespace {

// A binary floating-point type below double: explicit fraction bits, the exponent of its smallest normal
// number, its largest finite value, and what lies past that: infinity, or nothing (cvt.satfinite).
struct FloatFormat {
  int fraction_bits;
  int exponent_bits;
  int minimum_exponent;
  double largest;
  bool saturates;
};

struct TypeFacts {
  DType type;
  std::string_view name;
  std::int64_t bytes;
  bool integer;
  FloatFormat format;  // of floating-point types
};

constexpr std::array<TypeFacts, 12> kTypes = {{{DType::f32, "f32", 4, false, {23, 8, -126, 0x1.FFFFFEp127, false}},
                                               {DType::f16, "f16", 2, false, {10, 5, -14, 65504, false}},
                                               {DType::bf16, "bf16", 2, false, {7, 8, -126, 0x1.FEp127, false}},
                                               {DType::e4m3, "e4m3", 1, false, {3, 4, -6, 448, true}},
                                               {DType::i32, "i32", 4, true, {}},
                                               {DType::i64, "i64", 8, true, {}},
                                               {DType::u8, "u8", 1, true, {}},
                                               {DType::i8, "i8", 1, true, {}},
                                               {DType::i16, "i16", 2, true, {}},
                                               {DType::u16, "u16", 2, true, {}},
                                               {DType::u32, "u32", 4, true, {}},
                                               {DType::f64, "f64", 8, false, {}}}};

const TypeFacts& facts_of(DType type) { return kTypes[static_cast<std::size_t>(type)]; }

// These two take normal doubles. std::ldexp and std::ilogb take several times as long.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }
int exponent_of(double value) { return static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ff) - 1023; }

double round_to_format(const FloatFormat& format, double value) {
  if (std::isnan(value) || value == 0) return value;
  const double overflow = format.saturates ? format.largest : std::numeric_limits<double>::infinity();
  if (std::isinf(value)) return std::copysign(overflow, value);
  const int exponent = std::max(exponent_of(value), format.minimum_exponent);
  // Scaling by a power of two is exact here, and nearbyint rounds ties to even.
  const double rounded = std::nearbyint(value * power_of_two(format.fraction_bits - exponent)) *
                         power_of_two(exponent - format.fraction_bits);
  return std::abs(rounded) > format.largest ? std::copysign(overflow, value) : rounded;
}

// Calls `visit` with a 0 of the C++ type.
template <typename Visit>
auto with_integer(DType type, const char* caller, const Visit& visit) {
  switch (type) {
    case DType::i32:
      return visit(std::int32_t{});
    case DType::i64:
      return visit(std::int64_t{});
    case DType::u8:
      return visit(std::uint8_t{});
    case DType::i8:
      return visit(std::int8_t{});
    case DType::i16:
      return visit(std::int16_t{});
    case DType::u16:
      return visit(std::uint16_t{});
    case DType::u32:
      return visit(std::uint32_t{});
    default:
      throw std::logic_error(std::string(caller) + " of " + std::string(dtype_name(type)));
  }
}

template <typename Integer>
double round_to_integer(double value) {
  if (std::isnan(value)) return 0;
  return std::clamp(std::nearbyint(value), static_cast<double>(std::numeric_limits<Integer>::min()),
                    static_cast<double>(std::numeric_limits<Integer>::max()));
}

// Exponent 0 and the all-ones exponent are special; a type that saturates has no infinity and one NaN.
double decode(const FloatFormat& format, std::uint32_t bits) {
  const int bias = 1 - format.minimum_exponent;
  const std::uint32_t fractions = std::uint32_t{1} << format.fraction_bits;
  const std::uint32_t top = (std::uint32_t{1} << format.exponent_bits) - 1;
  const std::uint32_t exponent = bits >> format.fraction_bits & top, fraction = bits & (fractions - 1);
  const bool negative = (bits >> (format.exponent_bits + format.fraction_bits) & 1) != 0;
  double value = 0;
  if (exponent == top && !format.saturates && fraction == 0) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == top && (!format.saturates || fraction == fractions - 1)) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = fraction * power_of_two(format.minimum_exponent - format.fraction_bits);
  } else {
    value = (fractions + fraction) * power_of_two(static_cast<int>(exponent) - bias - format.fraction_bits);
  }
  return negative ? -value : value;
}

std::uint32_t encode(const FloatFormat& format, double value) {
  const std::uint32_t sign = std::uint32_t{std::signbit(value)} << (format.exponent_bits + format.fraction_bits);
  const std::uint32_t top = (std::uint32_t{1} << format.exponent_bits) - 1;
  const double magnitude = std::abs(value);
  if (std::isnan(value)) return (std::uint32_t{1} << (format.exponent_bits + format.fraction_bits)) - 1;
  if (std::isinf(value)) return sign | top << format.fraction_bits;
  if (magnitude == 0) return sign;
  const int exponent = std::max(exponent_of(magnitude), format.minimum_exponent);
  const auto steps = static_cast<std::uint32_t>(magnitude * power_of_two(format.fraction_bits - exponent));
  // The leading one of a normal number carries into the exponent; a subnormal has none, and exponent 0.
  const auto field = static_cast<std::uint32_t>(exponent - format.minimum_exponent);
  return sign | ((field << format.fraction_bits) + steps);
}

template <typename T>
T load(const void* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::uint8_t*>(bytes) + index * static_cast<std::int64_t>(sizeof value),
              sizeof value);
  return value;
}

template <typename T>
void store(void* bytes, std::int64_t index, T value) {
  std::memcpy(static_cast<std::uint8_t*>(bytes) + index * static_cast<std::int64_t>(sizeof value), &value,
              sizeof value);
}

}  // namespace

std::int64_t dtype_bytes(DType type) { return facts_of(type).bytes; }

std::string_view dtype_name(DType type) { return facts_of(type).name; }

DType dtype_from_name(std::string_view name) {
  std::vector<std::string> names;
  for (const TypeFacts& facts : kTypes) {
    if (facts.name == name) return facts.type;
    names.emplace_back(facts.name);
  }
  throw BadInput(unknown_name("element type", name, names));
}

bool is_integer(DType type) { return facts_of(type).integer; }

double round_to(DType type, double value) {
  if (type == DType::f64) return value;
  if (!is_integer(type)) return round_to_format(facts_of(type).format, value);
  return with_integer(type, "round_to", [&](auto zero) { return round_to_integer<decltype(zero)>(value); });
}

double load_element(DType type, const void* bytes, std::int64_t index) {
  if (is_integer(type)) return static_cast<double>(load_integer(type, bytes, index));
  if (type == DType::f32) return load<float>(bytes, index);
  if (type == DType::f64) return load<double>(bytes, index);
  return decode(facts_of(type).format,
                dtype_bytes(type) == 1 ? load<std::uint8_t>(bytes, index) : load<std::uint16_t>(bytes, index));
}

void store_element(DType type, void* bytes, std::int64_t index, double value) {
  if (is_integer(type)) {
    // 2^63 is the double nearest to the largest i64.
    store_integer(type, bytes, index,
                  value >= 0x1p63 ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(value));
  } else if (type == DType::f64) {
    store(bytes, index, value);
  } else if (const std::uint32_t bits = encode(facts_of(type).format, value); type == DType::f32) {
    store(bytes, index, bits);
  } else if (dtype_bytes(type) == 2) {
    store(bytes, index, static_cast<std::uint16_t>(bits));
  } else {
    store(bytes, index, static_cast<std::uint8_t>(bits));
  }
}

std::int64_t load_integer(DType type, const void* bytes, std::int64_t index) {
  return with_integer(type, "load_integer",
                      [&](auto zero) { return static_cast<std::int64_t>(load<decltype(zero)>(bytes, index)); });
}

void store_integer(DType type, void* bytes, std::int64_t index, std::int64_t value) {
  with_integer(type, "store_integer", [&](auto zero) { store(bytes, index, static_cast<decltype(zero)>(value)); });
}

std::vector<double> widened(DType type, std::span<const std::uint8_t> bytes) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(dtype_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = load_element(type, bytes.data(), static_cast<std::int64_t>(i));
  return values;
}

}  // namespace moetune
