#include "search/confidence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/cholesky.h"
#include "search/strategies/surrogate.h"

namespace moetune {
namespace {

constexpr std::size_t kCandidates = 200;
constexpr int kDraws = 500;
constexpr std::uint64_t kSeed = 0x636f6e66;
const double kFivePercent = std::log(1.05);

constexpr double kGain = 1.1;  // of the sampled gain: more trials learn as they go

constexpr double kMuchGain = 0.15, kMostAtMuchGain = 0.4;

// A floor is measured too: a best that lies so far under it refutes it, and being near it is no proof.
constexpr double kFloorError = 0.02;
constexpr double kSureAtFloor = 0.99;

// Box and Muller's transform.
double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  return radius * std::cos(6.283185307179586 * random.unit());
}

// Pool members that were not tried, the most likely to be better than the best first.
std::vector<std::size_t> promising(const Surrogate& surrogate) {
  std::vector<std::size_t> members;
  std::vector<double> hope(surrogate.pool().size());
  for (std::size_t i = 0; i < hope.size(); ++i) {
    if (surrogate.log().find(surrogate.pool()[i]) != nullptr) continue;
    members.push_back(i);
    hope[i] = (surrogate.best_value() - surrogate.times().mean(i)) /
              std::hypot(surrogate.times().deviation(i), surrogate.times().residual());
  }
  const std::size_t count = std::min(kCandidates, members.size());
  std::partial_sort(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(count), members.end(),
                    [&](std::size_t a, std::size_t b) { return hope[a] != hope[b] ? hope[a] > hope[b] : a < b; });
  members.resize(count);
  return members;
}

std::vector<double> joint_factor(const Posterior& times, const std::vector<std::size_t>& members) {
  const std::size_t n = members.size();
  std::vector<double> matrix(n * n, 0.0);
  const double residual = times.residual() * times.residual();
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < a; ++b) matrix[a * n + b] = times.covariance(members[a], members[b]);
    const double own = times.deviation(members[a]) * times.deviation(members[a]);
    matrix[a * n + a] = own * (1 + 1e-4) + residual + 1e-9;
  }
  if (!factor_cholesky(matrix, n)) {
    // Rounding has made it indefinite: the members by themselves.
    std::fill(matrix.begin(), matrix.end(), 0.0);
    for (std::size_t a = 0; a < n; ++a) matrix[a * n + a] = std::hypot(times.deviation(members[a]), times.residual());
  }
  return matrix;
}

struct Sampled {
  double within = 0;
  double gain = 0;
};

Sampled sample(const Surrogate& surrogate, const std::vector<std::size_t>& members, Random& random) {
  const std::size_t n = members.size();
  const std::vector<double> factor = joint_factor(surrogate.times(), members);
  std::vector<double> noise(n);
  Sampled sum;
  for (int s = 0; s < kDraws; ++s) {
    for (double& x : noise) x = normal(random);
    double largest = 0;  // improvement, as a logarithm
    double reachable = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double value = surrogate.times().mean(members[i]) + dot(&factor[i * n], noise.data(), i + 1);
      if (random.unit() > surrogate.success_probability(members[i])) continue;
      const double improvement = (surrogate.best_value() - value) * surrogate.scale();
      largest = std::max(largest, improvement);
      if (i < kMoreTrials) reachable = std::max(reachable, improvement);
    }
    sum.within += largest <= kFivePercent ? 1.0 / kDraws : 0;
    sum.gain += (1 - std::exp(-reachable)) / kDraws;
  }
  return sum;
}

// A search that expects much of more trials is likelier not to be near the best.
double consistent(double probability, double gain) {
  return gain > kMuchGain ? std::min(probability, kMostAtMuchGain) : probability;
}

// Maps the model's probability to what recorded searches showed it to be worth: a logistic regression (Platt 1999,
// Probabilistic Outputs for Support Vector Machines) on it, the number of trials, the residual and the spread of the
// times' logarithms, each held to the range that those searches cover. The last two say what the model cannot know of
// itself: if configurations differ little, little is left to find; if they differ for no reason that it sees, the best
// may be isolated. The first slope was fixed, not fitted: a fit over spaces of different difficulty hides what the
// model knows of each (docs/measurements/2026-11-22.md).
double calibrated(double sampled, double trials, double residual, double spread) {
  sampled = std::clamp(sampled, 0.001, 0.999);
  double logit = 1.048;
  logit += 0.1 * std::log(sampled / (1 - sampled));
  logit += 1.410 * std::log(std::clamp(trials, 20.0, 140.0) / 60);
  logit += -0.491 * std::log(std::clamp(residual, 0.0005, 0.3) / 0.01);
  logit += -0.653 * std::log(std::clamp(spread, 0.02, 0.8) / 0.2);
  return 1 / (1 + std::exp(-logit));
}

Confidence assess_with_model(Surrogate& surrogate) {
  Random random(kSeed);
  if (!surrogate.usable()) return {};
  surrogate.refit(random);
  const std::vector<std::size_t> members = promising(surrogate);
  if (members.empty()) return {};
  const Sampled sampled = sample(surrogate, members, random);
  const double probability = calibrated(sampled.within, static_cast<double>(surrogate.log().size()),
                                        surrogate.times().residual() * surrogate.scale(), surrogate.scale());
  return {.known = true,
          .within_5_percent = consistent(probability, kGain * sampled.gain),
          .expected_gain = kGain * sampled.gain};
}

// Limits every gain to the distance between the best and the floor.
void limit_gain_by_floor(Confidence& confidence, double best_us, double floor_us) {
  if (!(floor_us > 0) || !(best_us >= (1 - kFloorError) * floor_us)) return;
  const double left = std::max(0.0, 1 - floor_us / best_us);
  confidence.at_floor = best_us <= 1.05 * floor_us;
  if (confidence.at_floor) {
    confidence.within_5_percent = std::max(confidence.within_5_percent, kSureAtFloor);
    if (!confidence.known) confidence.expected_gain = left;
    confidence.known = true;
  }
  confidence.expected_gain = std::min(confidence.expected_gain, left);
}

}  // namespace

Confidence assess(const LegalSpace& space, std::span<const Observation> trials, double floor_us) {
  Surrogate surrogate(space);
  for (const Observation& trial : trials) surrogate.tell(trial);
  if (surrogate.log().successes() > 0 && surrogate.log().size() >= space.size())
    return {.known = true, .within_5_percent = 1};
  Confidence confidence = assess_with_model(surrogate);
  if (surrogate.log().successes() > 0) limit_gain_by_floor(confidence, surrogate.log().best_time(), floor_us);
  return confidence;
}

}  // namespace moetune
