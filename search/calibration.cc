#include "search/calibration.h"

#include <algorithm>
#include <cmath>

namespace moetune {
namespace {

constexpr double kLeastSampled = 0.001;
constexpr double kFewestTrials = 20, kMostTrials = 140;
constexpr double kLeastResidual = 0.0005, kMostResidual = 0.3;
constexpr double kLeastSpread = 0.02, kMostSpread = 0.8;

}  // namespace

const Calibration kCalibration{1.048, {kSampledSlope, 1.410, -0.491, -0.653}};

std::array<double, kSigns> terms(const Signs& signs) {
  const double sampled = std::clamp(signs.sampled, kLeastSampled, 1 - kLeastSampled);
  return {std::log(sampled / (1 - sampled)),
          std::log(std::clamp(signs.trials, kFewestTrials, kMostTrials) / 60),
          std::log(std::clamp(signs.residual, kLeastResidual, kMostResidual) / 0.01),
          std::log(std::clamp(signs.spread, kLeastSpread, kMostSpread) / 0.2)};
}

double Calibration::probability(const Signs& signs) const {
  double logit = offset;
  for (std::size_t i = 0; i < kSigns; ++i) logit += slopes[i] * terms(signs)[i];
  return 1 / (1 + std::exp(-logit));
}

}  // namespace moetune
