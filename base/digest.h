// 128-bit content digests (XXH3). They name cached builds and guard stored blobs against damage; they are
// not a defence against an adversary.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moetune {

// 32 lower-case hexadecimal digits.
std::string digest(std::span<const std::uint8_t> bytes);
std::string digest(std::string_view text);
// The first 16 digits as a number.
std::uint64_t digest_head(std::string_view text);

// A digest over several fields in which no two different lists of fields collide by concatenation.
class DigestBuilder {
 public:
  DigestBuilder() { text_.reserve(1000); }  // most are of a record

  DigestBuilder& add(std::string_view field);
  std::string finish() const;

 private:
  std::string text_;
};

}  // namespace moetune
