// What a model's probability that a search has come within 5% of the best is worth: a logistic regression
// (Platt 1999, Probabilistic Outputs for Support Vector Machines) on it, on how long was searched, on how
// much the times differ, and on how much of that no parameter explains. These say what the model cannot know
// of itself: where configurations differ little, little is left to find, and where they differ for no reason
// that it sees, the best may stand alone.
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

// Of the model's own logit. Held, not fitted: which spaces are hard hides in a fit what the model knows of
// each, and searches that look less cleverly would have it ignored.
inline constexpr double kSampledSlope = 0.1;

extern const Calibration kCalibration;

}  // namespace moetune
