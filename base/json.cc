#include "base/json.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
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

// Finds the first key that an object has twice, which the document no longer shows.
class DuplicateKeys {
 public:
  bool operator()(int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.back().insert(parsed.get<std::string>()).second &&
        first_.empty()) {
      first_ = parsed.get<std::string>();
    }
    return true;
  }
  const std::string& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::string first_;
};

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
    if (repeated == RepeatedKeys::allowed) return json::parse(text);
    DuplicateKeys duplicates;
    json document = json::parse(text, std::ref(duplicates));
    if (duplicates.first().empty()) return document;
    throw BadInput(std::string(what) + ": the key '" + duplicates.first() + "' occurs twice in one object");
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
