#include "bench/search_bench_calibration.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/cholesky.h"

namespace moetune::bench {
namespace {

constexpr std::size_t kTerms = kFeatures;  // a constant in the place of the held one
constexpr std::size_t kFirstOfTimes = 2;   // residual and spread
constexpr double kRidge = 10;              // inverse variance that a standardized slope is expected to have
constexpr int kSteps = 50;
constexpr double kSettled = 1e-9;

using Row = std::array<double, kTerms>;

struct Design {
  std::vector<Row> rows;
  Row mean{}, deviation{};
};

// A constant, then the terms with mean zero and deviation one.
Design standardized(const std::vector<LabeledSample>& samples, bool by_times) {
  Design design;
  double all = 0;
  for (const LabeledSample& sample : samples) {
    const std::array<double, kFeatures> own = terms(sample.features);
    Row& row = design.rows.emplace_back(Row{1});
    for (std::size_t i = 1; i < kTerms; ++i) row[i] = own[i];
    if (!by_times) std::fill(row.begin() + kFirstOfTimes, row.end(), 0.0);
    for (std::size_t i = 1; i < kTerms; ++i) design.mean[i] += row[i];
    ++all;
  }
  for (std::size_t i = 1; i < kTerms; ++i) design.mean[i] /= all;
  for (const Row& row : design.rows) {
    for (std::size_t i = 1; i < kTerms; ++i)
      design.deviation[i] += (row[i] - design.mean[i]) * (row[i] - design.mean[i]) / all;
  }
  for (std::size_t i = 1; i < kTerms; ++i) design.deviation[i] = std::sqrt(design.deviation[i]) + 1e-9;
  for (Row& row : design.rows) {
    for (std::size_t i = 1; i < kTerms; ++i) row[i] = (row[i] - design.mean[i]) / design.deviation[i];
  }
  return design;
}

}  // namespace

Calibration fit_calibration(const std::vector<LabeledSample>& samples, bool by_times) {
  const Design design = standardized(samples, by_times);
  double weights = 0;
  for (const LabeledSample& sample : samples) weights += sample.weight;
  Row slopes{};
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> curvature(kTerms * kTerms, 0);
    Row gradient{};
    for (std::size_t i = 1; i < kTerms; ++i) {
      gradient[i] = kRidge * slopes[i];
      curvature[i * kTerms + i] = kRidge;
    }
    for (std::size_t s = 0; s < samples.size(); ++s) {
      const Row& row = design.rows[s];
      double logit = kSampledSlope * terms(samples[s].features)[0];
      for (std::size_t i = 0; i < kTerms; ++i) logit += slopes[i] * row[i];
      const double stated = 1 / (1 + std::exp(-logit));
      const double weight = samples[s].weight * static_cast<double>(samples.size()) / weights;
      for (std::size_t i = 0; i < kTerms; ++i) {
        gradient[i] += weight * (stated - (samples[s].right ? 1 : 0)) * row[i];
        for (std::size_t j = 0; j <= i; ++j)
          curvature[i * kTerms + j] += weight * stated * (1 - stated) * row[i] * row[j];
      }
    }
    curvature[0] += 1e-9;
    factor_cholesky(curvature, kTerms);
    const std::vector<double> change = solve_factored(curvature, {gradient.begin(), gradient.end()});
    double largest = 0;
    for (std::size_t i = 0; i < kTerms; ++i) {
      slopes[i] -= change[i];
      largest = std::max(largest, std::abs(change[i]));
    }
    if (largest < kSettled) break;
  }
  Calibration fitted{.offset = slopes[0], .slopes = {kSampledSlope}};
  for (std::size_t i = 1; i < kTerms; ++i) {
    if (i >= kFirstOfTimes && !by_times) continue;
    fitted.slopes[i] = slopes[i] / design.deviation[i];
    fitted.offset -= fitted.slopes[i] * design.mean[i];
  }
  return fitted;
}

}  // namespace moetune::bench
