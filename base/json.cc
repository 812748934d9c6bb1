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
#include "base/json_scanner.h"
#include "base/json_walk.h"
#include "base/utf8.h"

namespace moetune {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestMessage = 300, kLongestKey = 100, kLongestNumber = 40;

// The first key that an object of a text that is JSON has twice, and where.
struct RepeatedKey {
  std::string key;
  std::size_t at = 0;
};

std::optional<RepeatedKey> repeated_key(std::string_view text) {
  std::optional<RepeatedKey> twice;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  walk_json(text, [&](const JsonPath& path, const JsonToken& token) {
    keys.resize(path.size());
    if (token.is_key && !keys.back().insert(path.back().key).second) twice = {path.back().key, token.at};
    return !twice;
  });
  return twice;
}

// The first number that is too large for a double, of a text that is JSON up to there. The library names no place.
struct HugeNumber {
  std::string name;  // "workloads[0].weight"
  std::string number;
  std::size_t at = 0;
};

std::optional<HugeNumber> huge_number(std::string_view text) {
  std::optional<HugeNumber> huge;
  walk_json(text, [&](const JsonPath& path, const JsonToken& token) {
    const char first = token.text.front();
    if (first != '-' && (first < '0' || first > '9')) return true;
    const std::string number(token.text);
    if (!std::isinf(std::strtod(number.c_str(), nullptr))) return true;
    std::string name;
    for (const JsonStep& step : path)
      name += step.is_object ? (name.empty() ? "" : ".") + shortened(step.key, kLongestKey)
                             : "[" + std::to_string(step.index) + "]";
    huge = {name.empty() ? "the document" : name, number, token.at};
    return false;
  });
  return huge;
}

std::string at_line(std::string_view text, std::size_t at) {
  return ", at line " + std::to_string(1 + std::ranges::count(text.substr(0, at), '\n'));
}

}  // namespace

void check_json_bounds(std::string_view text, std::string_view what, std::size_t most_values) {
  const JsonExtent extent = json_extent(text);
  const auto refuse = [&](const std::string& why) { throw BadInput(std::string(what) + ": " + why); };
  if (extent.depth > kMaxJsonDepth) refuse("its JSON is nested more than " + std::to_string(kMaxJsonDepth) + " deep");
  if (extent.values > most_values) refuse("its JSON holds more than " + std::to_string(most_values) + " values");
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
