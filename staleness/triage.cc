#include "staleness/triage.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/statistics.h"

namespace moetune {
namespace {

// Between the noise of a single old measurement (1.5%) and a loss worth a search.
constexpr double kAlarm = 0.05;
// Another is faster by more than the noise between two medians.
constexpr double kBeaten = 0.02;
// The others have moved apart by so much (median deviation of the logarithms): another order than before.
constexpr double kScattered = 0.06;
constexpr std::size_t kFewest = 3;  // others, to compare with

bool is_timed(const Probed& probed) { return probed.now.outcome == Outcome::ok && probed.then_us > 0; }

double drift_of(const Probed& probed) {  // logarithm
  return std::log(probed.now.measurement.median_us / probed.then_us);
}

// How much faster the fastest other is, if that is more than noise; else 0.
double beaten_by(const ProbeReading& reading) {
  const Measurement& winner = reading.winner.now.measurement;
  double most = 0;
  for (const Probed& other : reading.others) {
    const Measurement& time = other.now.measurement;
    if (other.now.outcome == Outcome::ok && time.high_us < winner.low_us)
      most = std::max(most, winner.median_us / time.median_us - 1);
  }
  return most;
}

}  // namespace

std::string_view remedy_name(Remedy remedy) {
  static constexpr std::string_view kNames[] = {"keep", "patch", "full"};
  return kNames[static_cast<std::size_t>(remedy)];
}

Triage triage(const ProbeReading& reading) {
  if (reading.winner.now.outcome != Outcome::ok) {
    return {Remedy::full, 1,
            "the stored winner no longer runs: " + std::string(outcome_name(reading.winner.now.outcome)) + " " +
                reading.winner.now.message};
  }
  std::vector<double> drifts;
  for (const Probed& other : reading.others)
    if (is_timed(other)) drifts.push_back(drift_of(other));
  const double beaten = beaten_by(reading);
  if (drifts.size() < kFewest || reading.winner.then_us <= 0) {
    if (beaten > kBeaten)
      return {Remedy::patch, beaten, format("another configuration is %.1f%% faster", beaten * 100)};
    return {Remedy::full, 0, "too little is known of the old trials to compare with"};
  }
  const double common = median_of(drifts);
  std::vector<double> apart;
  for (const double drift : drifts) apart.push_back(std::abs(drift - common));
  const double scatter = median_of(apart);
  const double lost = std::exp(drift_of(reading.winner) - common) - 1;
  if (scatter > kScattered)
    return {Remedy::full, lost, format("the times of the others moved apart by %.1f%%", scatter * 100)};
  if (lost > kAlarm) return {Remedy::patch, lost, format("the winner is %.1f%% slower beside the others", lost * 100)};
  if (beaten > kBeaten) return {Remedy::patch, beaten, format("another configuration is %.1f%% faster", beaten * 100)};
  return {Remedy::keep, lost, format("the winner moved by %+.1f%% beside the others", lost * 100)};
}

}  // namespace moetune
