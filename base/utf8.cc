#include "base/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/format.h"

namespace moetune {
namespace {

struct Form {
  unsigned char first_low, first_high;    // of the first byte
  unsigned char second_low, second_high;  // the rest are 80..BF
  std::size_t length;
};

// RFC 3629, section 4.
constexpr Form kForms[] = {
    {0x00, 0x7F, 0x80, 0xBF, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

// The bytes of the character that `text` begins with; 0 where it begins with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (const Form& form : kForms) {
    if (byte(0) < form.first_low || byte(0) > form.first_high) continue;
    if (text.size() < form.length) return 0;
    for (std::size_t i = 1; i < form.length; ++i) {
      const unsigned char low = i == 1 ? form.second_low : 0x80, high = i == 1 ? form.second_high : 0xBF;
      if (byte(i) < low || byte(i) > high) return 0;
    }
    return form.length;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    // Nearly all text is ASCII.
    for (std::uint64_t eight = 0; text.size() >= sizeof eight; text.remove_prefix(sizeof eight)) {
      std::memcpy(&eight, text.data(), sizeof eight);
      if ((eight & 0x8080808080808080) != 0) break;
    }
    if (text.empty()) break;
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    result += length == 0 ? "\xEF\xBF\xBD" : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

namespace {

// Decodes one well-formed character.
unsigned code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first;
  unsigned code = first & (0xFFu >> (character.size() + 1));
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return code;
}

// Unicode's controls of direction, its line and paragraph separator, and the mark of byte order.
bool is_misleading(unsigned code) {
  return code == 0x061C || (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

std::string escaped(std::string_view text, LineEnds line_ends, bool is_json) {
  std::string result;
  result.reserve(text.size());
  while (true) {
    const auto plain = std::ranges::find_if_not(text, [](char c) { return c >= ' ' && c <= '~'; });
    result.append(text.begin(), plain);
    text.remove_prefix(static_cast<std::size_t>(plain - text.begin()));
    if (text.empty()) return result;
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const unsigned code = length == 0 ? static_cast<unsigned char>(text.front()) : code_point(character);
    const bool is_line_end = code == '\n' || code == '\t';
    const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0) || length == 0;
    if (is_control ? is_line_end && line_ends == LineEnds::kept : !is_misleading(code)) {
      result += character;
    } else {
      result += is_control && !is_json ? format("\\x%02x", code) : format("\\u%04x", code);
    }
    text.remove_prefix(character.size());
  }
}

}  // namespace

std::string escape_controls(std::string_view text, LineEnds line_ends) { return escaped(text, line_ends, false); }

std::string escape_json_controls(std::string_view json) { return escaped(json, LineEnds::kept, true); }

}  // namespace moetune
