#include "base/duration.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace moetune {
namespace {

struct SpanUnit {
  char letter;
  double seconds;
};

constexpr SpanUnit kSpanUnits[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};

// Below 0 for what is no span.
double seconds_of(std::string_view text) {
  double total = 0;
  const SpanUnit* least = std::begin(kSpanUnits);  // the largest unit that may come next
  for (std::string_view rest = text; !rest.empty();) {
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc() || !std::isfinite(value) || value < 0) return -1;
    const bool is_plain = end == rest.data() + rest.size();
    if (is_plain) return rest.size() == text.size() ? value : -1;  // behind other parts it lacks its unit
    while (least != std::end(kSpanUnits) && least->letter != *end) ++least;
    if (least == std::end(kSpanUnits)) return -1;
    total += value * least++->seconds;
    rest.remove_prefix(static_cast<std::size_t>(end + 1 - rest.data()));
  }
  return text.empty() ? -1 : total;
}

}  // namespace

double parse_duration(const std::string& text, bool may_be_zero) {
  const double seconds = seconds_of(text);
  if (seconds < 0 || (seconds == 0 && !may_be_zero) || seconds > kLongestSpan)
    throw BadInput("takes a span of time, such as " + std::string(kSpanRule) +
                   (may_be_zero ? ", at most a year" : ", above 0 and at most a year") + ", not '" + text + "'");
  return seconds;
}

std::string span_text(double seconds) {
  auto left = static_cast<long long>(std::llround(seconds));
  std::string text;
  for (const auto& [letter, unit] : kSpanUnits) {
    const auto size = static_cast<long long>(unit);
    if (left >= size) text += format("%lld%c", left / size, letter);
    left %= size;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace moetune
