// Environment variables, all of them read here: one that is set and empty is one that is not set. Thread-safe unless
// somebody changes the environment meanwhile.
#pragma once

#include <cstdlib>

namespace moetune {

// null if it is not set, or empty.
inline const char* environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace moetune
