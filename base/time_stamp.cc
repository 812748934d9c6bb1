#include "base/time_stamp.h"

#include <cstdio>

#include "base/format.h"

namespace moetune {

std::optional<UtcSeconds> parse_utc(const std::string& text) {
  using namespace std::chrono;
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0, used = 0;
  if (text.size() != 20) return std::nullopt;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &y, &mo, &d, &h, &mi, &s, &used) != 6 ||
      used != 20)
    return std::nullopt;
  const year_month_day date(year(y), month(static_cast<unsigned>(mo)), day(static_cast<unsigned>(d)));
  if (!date.ok() || h < 0 || h > 23 || mi < 0 || mi > 59 || s < 0 || s > 60) return std::nullopt;
  return sys_days(date) + hours(h) + minutes(mi) + seconds(s);
}

std::string utc_text(UtcSeconds time) {
  using namespace std::chrono;
  const auto days = floor<std::chrono::days>(time);
  const year_month_day date(days);
  const hh_mm_ss<seconds> clock(time - days);
  return format("%04d-%02u-%02uT%02ld:%02ld:%02ldZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<long>(clock.hours().count()), static_cast<long>(clock.minutes().count()),
                static_cast<long>(clock.seconds().count()));
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
