#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_walk.h"
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

// Decides what the library's acceptor decides, in one pass and without a copy of any token: a million trials have a
// text each. Strings are taken for UTF-8.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool is_object() {
    if (peek() != '{' || !value(0)) return false;
    return peek() == '\0';  // the end, for the library too
  }

 private:
  // The next character that is no blank; 0 at the end.
  char peek() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    return at_ == end_ ? '\0' : *at_;
  }
  bool take(char wanted) { return peek() == wanted && ++at_ != nullptr; }
  bool take(std::string_view word) {
    const bool is_there = std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word);
    at_ += is_there ? word.size() : 0;
    return is_there;
  }

  bool value(int depth) {
    switch (peek()) {
      case '{':
        return list(depth, '}', [&] { return string() && take(':') && count() && value(depth + 1); });
      case '[':
        return list(depth, ']', [&] { return value(depth + 1); });
      case '"':
        return string();
      case 't':
        return take("true");
      case 'f':
        return take("false");
      case 'n':
        return take("null");
      default:
        return number();
    }
  }

  template <typename Member>
  bool list(int depth, char close, const Member& member) {
    ++at_;
    if (depth == kMaxJsonDepth || !count()) return false;
    if (take(close)) return true;
    do {
      if (!member()) return false;
    } while (take(',') && count());
    return take(close);
  }
  bool count() { return ++values_ <= kMaxJsonValues; }  // as extent_of() does

  bool string() {
    if (!take('"')) return false;
    for (; at_ != end_ && *at_ != '"'; ++at_) {
      if (static_cast<unsigned char>(*at_) < 0x20) return false;
      if (*at_ == '\\' && !escape()) return false;
    }
    return at_ != end_ && ++at_ != nullptr;
  }

  // Ends at the last character of the escape.
  bool escape() {
    if (++at_ == end_) return false;
    if (*at_ != 'u') return std::string_view("\"\\/bfnrt").find(*at_) != std::string_view::npos;
    const int unit = code_unit();
    if (unit < 0xd800 || unit > 0xdfff) return unit >= 0;
    if (unit > 0xdbff || end_ - at_ < 3 || at_[1] != '\\' || at_[2] != 'u') return false;
    at_ += 2;
    const int low = code_unit();
    return low >= 0xdc00 && low <= 0xdfff;
  }
  int code_unit() {
    if (end_ - at_ < 5) return -1;
    unsigned unit = 0;
    const auto [after, error] = std::from_chars(at_ + 1, at_ + 5, unit, 16);
    if (error != std::errc() || after != at_ + 5) return -1;
    at_ += 4;
    return static_cast<int>(unit);
  }

  std::size_t digits() {
    const char* const first = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return static_cast<std::size_t>(at_ - first);
  }
  bool number() {
    constexpr std::size_t kSurelyFinite = 300;
    const char* const first = at_;
    take("-");
    const bool is_zero = at_ != end_ && *at_ == '0';
    const std::size_t whole = digits();
    if (whole == 0 || (is_zero && whole > 1)) return false;
    if (take(".") && digits() == 0) return false;
    const bool has_exponent = take("e") || take("E");
    if (has_exponent) {
      if (!take("+")) take("-");
      if (digits() == 0) return false;
    }
    return (!has_exponent && whole < kSurelyFinite) ||
           !std::isinf(std::strtod(std::string(first, at_).c_str(), nullptr));
  }

  const char* at_;
  const char* end_;
  std::size_t values_ = 0;
};

std::string at_line(std::string_view text, std::size_t at) {
  return ", at line " + std::to_string(1 + std::ranges::count(text.substr(0, at), '\n'));
}

}  // namespace

void check_json_bounds(std::string_view text, std::string_view what, std::size_t most_values) {
  const Extent extent = extent_of(text);
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

bool is_json_object(std::string_view text) { return JsonScanner(text).is_object() && is_utf8(text); }

std::string json_error_text(const std::exception& error) {
  const std::string message = error.what();
  const std::size_t end = message.find("] ");
  return end == std::string::npos ? message : message.substr(end + 2);
}

}  // namespace moetune
