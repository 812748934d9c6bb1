// Text that nobody can foresee: nonces, tokens, names of temporary files, seeds. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace moetune {

// Two hexadecimal digits a byte, of the kernel's random bytes; at most 256 bytes. Throws BrokenEnvironment. Not by
// std::random_device, whose libstdc++ would want glibc 2.36.
std::string random_hex(std::size_t bytes);

// Below 10^9, as every --seed is. Throws BrokenEnvironment.
std::uint64_t random_seed();

}  // namespace moetune
