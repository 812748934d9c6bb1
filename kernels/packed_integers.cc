#include "kernels/packed_integers.h"

#include <array>

#include "base/error.h"

namespace moetune {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kHexDigits = "0123456789abcdef";

std::array<int, 256> invert(std::string_view digits) {
  std::array<int, 256> inverse;
  inverse.fill(-1);
  for (std::size_t i = 0; i < digits.size(); ++i)
    inverse[static_cast<unsigned char>(digits[i])] = static_cast<int>(i);
  return inverse;
}

int digit(const std::array<int, 256>& inverse, char c) {
  const int value = inverse[static_cast<unsigned char>(c)];
  if (value < 0) throw BadInput("a packed list holds the character '" + std::string(1, c) + "'");
  return value;
}

// Unpadded base64: the length says how many bytes the last group holds.
std::string to_base64(std::span<const std::uint8_t> bytes) {
  std::string text;
  text.reserve(bytes.size() * 4 / 3 + 2);
  std::uint32_t bits = 0;
  int held = 0;
  for (const std::uint8_t byte : bytes) {
    bits = bits << 8 | byte;
    for (held += 8; held >= 6; held -= 6) text += kDigits[bits >> (held - 6) & 63];
  }
  if (held > 0) text += kDigits[bits << (6 - held) & 63];
  return text;
}

std::vector<std::uint8_t> from_base64(std::string_view text) {
  static const std::array<int, 256> inverse = invert(kDigits);
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    bits = bits << 6 | static_cast<std::uint32_t>(digit(inverse, c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<std::uint8_t>(bits >> held));
  }
  return bytes;
}

// Differences are taken modulo 2^64, so that any two values have one.
std::uint64_t zigzag(std::uint64_t difference) { return difference << 1 ^ (0 - (difference >> 63)); }
std::uint64_t unzigzag(std::uint64_t coded) { return coded >> 1 ^ (0 - (coded & 1)); }

}  // namespace

std::string pack_integers(std::span<const std::int64_t> values) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(values.size() * 2);
  std::uint64_t previous = 0;
  for (const std::int64_t value : values) {
    std::uint64_t rest = zigzag(static_cast<std::uint64_t>(value) - previous);
    previous = static_cast<std::uint64_t>(value);
    for (; rest >= 128; rest >>= 7) bytes.push_back(static_cast<std::uint8_t>(rest | 128));
    bytes.push_back(static_cast<std::uint8_t>(rest));
  }
  return to_base64(bytes);
}

std::vector<std::int64_t> unpack_integers(std::string_view text) {
  std::vector<std::int64_t> values;
  std::uint64_t previous = 0, coded = 0;
  int shift = 0;
  for (const std::uint8_t byte : from_base64(text)) {
    if (shift > 63) throw BadInput("a packed list holds an integer of more than 64 bits");
    coded |= static_cast<std::uint64_t>(byte & 127) << shift;
    shift += 7;
    if (byte & 128) continue;
    previous += unzigzag(coded);
    values.push_back(static_cast<std::int64_t>(previous));
    coded = 0;
    shift = 0;
  }
  if (shift != 0) throw BadInput("a packed list ends within an integer");
  return values;
}

std::string hex_of_bytes(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::vector<std::uint8_t> bytes_of_hex(std::string_view text) {
  static const std::array<int, 256> inverse = invert(kHexDigits);
  if (text.size() % 2 != 0) throw BadInput("a byte list has an odd number of hexadecimal digits");
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(digit(inverse, text[2 * i]) << 4 | digit(inverse, text[2 * i + 1]));
  }
  return bytes;
}

}  // namespace moetune
