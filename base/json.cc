#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"

namespace moetune {
namespace {

using nlohmann::json;

// Of a text that is JSON. Of another one they are those of what stands before its first error, or more.
struct Extent {
  int depth = 0;
  std::size_t values = 0;  // at most: brackets, commas and colons
};

Extent extent_of(std::string_view text) {
  Extent extent;
  int open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
        break;
      case '[':
      case '{':
        extent.depth = std::max(extent.depth, ++open);
        ++extent.values;
        break;
      case ']':
      case '}':
        --open;
        break;
      case ',':
      case ':':
        ++extent.values;
        break;
    }
  }
  return extent;
}

// The first key that an object of a text that is JSON has twice, and where. The library's events have no places.
struct RepeatedKey {
  std::string key;
  std::size_t at = 0;
};

std::optional<RepeatedKey> repeated_key(std::string_view text) {
  struct Open {
    bool is_object = false, key_next = false;
    std::set<std::string> keys;
  };
  std::vector<Open> open;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' || c == '[') open.push_back({.is_object = c == '{', .key_next = c == '{'});
    if ((c == '}' || c == ']') && !open.empty()) open.pop_back();
    if (c == ',' && !open.empty()) open.back().key_next = open.back().is_object;
    if (c != '"') continue;
    const std::size_t begin = at;
    for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    if (open.empty() || !open.back().key_next) continue;
    open.back().key_next = false;
    auto key = json::parse(text.substr(begin, at + 1 - begin)).get<std::string>();
    if (!open.back().keys.insert(key).second) return RepeatedKey{std::move(key), begin};
  }
  return std::nullopt;
}

}  // namespace

void check_json_bounds(std::string_view text, std::string_view what, std::size_t most_values) {
  const Extent extent = extent_of(text);
  const auto refuse = [&](const std::string& why) { throw BadInput(std::string(what) + ": " + why); };
  if (extent.depth > kMaxJsonDepth)
    refuse("its JSON is nested more than " + std::to_string(kMaxJsonDepth) + " deep");
  if (extent.values > most_values)
    refuse("its JSON holds more than " + std::to_string(most_values) + " values");
}

json parse_json(std::string_view text, std::string_view what, RepeatedKeys repeated) {
  check_json_bounds(text, what, kMaxJsonValues);
  try {
    json document = json::parse(text);
    if (repeated == RepeatedKeys::allowed) return document;
    const std::optional<RepeatedKey> twice = repeated_key(text);
    if (!twice) return document;
    const auto line = 1 + std::ranges::count(text.substr(0, twice->at), '\n');
    throw BadInput(std::string(what) + ": the key '" + twice->key + "' occurs twice in one object, at line " +
                   std::to_string(line));
  } catch (const json::exception& error) {
    throw BadInput(std::string(what) + ": " + json_error_text(error));
  }
}

json parse_json_or_discard(std::string_view text) {
  try {
    return parse_json(text, "");
  } catch (const BadInput&) {
    return json(json::value_t::discarded);
  }
}

std::string json_error_text(const std::exception& error) {
  const std::string message = error.what();
  const std::size_t end = message.find("] ");
  return end == std::string::npos ? message : message.substr(end + 2);
}

}  // namespace moetune
