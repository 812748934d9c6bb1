// Dense symmetric positive definite matrices of a few hundred rows, row-major. Stateless.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace moetune {

// The scalar product of two contiguous runs, in eight sums that a compiler keeps in vector registers. The
// order of additions is fixed, so that results do not depend on how it was compiled.
inline double dot(const double* a, const double* b, std::size_t n) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  }
  double rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + rest;
}

// Replaces the lower triangle of `a` by its Cholesky factor. False where `a` is not positive definite.
inline bool factor_cholesky(std::vector<double>& a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    double* row = &a[i * n];
    for (std::size_t j = 0; j < i; ++j) {
      const double* other = &a[j * n];
      row[j] = (row[j] - dot(row, other, j)) / other[j];
    }
    const double rest = row[i] - dot(row, row, i);
    if (!(rest > 0)) return false;
    row[i] = std::sqrt(rest);
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
      column[i] = -dot(&l[i * n + j], column + j, i - j) / l[i * n + i];
    }
  }
  return inverse;
}

}  // namespace moetune
