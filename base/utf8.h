// Whether bytes are UTF-8 text. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace moetune {

// As RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

// The text with every byte that belongs to no character replaced by U+FFFD.
std::string to_utf8(std::string_view text);

}  // namespace moetune
