#include "report/trial_series.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/stored_time.h"
#include "search/outcome.h"

namespace moetune {
namespace {

// A finite number of seconds that a trial may have taken.
double seconds(const nlohmann::json& facts, const char* name) {
  constexpr double kMost = 1e6;
  return std::min(time_field(facts, name), kMost);
}

bool is_timed(const ShownTrial& trial) { return trial.time_us > 0; }

// The positions to keep, in order.
std::vector<std::size_t> chosen(const std::vector<ShownTrial>& all, const std::vector<BestSoFar>& best,
                                std::size_t most) {
  std::vector<bool> keep(all.size(), false);
  std::size_t kept = 0;
  const auto take = [&](std::size_t at) {
    if (keep[at] || kept == most) return;
    keep[at] = true;
    ++kept;
  };
  for (const BestSoFar& point : best) take(point.number - 1);
  std::vector<std::size_t> fastest(all.size());
  std::iota(fastest.begin(), fastest.end(), std::size_t{0});
  std::erase_if(fastest, [&](std::size_t at) { return !is_timed(all[at]); });
  const std::size_t few = std::min(fastest.size(), most / 4);
  std::partial_sort(fastest.begin(), fastest.begin() + static_cast<std::ptrdiff_t>(few), fastest.end(),
                    [&](std::size_t a, std::size_t b) { return all[a].time_us < all[b].time_us; });
  for (std::size_t i = 0; i < few; ++i) take(fastest[i]);
  for (const std::size_t at : evenly_spaced(all.size(), most - std::min(kept, most))) take(at);
  std::vector<std::size_t> positions;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (keep[at]) positions.push_back(at);
  }
  return positions;
}

}  // namespace

std::vector<std::size_t> evenly_spaced(std::size_t count, std::size_t most) {
  std::vector<std::size_t> positions;
  if (count == 0 || most == 0) return positions;
  const std::size_t taken = std::min(count, most);
  for (std::size_t i = 0; i < taken; ++i) positions.push_back(taken == 1 ? 0 : i * (count - 1) / (taken - 1));
  return positions;
}

TrialSeries series_of(const std::vector<TrialRecord>& trials, std::size_t most, bool with_seconds) {
  TrialSeries series{.total = trials.size()};
  std::vector<ShownTrial> all;
  all.reserve(trials.size());
  for (const TrialRecord& record : trials) {
    if (with_seconds) {
      const nlohmann::json facts = parse_json_or_discard(record.facts);
      series.device_s += seconds(facts, "validate_s") + seconds(facts, "measure_s");
      series.compile_s += seconds(facts, "compile_s");
    }
    const std::optional<Outcome> outcome = outcome_from_name(record.outcome);
    const bool timed = outcome && has_time(*outcome) && is_stored_time(record.time_us);
    all.push_back({.number = all.size() + 1,
                   .config = record.config,
                   .outcome = record.outcome,
                   .time_us = timed ? record.time_us : 0,
                   .low_us = timed ? record.interval_low_us : 0,
                   .high_us = timed ? record.interval_high_us : 0,
                   .device_s = series.device_s,
                   .contended = record.contended});
    const bool better = series.best.empty() || record.time_us < series.best.back().time_us;
    if (timed && *outcome == Outcome::ok && better)
      series.best.push_back({all.size(), series.device_s, record.time_us});
  }
  if (series.best.size() > most) {
    std::vector<BestSoFar> fewer;
    for (const std::size_t at : evenly_spaced(series.best.size(), most)) fewer.push_back(series.best[at]);
    series.best = std::move(fewer);
  }
  for (const std::size_t at : chosen(all, series.best, most)) series.shown.push_back(std::move(all[at]));
  if (!series.best.empty() && series.best.back().number != trials.size())
    series.best.push_back({trials.size(), series.device_s, series.best.back().time_us});
  return series;
}

}  // namespace moetune
