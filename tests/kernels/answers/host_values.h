// The values with which the device fills a buffer (templates/common/harness.cu), bit for bit. Pure functions;
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.h"

namespace moetune {

// The value of element `index` of a normal or uniform fill before rounding to the buffer's type. `stream`
// tells buffers and copies apart. With mix(x) = one step of SplitMix64 from state x,
// word = mix(mix(mix(seed) + stream) + index);
// - normal (Irwin-Hall), and `columns` before its shift: the sum of the word's four 16-bit lanes less 2 * 65535, times
//   (scale * 0x1.bb67aep-16f);
// - uniform: 2 * (word >> 40) + 1 - 2^24, times (scale * 2^-24): never an end point, symmetric around 0;
// - steps: 2 * (word >> 60) - 15, times scale.
// The integers are exact in a float and each product rounds once (no fused multiply-add), so that the
// device's copy in templates/common/harness.cu agrees bit for bit.
float generate_element(Fill::Kind kind, float scale, std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// Zipf: the least k for which the word above is below thresholds[k] (the last k if there is none).
std::int64_t zipf_element(std::span<const std::uint64_t> thresholds, std::uint64_t seed, std::uint64_t stream,
                          std::uint64_t index);

// Permutation: four Feistel rounds over the least even number of bits that holds elements - 1, repeated until
// the result is below `elements`.
std::int64_t permuted_element(std::int64_t elements, std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// The whole buffer as the device would hold it (rounded to its type), widened to double; poison is NaN, or
// the largest integer. Throws std::logic_error where a fill does not fit its buffer.
std::vector<double> host_values(const Buffer& buffer, std::uint64_t seed, std::uint64_t stream);

}  // namespace moetune
