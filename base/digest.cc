#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>
#include <cstring>
#include <new>

namespace moetune {

namespace {

XXH3_state_t* state_in(std::array<std::byte, 576>& bytes) {
  static_assert(sizeof(XXH3_state_t) <= sizeof bytes && alignof(XXH3_state_t) <= 64);
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes.data()));
}

std::string text_of(XXH128_hash_t hash) {
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    text[15 - i] = "0123456789abcdef"[hash.high64 >> (4 * i) & 15];
    text[31 - i] = "0123456789abcdef"[hash.low64 >> (4 * i) & 15];
  }
  return text;
}

}  // namespace

std::string digest(std::span<const std::uint8_t> bytes) { return text_of(XXH3_128bits(bytes.data(), bytes.size())); }

std::string digest(std::string_view text) {
  return digest(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

std::uint64_t digest_head(std::string_view text) { return XXH3_128bits(text.data(), text.size()).high64; }

DigestBuilder& DigestBuilder::add(std::string_view field) {
  char size[21];  // and a colon
  char* const end = std::to_chars(size, size + 20, field.size()).ptr;
  *end = ':';
  append({size, static_cast<std::size_t>(end + 1 - size)});
  append(field);
  return *this;
}

// Small pieces are gathered, because XXH3 takes its time over each.
void DigestBuilder::append(std::string_view text) {
  if (text.size() > pending_.size() - pending_size_) {
    if (!is_long_) XXH3_128bits_reset(new (state_.data()) XXH3_state_t);
    is_long_ = true;
    XXH3_128bits_update(state_in(state_), pending_.data(), pending_size_);
    pending_size_ = 0;
    if (text.size() > pending_.size()) {
      XXH3_128bits_update(state_in(state_), text.data(), text.size());
      return;
    }
  }
  if (!text.empty()) std::memcpy(pending_.data() + pending_size_, text.data(), text.size());
  pending_size_ += text.size();
}

std::string DigestBuilder::finish() const {
  if (!is_long_) return text_of(XXH3_128bits(pending_.data(), pending_size_));
  alignas(64) std::array state = state_;
  XXH3_128bits_update(state_in(state), pending_.data(), pending_size_);
  return text_of(XXH3_128bits_digest(state_in(state)));
}

}  // namespace moetune
