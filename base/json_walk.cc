#include "base/json_walk.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace moetune {
namespace {

std::size_t end_of_token(std::string_view text, std::size_t at) {
  if (text[at] == '{' || text[at] == '[') return at + 1;
  if (text[at] != '"') return std::min(text.size(), text.find_first_of(",:]} \t\r\n", at));
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(text.size(), at + 1);
}

// A key between its quotes.
std::string key_of(std::string_view quoted) {
  if (quoted.size() >= 2 && quoted.ends_with('"') && quoted.find('\\') == std::string_view::npos)
    return std::string(quoted.substr(1, quoted.size() - 2));
  const nlohmann::json key = parse_json_or_discard(quoted);
  return key.is_string() ? key.get<std::string>() : "";
}

}  // namespace

void walk_json(std::string_view text, const std::function<bool(const JsonPath& path, const JsonToken& token)>& visit) {
  JsonPath path;
  for (std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size();) {
    const char c = text[at];
    if (std::string_view(",:]} \t\r\n").find(c) != std::string_view::npos) {
      if ((c == '}' || c == ']') && !path.empty()) path.pop_back();
      if (c == ',' && !path.empty()) path.back().key_next = path.back().is_object, ++path.back().index;
      ++at;
      continue;
    }
    const std::size_t end = end_of_token(text, at);
    const bool is_key = c == '"' && !path.empty() && path.back().key_next;
    if (is_key) {
      path.back().key_next = false;
      path.back().key = key_of(text.substr(at, end - at));
    }
    if (!visit(path, {is_key, text.substr(at, end - at), at})) return;
    if (c == '{' || c == '[') path.push_back({.is_object = c == '{', .key_next = c == '{'});
    at = end;
  }
}

}  // namespace moetune
