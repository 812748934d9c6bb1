// Bytes as UTF-8 text, and text that is safe to print. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace moetune {

// As RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

// The text with every byte that belongs to no character replaced by U+FFFD.
std::string to_utf8(std::string_view text);

// With \xHH for what a terminal would obey: the control characters of ASCII and of Unicode, save line ends and tabs.
std::string escape_controls(std::string_view text);

}  // namespace moetune
