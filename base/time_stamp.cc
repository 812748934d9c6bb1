#include "base/time_stamp.h"

#include <algorithm>
#include <string_view>

#include "base/format.h"

namespace moetune {

std::optional<UtcSeconds> parse_utc(const std::string& text) {
  using namespace std::chrono;
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  const auto is_as = [](char c, char form) { return form == 'd' ? c >= '0' && c <= '9' : c == form; };
  if (!std::ranges::equal(text, kForm, is_as)) return std::nullopt;
  const auto number = [&](std::size_t begin, std::size_t end) {
    unsigned value = 0;
    for (std::size_t i = begin; i < end; ++i) value = 10 * value + static_cast<unsigned>(text[i] - '0');
    return value;
  };
  const year_month_day date(year(static_cast<int>(number(0, 4))), month(number(5, 7)), day(number(8, 10)));
  const unsigned h = number(11, 13), mi = number(14, 16), s = number(17, 19);
  if (!date.ok() || h > 23 || mi > 59 || s > 60) return std::nullopt;
  return sys_days(date) + hours(h) + minutes(mi) + seconds(s);
}

std::string utc_text(UtcSeconds time) {
  using namespace std::chrono;
  const auto days = floor<std::chrono::days>(time);
  const year_month_day date(days);
  const hh_mm_ss<seconds> clock(time - days);
  return format("%04d-%02u-%02uT%02ld:%02ld:%02ldZ", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<long>(clock.hours().count()),
                static_cast<long>(clock.minutes().count()), static_cast<long>(clock.seconds().count()));
}

std::string age_text(const std::string& stored_at, UtcSeconds now) {
  const std::optional<UtcSeconds> then = parse_utc(stored_at);
  if (!then) return "-";
  const long long seconds = (now - *then).count();
  if (seconds < 60) return "now";
  if (seconds < 3600) return format("%lld min", seconds / 60);
  if (seconds < 48 * 3600) return format("%lld h", seconds / 3600);
  if (seconds < 730LL * 86400) return format("%lld d", seconds / 86400);
  return format("%lld y", seconds / (365LL * 86400));
}

}  // namespace moetune
