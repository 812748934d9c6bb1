// The median of a few timings and how far it can be trusted.
//
// Stateless; thread-safe.
#pragma once

#include <vector>

namespace moetune {

struct MedianInterval {
  double median = 0;
  double low = 0, high = 0;
};

// The median and its 95% confidence interval by order statistics: no assumption about the distribution. Below
// six samples no pair of order statistics reaches 95%, and the interval is the range of the samples, which covers the
// median less often: with five samples in 94% of all cases, with four in 88%, with three in 75%, with two in 50%.
// `samples` must not be empty.
MedianInterval median_interval(std::vector<double> samples);

// The middle one, or the mean of the two in the middle. `values` must not be empty.
double median_of(std::vector<double> values);

}  // namespace moetune
