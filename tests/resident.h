// How much memory this process holds.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace moetune::testing {

inline std::size_t resident_bytes() {
  std::size_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace moetune::testing
