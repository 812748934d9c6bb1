// Text for terminals and logs that show ASCII alone. Pure functions of their arguments and of the process's
// environment.
#pragma once

#include <string>
#include <string_view>

namespace moetune {

// Whether the user's locale (LC_ALL, LC_CTYPE, LANG) writes UTF-8. One that is named but not installed counts by its
// name.
bool is_utf8_locale();

// The same text in ASCII: "12.1 us" for "12.1 µs". A character without a likeness becomes "?".
std::string to_ascii(std::string_view text);

}  // namespace moetune
