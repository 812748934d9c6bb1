#include "base/random_text.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/format.h"

namespace moetune {

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 256> random{};
  if (bytes > random.size()) throw BrokenEnvironment("at most 256 random bytes are read at once");
  // The kernel never gives fewer than asked for, of 256 at most (getrandom(2)).
  if (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    throw BrokenEnvironment("the kernel gives no random bytes: " + std::generic_category().message(errno));
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += format("%02x", random[i]);
  return text;
}

std::uint64_t random_seed() { return std::stoull(random_hex(8), nullptr, 16) % 1'000'000'000; }

}  // namespace moetune
