// Buffers as they cross to the worker: JSON, and beside it the long lists of their fills as binary blobs.
//
// Pure functions; thread-safe. Both ends run on one machine from one binary, so blobs hold integers in native
// order and `read_buffers` gives back what `write_buffers` got. It throws BadInput for anything else.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer.h"

namespace moetune {

// Appends to `blobs` and refers to them by their position in it. The text is what the document prints.
std::string buffers_text(const std::vector<Buffer>& buffers, std::vector<std::vector<std::uint8_t>>& blobs);
nlohmann::json write_buffers(const std::vector<Buffer>& buffers, std::vector<std::vector<std::uint8_t>>& blobs);

std::vector<Buffer> read_buffers(const nlohmann::json& json, std::span<const std::vector<std::uint8_t>> blobs);

}  // namespace moetune
