// The tensors of a problem, described as data: the worker allocates and fills them on the device, and the
// tests compute the same bytes on the host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

enum class DType { f32, f16, bf16, e4m3, i32 };

std::int64_t dtype_bytes(DType type);
std::string_view dtype_name(DType type);       // "f32", ...
DType dtype_from_name(std::string_view name);  // throws BadInput

// A run of elements.
struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// How an input gets its values. `normal` draws element i from a counter-based generator (see
// generate_element), so that host and device agree bit for bit and any part can be computed alone.
struct Fill {
  enum class Kind { zeros, normal, uniform, integers };
  Kind kind = Kind::zeros;
  float scale = 1;                     // standard deviation (normal) or half-width (uniform)
  std::vector<std::int32_t> integers;  // for Kind::integers, of an i32 or f32 buffer: every element
  std::vector<Range> poison;           // overwritten with NaN: what a right kernel never reads
};

enum class Role { input, output };

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  Role role = Role::input;
  // Streamed inputs: each replay of a measurement reads another copy, so that L2 is cold.
  bool rotates = false;
  Fill fill;  // inputs only; outputs are poisoned before every run

  std::int64_t bytes() const { return elements * dtype_bytes(dtype); }
};

// The value of element `index` of a normal or uniform fill before rounding to the buffer's type. `stream`
// tells buffers and copies apart. With mix(x) = one step of SplitMix64 from state x,
// word = mix(mix(mix(seed) + stream) + index);
// - normal (Irwin-Hall): the sum of the word's four 16-bit lanes less 2 * 65535, times
//   (scale * 0x1.bb67aep-16f);
// - uniform: 2 * (word >> 40) + 1 - 2^24, times (scale * 2^-24): never an end point, symmetric around 0.
// The integers are exact in a float and each product rounds once (no fused multiply-add), so that the
// device's copy in templates/common/harness.cu agrees bit for bit.
float generate_element(Fill::Kind kind, float scale, std::uint64_t seed, std::uint64_t stream,
                       std::uint64_t index);

// The stream number of copy `copy` (rotation) of the buffer at position `position` in Kernel::buffers.
inline std::uint64_t fill_stream(std::size_t position, std::size_t copy) { return position * 4096 + copy; }

// The whole buffer as the device would hold it (rounded to its type), widened to double; poison is NaN.
// Throws std::logic_error where a fill does not fit its buffer.
std::vector<double> host_values(const Buffer& buffer, std::uint64_t seed, std::uint64_t stream);

// Rounds to the nearest value of `type` (ties to even), as the device does: e4m3 and i32 saturate, f16 and
// bf16 overflow to infinity, an i32 of NaN is 0.
double round_to(DType type, double value);

}  // namespace moetune
