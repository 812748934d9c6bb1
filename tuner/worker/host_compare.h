// The harness's comparison of sets (harness.h) on the host: of the one segment that a message is about.
//
// Pure functions; thread-safe. Tensors are bytes in the layout of kernels/dtype.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "tuner/worker/validator.h"

namespace moetune {

using HostBytes = std::span<const std::uint8_t>;

// The ends of all segments in elements, the one before the first offset and the one behind the last included.
// Throws std::logic_error where the offsets do not ascend within the tensor.
std::vector<std::int64_t> segment_ends(std::span<const std::int32_t> offsets, std::int64_t elements);
std::vector<std::int64_t> segment_ends(std::int64_t length, std::int64_t elements);

// Compares sorted copies of each segment.
SegmentFigures compare_segments_on_host(DType type, HostBytes x, HostBytes y, std::span<const std::int64_t> ends);

}  // namespace moetune
