#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moetune {
namespace {

// How many samples to leave out at either end: the most for which P(median within) >= 95%, with the number of
// samples below the median binomial(n, 1/2).
std::size_t trimmed(std::size_t n) {
  // The binomial's first terms are too small for a double from about 1000 samples on; with a continuity correction the
  // normal distribution is exact enough long before.
  constexpr std::size_t kNormal = 500;
  const double samples = static_cast<double>(n);
  if (n > kNormal) return static_cast<std::size_t>((samples - 1) / 2 - 0.98 * std::sqrt(samples));
  double term = std::exp2(-static_cast<double>(n));  // P(exactly k below), from k = 0
  double tail = 0;
  std::size_t k = 0;
  for (; k < n / 2; ++k) {
    tail += term;
    if (tail > 0.025) break;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return k > 0 ? k - 1 : 0;
}

}  // namespace

MedianInterval median_interval(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  const std::size_t cut = trimmed(n);
  return {(samples[(n - 1) / 2] + samples[n / 2]) / 2, samples[cut], samples[n - 1 - cut]};
}

double median_of(std::vector<double> values) { return median_interval(std::move(values)).median; }

}  // namespace moetune
