// Calibrates a model's probability that a search has come within 5% of the best: a logistic regression (Platt 1999,
// Probabilistic Outputs for Support Vector Machines) on that probability, on the number of trials, on how much the
// times differ, and on how much of that no parameter explains. The last two say what the model cannot know of itself.
// If configurations differ little, little is left to find; if they differ for no reason that it sees, the best may be
// isolated.
//
// Plain values; stateless. Fitted by `search_bench --confidence --refit` (docs/search.md).
#pragma once

#include <array>
#include <cstddef>

namespace moetune {

struct ConfidenceFeatures {
  double sampled = 0;   // probability by the model alone
  double trials = 0;    // told
  double residual = 0;  // standard deviation, of the logarithm of a time, that no parameter explains
  double spread = 0;    // standard deviation of the logarithms of the times
};

// The terms of the regression: each by itself, in the order that ConfidenceFeatures names them, held to the range that
// recorded searches cover.
inline constexpr std::size_t kFeatures = 4;
std::array<double, kFeatures> terms(const ConfidenceFeatures& features);

struct Calibration {
  double offset = 0;
  std::array<double, kFeatures> slopes{};

  double probability(const ConfidenceFeatures& features) const;
};

// The slope of the model's own logit, fixed and not fitted. A fit over spaces of different difficulty hides what the
// model knows of each, and would learn from less careful searches to ignore it.
inline constexpr double kSampledSlope = 0.1;

extern const Calibration kCalibration;

}  // namespace moetune
