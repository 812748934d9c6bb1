#include "report/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace moetune {
namespace {

constexpr double kNormal95 = 1.959964;

// The standard error of the logarithm of a time; nullopt if the record has no interval around it.
std::optional<double> standard_error(const Entry& entry) {
  const bool sound = entry.low_us > 0 && entry.low_us <= entry.time_us && entry.high_us >= entry.time_us &&
                     std::isfinite(entry.high_us);
  if (!sound || entry.contended) return std::nullopt;
  const double sampling = std::log(entry.high_us / entry.low_us) / (2 * kNormal95);
  return std::hypot(sampling, kDrift);
}

ComparedPair pair_of(const Entry& a, const Entry& b) {
  ComparedPair pair{.a = a, .b = b, .ratio = a.time_us / b.time_us};
  const std::optional<double> of_a = standard_error(a), of_b = standard_error(b);
  if (!of_a || !of_b) return pair;
  const double z = std::log(pair.ratio) / std::hypot(*of_a, *of_b);
  pair.p = std::erfc(std::abs(z) / std::sqrt(2.0));
  pair.verdict = Verdict::same;
  return pair;
}

// Benjamini and Hochberg: the k smallest p are significant, for the largest k with p(k) <= k/n of the rate.
void judge(Comparison& comparison) {
  std::vector<std::size_t> order;
  double sum = 0;
  for (std::size_t i = 0; i < comparison.pairs.size(); ++i) {
    sum += std::log(comparison.pairs[i].ratio);
    if (comparison.pairs[i].verdict != Verdict::unsure) order.push_back(i);
  }
  if (!comparison.pairs.empty()) comparison.mean_ratio = std::exp(sum / static_cast<double>(comparison.pairs.size()));
  std::ranges::sort(order, [&](std::size_t i, std::size_t j) { return comparison.pairs[i].p < comparison.pairs[j].p; });
  std::size_t significant = 0;
  for (std::size_t k = 1; k <= order.size(); ++k) {
    const double limit = kFalseAlarms * static_cast<double>(k) / static_cast<double>(order.size());
    if (comparison.pairs[order[k - 1]].p <= limit) significant = k;
  }
  for (std::size_t k = 0; k < significant; ++k) {
    ComparedPair& pair = comparison.pairs[order[k]];
    if (std::abs(std::log(pair.ratio)) < std::log1p(kLeastDifference)) continue;
    pair.verdict = pair.ratio > 1 ? Verdict::faster : Verdict::slower;
  }
}

using Key = std::tuple<std::string, std::string, Timing, std::string>;

Key key_of(const Entry& entry, bool across_hardware) {
  return {entry.kernel, entry.problem, entry.timing, across_hardware ? "" : entry.hardware};
}

bool has_time(const Entry& entry) { return std::isfinite(entry.time_us) && entry.time_us > 0; }

std::map<Key, Entry> latest(const std::vector<Entry>& entries, bool across_hardware) {
  std::map<Key, Entry> by_key;
  for (const Entry& entry : entries) {
    if (!has_time(entry)) continue;
    const auto [found, fresh] = by_key.try_emplace(key_of(entry, across_hardware), entry);
    if (!fresh && found->second.stored_at < entry.stored_at) found->second = entry;
  }
  return by_key;
}

}  // namespace

std::size_t Comparison::count(Verdict verdict) const {
  return static_cast<std::size_t>(
      std::count_if(pairs.begin(), pairs.end(), [&](const ComparedPair& pair) { return pair.verdict == verdict; }));
}

Comparison compare_entries(const std::vector<Entry>& a, const std::vector<Entry>& b, bool across_hardware) {
  const std::map<Key, Entry> left = latest(a, across_hardware);
  std::map<Key, Entry> right = latest(b, across_hardware);
  Comparison comparison;
  for (const auto& [key, entry] : left) {
    const auto other = right.find(key);
    if (other == right.end()) {
      comparison.only_a.push_back(entry);
      continue;
    }
    comparison.pairs.push_back(pair_of(entry, other->second));
    right.erase(other);
  }
  for (auto& [key, entry] : right) comparison.only_b.push_back(std::move(entry));
  judge(comparison);
  return comparison;
}

Comparison compare_searches(const Entry& a, const Entry& b) {
  Comparison comparison;
  if (has_time(a) && has_time(b)) comparison.pairs.push_back(pair_of(a, b));
  judge(comparison);
  return comparison;
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::same:
      return "same";
    case Verdict::unsure:
      break;
  }
  return "unsure";
}

}  // namespace moetune
