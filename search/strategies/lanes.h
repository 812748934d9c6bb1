// Arithmetic over long rows of floats, several elements at a time: element by element and without fused
// multiplications, so that they are the same on every machine, at any optimization level and lane width.
//
// Stateless; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moetune {

// For one width of lanes.
struct Lanes {
  void (*add_scaled)(float* y, const float* x, float a, std::size_t n);
  void (*subtract_products)(std::span<float* const> y, const std::vector<std::vector<float>>& x,
                            std::span<const std::vector<float>> a, std::size_t at, std::size_t n);
  void (*multiply_by_entries)(float* y, std::span<const float> table, const std::uint16_t* at, std::size_t n);
};

// The functions for every width that this processor has, the widest last.
std::vector<Lanes> all_lanes();

// The functions below use the widest.

// y += a * x
void add_scaled(float* y, const float* x, float a, std::size_t n);

// For each r: y[r][0..n) -= sum over j of a[r][j] * x[j][at..at+n), in the order of j, as many j as a[r] has; all a
// have one length. Several r at once read x once.
void subtract_products(std::span<float* const> y, const std::vector<std::vector<float>>& x,
                       std::span<const std::vector<float>> a, std::size_t at, std::size_t n);

// y[i] *= table[at[i]], every at[i] below the table's size.
void multiply_by_entries(float* y, std::span<const float> table, const std::uint16_t* at, std::size_t n);

}  // namespace moetune
