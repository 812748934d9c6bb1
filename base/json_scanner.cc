#include "base/json_scanner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "base/utf8.h"

namespace moetune {
namespace {

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
  bool count() { return ++values_ <= kMaxJsonValues; }  // as json_extent() does

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

}  // namespace

JsonExtent json_extent(std::string_view text) {
  JsonExtent extent;
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

bool is_json_object(std::string_view text) { return JsonScanner(text).is_object() && is_utf8(text); }

}  // namespace moetune
