#include "tuner/worker/validator.h"

#include <cmath>
#include <cstdio>

namespace moetune {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

OutputVerdict wrong(const std::string& name, const std::string& reason) {
  return {false, "output '" + name + "' " + reason};
}

OutputVerdict wrong_mask(const std::string& name, const ErrorFigures& figures) {
  return wrong(name, "is NaN or infinite where the reference is not, or the reverse, in " +
                         std::to_string(figures.mask_mismatches) + " elements, first at " +
                         std::to_string(figures.first_mismatch));
}

OutputVerdict unwritten(const std::string& name, const IntegerFigures& figures) {
  return wrong(name, "has " + std::to_string(figures.unwritten) + " elements that were never written, first at " +
                         std::to_string(figures.first_unwritten));
}

}  // namespace

double ErrorFigures::dissimilarity() const {
  const double squares = sum_xx + sum_yy;
  return squares == 0 ? 0 : 1 - 2 * sum_xy / squares;
}

double summation_error(double terms, double largest) {
  constexpr double kRounding = 0x1p-24;
  return 2 * kRounding * std::sqrt(terms) * largest;
}

OutputVerdict judge(const std::string& name, const ErrorFigures& figures, double baseline_error,
                    const Tolerance& tolerance) {
  if (figures.mask_mismatches > 0) return wrong_mask(name, figures);
  if (figures.sum_yy == 0) {
    return wrong(name, "cannot be validated: its reference is zero everywhere");
  }
  if (figures.sum_xx == 0) return wrong(name, "is zero everywhere");

  const double dissimilarity = figures.dissimilarity();
  // Written so that a NaN fails.
  if (!(dissimilarity <= tolerance.dissimilarity)) {
    return wrong(name, "differs from the reference: dissimilarity " + number(dissimilarity) + ", at most " +
                           number(tolerance.dissimilarity) + " is right; worst element " +
                           std::to_string(figures.worst_index) + " is off by " + number(figures.max_error));
  }
  const double of_sum = summation_error(tolerance.terms, figures.largest);
  const double allowed = tolerance.baseline_factor * baseline_error + of_sum;
  if (!(figures.max_error <= allowed)) {
    return wrong(name, "has an element off by " + number(figures.max_error) + " at " +
                           std::to_string(figures.worst_index) + "; at most " + number(allowed) +
                           " is right (the low-precision baseline's error is " + number(baseline_error) +
                           ", that of a sum of " + number(tolerance.terms) + " terms " + number(of_sum) + ")");
  }
  return {true, "", allowed > 0 ? figures.max_error / allowed : 0};
}

OutputVerdict judge_exact(const std::string& name, const ErrorFigures& figures) {
  if (figures.mask_mismatches > 0) return wrong_mask(name, figures);
  if (!(figures.max_error == 0)) {
    return wrong(name, "differs from the reference, which it should equal: worst element " +
                           std::to_string(figures.worst_index) + " is off by " + number(figures.max_error));
  }
  return {true, ""};
}

OutputVerdict judge_exact(const std::string& name, const IntegerFigures& figures) {
  if (figures.unwritten > 0) return unwritten(name, figures);
  if (figures.mismatches == 0) return {true, ""};
  return wrong(name, "differs from the reference in " + std::to_string(figures.mismatches) + " elements, first at " +
                         std::to_string(figures.first_mismatch) + ": " + std::to_string(figures.actual) +
                         " instead of " + std::to_string(figures.expected));
}

OutputVerdict judge_sets(const std::string& name, const IntegerFigures& elements, const SegmentFigures& segments) {
  if (elements.unwritten > 0) return unwritten(name, elements);
  if (segments.mismatches == 0) return {true, ""};
  return wrong(name, "holds other values than the reference in " + std::to_string(segments.mismatches) +
                         " segments, first in elements " + std::to_string(segments.begin) + " to " +
                         std::to_string(segments.end - 1) + ": " + std::to_string(segments.actual) + " too often, " +
                         std::to_string(segments.expected) + " too seldom");
}

}  // namespace moetune
