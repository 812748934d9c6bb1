#include "base/duration.h"

#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"

namespace moetune {

double parse_duration(const std::string& text) {
  static const std::map<std::string, double, std::less<>> units = {
      {"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = units.find(std::string_view(end, text.data() + text.size()));
  const bool fits = error == std::errc() && unit != units.end() && std::isfinite(value) && value > 0;
  const double seconds = fits ? value * unit->second : 0;
  if (seconds <= 0 || seconds > 366.0 * 86400)
    throw BadInput("must be a span of time of at most a year, such as 90s, 30m, 2h or 7d (got '" + text +
                   "')");
  return seconds;
}

}  // namespace moetune
