// Texts of values: printf into a string, whose pattern and arguments the compiler checks, and words. Pure functions.
#pragma once

#include <string>

namespace moetune {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// With the letters A to Z as a to z; other bytes stay.
std::string lower_case(std::string text);

// One word of a shell's command line: as it is if it is plain, else between single quotes.
std::string shell_word(const std::string& text);

}  // namespace moetune
