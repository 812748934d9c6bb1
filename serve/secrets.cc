#include "serve/secrets.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>

#include "base/error.h"
#include "base/format.h"

namespace moetune {
namespace {

using Sha256 = std::array<unsigned char, 32>;

Sha256 sha256(std::string_view bytes) {
  Sha256 result{};
  unsigned length = 0;
  if (::EVP_Digest(bytes.data(), bytes.size(), result.data(), &length, ::EVP_sha256(), nullptr) != 1)
    throw BrokenEnvironment("OpenSSL cannot compute SHA-256");
  return result;
}

std::string hex_text(const Sha256& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += format("%02x", static_cast<unsigned>(byte));
  return text;
}

}  // namespace

std::string random_secret() {
  Sha256 bytes{};
  if (::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw BrokenEnvironment("the system gives no random bytes");
  return hex_text(bytes);
}

bool equal_secrets(std::string_view given, std::string_view expected) {
  const Sha256 left = sha256(given), right = sha256(expected);
  return ::CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace moetune
