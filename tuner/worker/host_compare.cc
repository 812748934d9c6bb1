#include "tuner/worker/host_compare.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

namespace moetune {
namespace {

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
