#include "kernels/buffer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct TypeFacts {
  DType type;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<TypeFacts, 5> kTypes = {{{DType::f32, "f32", 4},
                                              {DType::f16, "f16", 2},
                                              {DType::bf16, "bf16", 2},
                                              {DType::e4m3, "e4m3", 1},
                                              {DType::i32, "i32", 4}}};

std::uint64_t split_mix(std::uint64_t state) {
  std::uint64_t z = state + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// A binary floating-point type below double: explicit fraction bits, the exponent of its smallest normal
// number, and its largest finite value.
struct FloatFormat {
  int fraction_bits;
  int minimum_exponent;
  double largest;
  bool saturates;  // past the largest value: stays there (cvt.satfinite), or becomes infinite
};

double round_to_format(const FloatFormat& format, double value) {
  if (std::isnan(value) || value == 0) return value;
  const double overflow = format.saturates ? format.largest : std::numeric_limits<double>::infinity();
  if (std::isinf(value)) return std::copysign(overflow, value);
  const int exponent = std::max(std::ilogb(value), format.minimum_exponent);
  // Scaling by a power of two is exact here, and nearbyint rounds ties to even.
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, format.fraction_bits - exponent)),
                                    exponent - format.fraction_bits);
  return std::abs(rounded) > format.largest ? std::copysign(overflow, value) : rounded;
}

double round_to_int32(double value) {
  if (std::isnan(value)) return 0;
  const double low = std::numeric_limits<std::int32_t>::min(),
               high = std::numeric_limits<std::int32_t>::max();
  return std::min(std::max(std::nearbyint(value), low), high);
}

void require_fitting_integers(const Buffer& buffer) {
  if (buffer.fill.integers.size() == static_cast<std::size_t>(buffer.elements)) return;
  throw std::logic_error("buffer " + buffer.name + " has " + std::to_string(buffer.elements) +
                         " elements, its fill " + std::to_string(buffer.fill.integers.size()));
}

}  // namespace

std::int64_t dtype_bytes(DType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

std::string_view dtype_name(DType type) { return kTypes[static_cast<std::size_t>(type)].name; }

DType dtype_from_name(std::string_view name) {
  std::vector<std::string> names;
  for (const TypeFacts& facts : kTypes) {
    if (facts.name == name) return facts.type;
    names.emplace_back(facts.name);
  }
  throw BadInput(unknown_name("element type", name, names));
}

float generate_element(Fill::Kind kind, float scale, std::uint64_t seed, std::uint64_t stream,
                       std::uint64_t index) {
  const std::uint64_t word = split_mix(split_mix(split_mix(seed) + stream) + index);
  if (kind == Fill::Kind::normal) {
    const auto lane = [&](int i) { return static_cast<std::int32_t>((word >> (16 * i)) & 0xFFFF); };
    const std::int32_t centred = lane(0) + lane(1) + lane(2) + lane(3) - 2 * 65535;
    constexpr float kInverseDeviation = 0x1.bb67aep-16f;  // 1 / sqrt(4 * (65536^2 - 1) / 12)
    return static_cast<float>(centred) * (scale * kInverseDeviation);
  }
  if (kind == Fill::Kind::uniform) {
    const std::int32_t odd = 2 * static_cast<std::int32_t>(word >> 40) + 1 - (1 << 24);  // exact in a float
    return static_cast<float>(odd) * (scale * 0x1p-24f);
  }
  return 0;
}

double round_to(DType type, double value) {
  switch (type) {
    case DType::f32:
      return round_to_format({23, -126, 0x1.FFFFFEp127, false}, value);
    case DType::f16:
      return round_to_format({10, -14, 65504, false}, value);
    case DType::bf16:
      return round_to_format({7, -126, 0x1.FEp127, false}, value);
    case DType::e4m3:
      return round_to_format({3, -6, 448, true}, value);
    case DType::i32:
      return round_to_int32(value);
  }
  return value;
}

std::vector<double> host_values(const Buffer& buffer, std::uint64_t seed, std::uint64_t stream) {
  const Fill& fill = buffer.fill;
  std::vector<double> values(static_cast<std::size_t>(buffer.elements), 0.0);
  if (fill.kind == Fill::Kind::integers) {
    require_fitting_integers(buffer);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = round_to(buffer.dtype, fill.integers[i]);
  } else if (fill.kind != Fill::Kind::zeros) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = round_to(buffer.dtype, generate_element(fill.kind, fill.scale, seed, stream, i));
    }
  }
  for (const Range& range : fill.poison) {
    if (range.begin < 0 || range.count < 0 || range.begin > buffer.elements - range.count) {
      throw std::logic_error("buffer " + buffer.name + " is poisoned past its end");
    }
    std::fill_n(values.begin() + range.begin, range.count, kNaN);
  }
  return values;
}

}  // namespace moetune
