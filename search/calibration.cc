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

std::array<double, kFeatures> terms(const ConfidenceFeatures& features) {
  const double sampled = std::clamp(features.sampled, kLeastSampled, 1 - kLeastSampled);
  return {std::log(sampled / (1 - sampled)),
          std::log(std::clamp(features.trials, kFewestTrials, kMostTrials) / 60),
          std::log(std::clamp(features.residual, kLeastResidual, kMostResidual) / 0.01),
          std::log(std::clamp(features.spread, kLeastSpread, kMostSpread) / 0.2)};
}

double Calibration::probability(const ConfidenceFeatures& features) const {
  double logit = offset;
  for (std::size_t i = 0; i < kFeatures; ++i) logit += slopes[i] * terms(features)[i];
  return 1 / (1 + std::exp(-logit));
}

}  // namespace moetune
