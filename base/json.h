// The one place where JSON text from outside is parsed: recordings, spaces, cache records, messages of child
// processes. Such a text is bounded before a document is made of it: deep nesting would overflow the stack of
// whatever copies or prints it, and each value takes tens of bytes more than its text.
//
// Pure functions. `what` names the text in errors: "spaces/x.json", "a stored plan".
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace moetune {

inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 22;  // of a document: some 400 MiB
inline constexpr std::size_t kMaxReadValues = std::size_t{1} << 24;  // for a reader that keeps no document

enum class RepeatedKeys { allowed, refused };

// Throws BadInput for what is not JSON (with line and column), for more than kMaxJsonDepth levels or
// kMaxJsonValues values, and for a key that an object has twice (with its line) if that is refused.
nlohmann::json parse_json(std::string_view text, std::string_view what, RepeatedKeys repeated = RepeatedKeys::allowed);

// As above, but a discarded document instead of an exception.
nlohmann::json parse_json_or_discard(std::string_view text);

// Throws what parse_json() would throw before it parses, for a reader that keeps no document.
void check_json_bounds(std::string_view text, std::string_view what, std::size_t most_values = kMaxReadValues);

// The library's message without its own prefix: "parse error at line 3, column 5: ...".
std::string json_error_text(const std::exception& error);

}  // namespace moetune
