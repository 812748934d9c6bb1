// printf into a string. A pure function; the compiler checks pattern and arguments.
#pragma once

#include <string>

namespace moetune {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace moetune
