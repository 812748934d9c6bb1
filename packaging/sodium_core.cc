// The little that libsodium's signatures and hashes take from its other parts: with those the runtime would be 115 KB
// larger. As these are defined here, the linker leaves the others in libsodium.a. The runtime verifies signatures of
// packs; it makes no keys, which alone needs random numbers.
#include <cstddef>
#include <cstdlib>

extern "C" {
int sodium_init() { return -1; }  // as if the system had no random numbers
void randombytes_buf(void*, std::size_t) { std::abort(); }

void sodium_memzero(void* memory, std::size_t size) {
  auto* const bytes = static_cast<volatile unsigned char*>(memory);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = 0;
}

int sodium_memcmp(const void* a, const void* b, std::size_t size) {
  const auto* const left = static_cast<const volatile unsigned char*>(a);
  const auto* const right = static_cast<const volatile unsigned char*>(b);
  unsigned char differences = 0;
  for (std::size_t i = 0; i < size; ++i) differences |= left[i] ^ right[i];
  return differences == 0 ? 0 : -1;
}

int sodium_is_zero(const unsigned char* bytes, std::size_t size) {
  unsigned char ones = 0;
  for (std::size_t i = 0; i < size; ++i) ones |= static_cast<const volatile unsigned char*>(bytes)[i];
  return ones == 0 ? 1 : 0;
}
}
