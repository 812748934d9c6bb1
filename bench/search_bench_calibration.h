// Fits the map from a model's probability to one that holds (search/calibration.h). Stateless.
#pragma once

#include <vector>

#include "search/calibration.h"

namespace moetune::bench {

struct LabeledSample {
  ConfidenceFeatures features;
  bool right = false;
  double weight = 1;
};

// The maximum a posteriori of a logistic regression on the standardized terms, by Newton's method; the slope
// of the model's own logit is kSampledSlope. Weights are scaled to one a sample on average. Without
// `by_times` the slopes of residual and spread stay 0.
Calibration fit_calibration(const std::vector<LabeledSample>& samples, bool by_times = true);

}  // namespace moetune::bench
