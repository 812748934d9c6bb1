// 128-bit content digests (XXH3). They name cached builds and guard stored blobs against damage; they are
// not a defence against an adversary.
#pragma once

#include <array>
#include <cstddef>
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

// A digest over several fields in which no two different lists of fields collide by concatenation. Allocates nothing.
class DigestBuilder {
 public:
  DigestBuilder& add(std::string_view field);
  std::string finish() const;

 private:
  void append(std::string_view text);

  // The end of the text; what stood before it is in the state.
  std::array<char, 1024> pending_;
  std::size_t pending_size_ = 0;
  bool is_long_ = false;                          // the state is in use
  alignas(64) std::array<std::byte, 576> state_;  // XXH3's
};

}  // namespace moetune
