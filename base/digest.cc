#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace moetune {

std::string digest(std::span<const std::uint8_t> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

std::string digest(std::string_view text) {
  return digest(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

DigestBuilder& DigestBuilder::add(std::string_view field) {
  text_ += std::to_string(field.size());
  text_ += ':';
  text_ += field;
  return *this;
}

std::string DigestBuilder::finish() const { return digest(text_); }

}  // namespace moetune
