#include "tuner/worker/host_compare.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string>

namespace moetune {
namespace {

std::int64_t elements_of(DType type, HostBytes bytes) {
  return static_cast<std::int64_t>(bytes.size()) / dtype_bytes(type);
}

std::int64_t poison_of(DType type, std::uint8_t byte) {
  const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(dtype_bytes(type)), byte);
  return load_integer(type, bytes.data(), 0);
}

std::vector<std::int64_t> sorted_segment(DType type, HostBytes bytes, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = begin; i < end; ++i) values.push_back(load_integer(type, bytes.data(), i));
  std::sort(values.begin(), values.end());
  return values;
}

// The least value of `a` that `b` holds less often; both are sorted, as long, and differ.
std::int64_t surplus(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest.front();
}

}  // namespace

ErrorFigures compare_on_host(DType type, HostBytes x, HostBytes y) {
  ErrorFigures sum{.worst_index = kNoElement, .first_mismatch = kNoElement};
  for (std::int64_t i = 0; i < elements_of(type, x); ++i) {
    const double a = load_element(type, x.data(), i), b = load_element(exact_dtype(type), y.data(), i);
    if (std::isfinite(a) && std::isfinite(b)) {
      if (std::abs(a - b) > sum.max_error) {
        sum.max_error = std::abs(a - b);
        sum.worst_index = static_cast<std::uint64_t>(i);
      }
      sum.largest = std::max(sum.largest, std::abs(b));
      sum.sum_xy += a * b;
      sum.sum_xx += a * a;
      sum.sum_yy += b * b;
    } else if (!(std::isnan(a) && std::isnan(b)) && a != b) {
      if (sum.mask_mismatches++ == 0) sum.first_mismatch = static_cast<std::uint64_t>(i);
    }
  }
  return sum;
}

IntegerFigures compare_integers_on_host(DType type, HostBytes x, HostBytes y,
                                        const std::optional<EarlierRun>& earlier) {
  IntegerFigures figures;
  const std::int64_t poison = earlier ? poison_of(type, earlier->byte) : 0;
  const std::int64_t earlier_poison = earlier ? poison_of(type, earlier->earlier_byte) : 0;
  for (std::int64_t i = 0; i < elements_of(type, x); ++i) {
    const std::int64_t actual = load_integer(type, x.data(), i), expected = load_integer(type, y.data(), i);
    if (actual != expected && figures.mismatches++ == 0) {
      figures.first_mismatch = static_cast<std::uint64_t>(i);
      figures.actual = actual;
      figures.expected = expected;
    }
    if (earlier && actual == poison && load_integer(type, earlier->bytes.data(), i) == earlier_poison) {
      if (figures.unwritten++ == 0) figures.first_unwritten = static_cast<std::uint64_t>(i);
    }
  }
  return figures;
}

std::vector<std::int64_t> segment_ends(std::span<const std::int32_t> offsets, std::int64_t elements) {
  std::vector<std::int64_t> ends;
  std::int64_t before = 0;
  for (const std::int32_t offset : offsets) {
    if (offset < before || offset > elements) {
      throw std::logic_error("a segment begins at " + std::to_string(offset) + ", behind one at " +
                             std::to_string(before) + ", in a tensor of " + std::to_string(elements));
    }
    ends.push_back(before = offset);
  }
  ends.push_back(elements);
  return ends;
}

std::vector<std::int64_t> segment_ends(std::int64_t length, std::int64_t elements) {
  std::vector<std::int64_t> ends;
  for (std::int64_t end = length; end <= elements; end += length) ends.push_back(end);
  return ends;
}

SegmentFigures compare_segments_on_host(DType type, HostBytes x, HostBytes y, std::span<const std::int64_t> ends) {
  SegmentFigures figures;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const auto actual = sorted_segment(type, x, begin, end), expected = sorted_segment(type, y, begin, end);
    if (actual != expected && figures.mismatches++ == 0) {
      figures.begin = static_cast<std::uint64_t>(begin);
      figures.end = static_cast<std::uint64_t>(end);
      figures.actual = surplus(actual, expected);
      figures.expected = surplus(expected, actual);
    }
    begin = end;
  }
  return figures;
}

}  // namespace moetune
