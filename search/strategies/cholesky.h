// Dense symmetric positive definite matrices of a few hundred rows, row-major. Stateless.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace moetune {

// Replaces the lower triangle of `a` by its Cholesky factor. False where `a` is not positive definite.
inline bool factor_cholesky(std::vector<double>& a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    double* row = &a[i * n];
    for (std::size_t j = 0; j <= i; ++j) {
      const double* other = &a[j * n];
      double sum = row[j];
      for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      if (i != j) {
        row[j] = sum / other[j];
      } else if (sum > 0) {
        row[i] = std::sqrt(sum);
      } else {
        return false;
      }
    }
  }
  return true;
}

// The inverse of a lower triangular factor, transposed: row j holds column j of the inverse, from j on.
inline std::vector<double> invert_factor(const std::vector<double>& l, std::size_t n) {
  std::vector<double> inverse(n * n, 0.0);
  for (std::size_t j = 0; j < n; ++j) {
    double* column = &inverse[j * n];
    column[j] = 1 / l[j * n + j];
    for (std::size_t i = j + 1; i < n; ++i) {
      double sum = 0;
      for (std::size_t k = j; k < i; ++k) sum -= l[i * n + k] * column[k];
      column[i] = sum / l[i * n + i];
    }
  }
  return inverse;
}

}  // namespace moetune
