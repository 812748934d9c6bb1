#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>

namespace moetune {

std::string digest(std::span<const std::uint8_t> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    text[15 - i] = "0123456789abcdef"[hash.high64 >> (4 * i) & 15];
    text[31 - i] = "0123456789abcdef"[hash.low64 >> (4 * i) & 15];
  }
  return text;
}

std::string digest(std::string_view text) {
  return digest(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

std::uint64_t digest_head(std::string_view text) { return XXH3_128bits(text.data(), text.size()).high64; }

DigestBuilder& DigestBuilder::add(std::string_view field) {
  char size[21];  // and a colon
  char* const end = std::to_chars(size, size + 20, field.size()).ptr;
  *end = ':';
  text_.append(size, end + 1).append(field);
  return *this;
}

std::string DigestBuilder::finish() const { return digest(text_); }

}  // namespace moetune
