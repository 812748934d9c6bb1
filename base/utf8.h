// Bytes as UTF-8 text, and text that is safe to print. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moetune {

// As RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

// The text with every byte that belongs to no character replaced by U+FFFD.
std::string to_utf8(std::string_view text);

// At most `most` bytes of the text, cut between characters, with "..." at the end if it was cut. `most` is at least 3.
std::string shortened(std::string_view text, std::size_t most);

enum class LineEnds { kept, escaped };  // and tabs

// A text of somebody else's, as it may be printed: with \xHH for what a terminal would obey (the control characters of
// ASCII and of Unicode, and bytes that are no character) and \uHHHH for what turns or breaks lines of text.
std::string escape_controls(std::string_view text, LineEnds line_ends = LineEnds::kept);

// The same of JSON, whose strings may hold all that needs no escape in JSON: it stays the same document.
std::string escape_json_controls(std::string_view json);

}  // namespace moetune
