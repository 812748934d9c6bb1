#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace moetune {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestMessage = 300, kLongestKey = 100, kLongestNumber = 40;

// Bounds on a JSON text's depth and size. For a text that is no JSON, at least those of the part before its first
// error.
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

// The first number that is too large for a double, of a text that is JSON up to there. The library names no place.
struct HugeNumber {
  std::string name;  // "workloads[0].weight"
  std::string number;
  std::size_t at = 0;
};

std::optional<HugeNumber> huge_number(std::string_view text) {
  struct Open {
    bool is_object = false, key_next = false;
    std::string key;
    std::size_t index = 0;
  };
  std::vector<Open> open;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' || c == '[') open.push_back({.is_object = c == '{', .key_next = c == '{'});
    if ((c == '}' || c == ']') && !open.empty()) open.pop_back();
    if (c == ',' && !open.empty()) open.back().key_next = open.back().is_object, ++open.back().index;
    if (c == '"') {
      const std::size_t begin = at;
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
      if (open.empty() || !open.back().key_next) continue;
      open.back().key_next = false;
      open.back().key = json::parse(text.substr(begin, at + 1 - begin)).get<std::string>();
    }
    if (c != '-' && (c < '0' || c > '9')) continue;
    const std::size_t end = std::min(text.size(), text.find_first_not_of("0123456789+-.eE", at));
    const std::string number(text.substr(at, end - at));
    if (std::isinf(std::strtod(number.c_str(), nullptr))) {
      std::string name;
      for (const Open& one : open)
        name += one.is_object ? (name.empty() ? "" : ".") + shortened(one.key, kLongestKey)
                              : "[" + std::to_string(one.index) + "]";
      return HugeNumber{name.empty() ? "the document" : name, number, at};
    }
    at = end - 1;
  }
  return std::nullopt;
}

std::string at_line(std::string_view text, std::size_t at) {
  return ", at line " + std::to_string(1 + std::ranges::count(text.substr(0, at), '\n'));
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
    throw BadInput(std::string(what) + ": the key '" + shortened(twice->key, kLongestKey) +
                   "' occurs twice in one object" + at_line(text, twice->at));
  } catch (const json::out_of_range& error) {
    const std::optional<HugeNumber> huge = huge_number(text);
    if (!huge) throw BadInput(std::string(what) + ": " + json_error_text(error));
    throw BadInput(std::string(what) + ": " + huge->name + " is a number too large to be read (got " +
                   shortened(huge->number, kLongestNumber) + ")" + at_line(text, huge->at));
  } catch (const json::exception& error) {
    throw BadInput(std::string(what) + ": " + shortened(json_error_text(error), kLongestMessage));
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
