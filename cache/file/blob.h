// Compressed bytes as they stand in the database. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moetune {

using Blob = std::vector<std::uint8_t>;

// One zstd frame.
Blob compress(std::span<const std::uint8_t> bytes);

// The bytes of a frame that compress() made from `size` bytes; nullopt where it is not one. Never allocates
// more than `size` says, and refuses a size past 256 MiB.
std::optional<Blob> decompress(std::span<const std::uint8_t> frame, std::int64_t size);

}  // namespace moetune
