#include "base/ed25519.h"

#include <sodium.h>

#include "base/error.h"

namespace moetune {
namespace {

static_assert(crypto_sign_ed25519_PUBLICKEYBYTES == 32 && crypto_sign_ed25519_SEEDBYTES == 32);
static_assert(crypto_sign_ed25519_BYTES == 64 && crypto_hash_sha512_BYTES == 64);

const unsigned char* data_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// libsodium's form of a secret key: the seed and the public key.
struct ExpandedKey {
  explicit ExpandedKey(const SecretKey& key) {
    crypto_sign_ed25519_seed_keypair(own.bytes.data(), secret, key.seed.data());
  }
  ExpandedKey(const ExpandedKey&) = delete;
  ~ExpandedKey() { sodium_memzero(secret, sizeof secret); }

  PublicKey own;
  unsigned char secret[crypto_sign_ed25519_SECRETKEYBYTES];
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

SecretKey make_secret_key() {
  if (sodium_init() < 0) throw BrokenEnvironment("the system has no random numbers to make a key of");
  SecretKey key;
  randombytes_buf(key.seed.data(), key.seed.size());
  return key;
}

PublicKey public_key_of(const SecretKey& key) { return ExpandedKey(key).own; }

// Signing and verifying have one implementation each in libsodium, which needs no sodium_init().
Signature sign(const SecretKey& key, std::string_view message) {
  const ExpandedKey expanded(key);
  Signature signature;
  crypto_sign_ed25519_detached(signature.data(), nullptr, data_of(message), message.size(), expanded.secret);
  return signature;
}

bool is_signed(const PublicKey& key, std::string_view message, const Signature& signature) {
  return crypto_sign_ed25519_verify_detached(signature.data(), data_of(message), message.size(), key.bytes.data()) == 0;
}

std::array<std::uint8_t, 64> sha512(std::string_view bytes) {
  std::array<std::uint8_t, 64> digest;
  crypto_hash_sha512(digest.data(), data_of(bytes), bytes.size());
  return digest;
}

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(digest, data_of(bytes), bytes.size());
  return hex_text(digest, sizeof digest);
}

std::string hex_text(const std::uint8_t* bytes, std::size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

bool read_hex(std::string_view text, std::uint8_t* bytes, std::size_t count) {
  if (text.size() != 2 * count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

}  // namespace moetune
