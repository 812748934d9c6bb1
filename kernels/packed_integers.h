// Long integer lists as short text: differences of neighbours as zigzag varints, in base64. Page tables and
// prefix sums take one to three characters an element, against six to eight as JSON numbers.
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

std::string pack_integers(std::span<const std::int64_t> values);

// Throws BadInput where the text is not what pack_integers writes.
std::vector<std::int64_t> unpack_integers(std::string_view text);

// Lower-case hexadecimal, two digits a byte. bytes_of_hex throws BadInput.
std::string hex_of_bytes(std::span<const std::uint8_t> bytes);
std::vector<std::uint8_t> bytes_of_hex(std::string_view text);

}  // namespace moetune
