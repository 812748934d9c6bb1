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

Verdict wrong(const std::string& name, const std::string& reason) {
  return {false, "output '" + name + "' " + reason};
}

}  // namespace

double ErrorFigures::dissimilarity() const {
  const double squares = sum_xx + sum_yy;
  return squares == 0 ? 0 : 1 - 2 * sum_xy / squares;
}

Verdict judge(const std::string& name, DType type, const ErrorFigures& figures, double baseline_error,
              const Tolerance& tolerance) {
  if (figures.mask_mismatches > 0) {
    return wrong(name, "is NaN or infinite where the reference is not, or the reverse, in " +
                           std::to_string(figures.mask_mismatches) + " elements, first at " +
                           std::to_string(figures.first_mismatch));
  }
  if (type != DType::i32 && figures.sum_yy == 0) {
    return wrong(name, "cannot be validated: its reference is zero everywhere");
  }
  if (type != DType::i32 && figures.sum_xx == 0) return wrong(name, "is zero everywhere");

  const double dissimilarity = figures.dissimilarity();
  // Written so that a NaN fails.
  if (!(dissimilarity <= tolerance.dissimilarity)) {
    return wrong(name, "differs from the reference: dissimilarity " + number(dissimilarity) + ", at most " +
                           number(tolerance.dissimilarity) + " is right; worst element " +
                           std::to_string(figures.worst_index) + " is off by " + number(figures.max_error));
  }
  const double allowed = tolerance.baseline_factor * baseline_error + tolerance.absolute_floor;
  if (!(figures.max_error <= allowed)) {
    return wrong(name, "has an element off by " + number(figures.max_error) + " at " +
                           std::to_string(figures.worst_index) + "; at most " + number(allowed) +
                           " is right (the low-precision baseline's error is " + number(baseline_error) +
                           ")");
  }
  return {true, ""};
}

}  // namespace moetune
