// Ed25519 signatures and SHA-2 digests, against adversaries; base/digest.h is against damage. The home of libsodium.
//
// Plain values and functions without state; thread-safe. A program that only verifies links no random numbers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moetune {

struct PublicKey {
  std::array<std::uint8_t, 32> bytes{};
  bool operator==(const PublicKey&) const = default;
};

struct SecretKey {
  std::array<std::uint8_t, 32> seed{};
};

using Signature = std::array<std::uint8_t, 64>;

// Draws a key from the system's random numbers. Throws BrokenEnvironment if there are none.
SecretKey make_secret_key();
PublicKey public_key_of(const SecretKey& key);

Signature sign(const SecretKey& key, std::string_view message);
bool is_signed(const PublicKey& key, std::string_view message, const Signature& signature);

std::array<std::uint8_t, 64> sha512(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);  // 64 lower-case digits

// Lower-case digits, two a byte.
std::string hex_text(const std::uint8_t* bytes, std::size_t count);
// False if `text` is not exactly `count` bytes in lower-case digits.
bool read_hex(std::string_view text, std::uint8_t* bytes, std::size_t count);

}  // namespace moetune
