// Dense symmetric positive definite matrices of up to a few thousand rows, row-major. Stateless.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace moetune {

// The scalar product of two contiguous runs, in eight sums that stay in vector registers. The order of the
// additions is fixed: the same result on every machine, at any optimization level.
inline double dot(const double* a, const double* b, std::size_t n) {
  using Lane = double __attribute__((vector_size(16)));
  const auto load = [](const double* from) {
    Lane lane;
    std::memcpy(&lane, from, sizeof lane);
    return lane;
  };
  Lane sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    sum0 += load(a + i) * load(b + i);
    sum1 += load(a + i + 2) * load(b + i + 2);
    sum2 += load(a + i + 4) * load(b + i + 4);
    sum3 += load(a + i + 6) * load(b + i + 6);
  }
  double rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  const Lane sum = (sum0 + sum1) + (sum2 + sum3);
  return sum[0] + sum[1] + rest;
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
