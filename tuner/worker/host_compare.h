// The harness's comparisons (harness.h) on the host: the judge of small tensors in tests, of the scripted driver's,
// and of the one segment that a message is about.
//
// Pure functions; thread-safe. Tensors are bytes in the layout of kernels/dtype.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "tuner/worker/validator.h"

namespace moetune {

using HostBytes = std::span<const std::uint8_t>;

// x, of a floating-point type, against the f32 tensor y.
ErrorFigures compare_on_host(DType type, HostBytes x, HostBytes y);

// As another run left the tensor that began with `earlier_byte` everywhere, as this one did with `byte`.
struct EarlierRun {
  HostBytes bytes;
  std::uint8_t earlier_byte = 0, byte = 0;
};

// x against y, both of an integer type.
IntegerFigures compare_integers_on_host(DType type, HostBytes x, HostBytes y,
                                        const std::optional<EarlierRun>& earlier = std::nullopt);

// The ends of all segments in elements, the one before the first offset and the one behind the last included.
// Throws std::logic_error where the offsets do not ascend within the tensor.
std::vector<std::int64_t> segment_ends(std::span<const std::int32_t> offsets, std::int64_t elements);
std::vector<std::int64_t> segment_ends(std::int64_t length, std::int64_t elements);

// Compares sorted copies of each segment.
SegmentFigures compare_segments_on_host(DType type, HostBytes x, HostBytes y, std::span<const std::int64_t> ends);

}  // namespace moetune
