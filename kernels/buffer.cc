#include "kernels/buffer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "kernels/shuffle.h"

namespace moetune {
namespace {

[[noreturn]] void refuse(const Buffer& buffer, const std::string& why) {
  throw std::logic_error("buffer " + buffer.name + " " + why);
}

// The largest integer that the type holds without rounding.
double largest_integer(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f64:  // which is filled through f32
      return 0x1p24;
    case DType::f16:
      return 0x1p11;
    case DType::bf16:
      return 0x1p8;
    case DType::e4m3:
      return 0x1p4;
    default:
      return round_to(type, std::numeric_limits<double>::infinity());
  }
}

void check_fill(const Buffer& buffer) {
  const Fill& fill = buffer.fill;
  if (fill.kind == Fill::Kind::integers && fill.integers.size() != static_cast<std::size_t>(buffer.elements)) {
    refuse(buffer,
           "has " + std::to_string(buffer.elements) + " elements, its fill " + std::to_string(fill.integers.size()));
  }
  if (fill.kind == Fill::Kind::zipf && fill.values < 1) refuse(buffer, "draws from no values");
  const bool counts = fill.kind == Fill::Kind::zipf || fill.kind == Fill::Kind::permutation;
  const std::int64_t values = fill.kind == Fill::Kind::zipf ? fill.values : buffer.elements;
  if (counts && static_cast<double>(values - 1) > largest_integer(buffer.dtype))
    refuse(buffer, "holds integers that " + std::string(dtype_name(buffer.dtype)) + " cannot");
  if ((fill.kind == Fill::Kind::columns) == fill.shifts.empty())
    refuse(buffer, "has shifts without columns, or columns without shifts");
  const bool is_wide = is_integer(buffer.dtype) && buffer.dtype != DType::u8;  // shifts are added in f32
  if (!fill.shifts.empty() && is_wide) refuse(buffer, "shifts columns of integers");
  if ((fill.kind == Fill::Kind::arrays) == fill.contents.empty())
    refuse(buffer, "has contents without arrays, or arrays without contents");
  for (const auto& content : fill.contents)
    if (static_cast<std::int64_t>(content->size()) != buffer.bytes())
      refuse(buffer, "has " + std::to_string(buffer.bytes()) + " bytes, its fill " + std::to_string(content->size()));
  for (const Range& range : fill.poison) {
    if (range.begin < 0 || range.count < 0 || range.begin > buffer.elements - range.count)
      refuse(buffer, "is poisoned past its end");
  }
}

void check_sequences(const Buffer& buffer) {
  if (buffer.sequences == 0 && !buffer.offsets) return;
  const std::vector<std::int32_t>& integers = buffer.fill.integers;
  const bool is_list =
      buffer.role == Role::input && buffer.fill.kind == Fill::Kind::integers && buffer.elements > 0 && !buffer.rotates;
  const bool is_whole = buffer.offsets ? buffer.elements - 1 == buffer.sequences
                                       : buffer.sequences > 0 && buffer.elements % buffer.sequences == 0;
  if (!is_list || !is_whole)
    refuse(buffer, "is no input of whole rows of integers for " + std::to_string(buffer.sequences) + " sequences");
  if (buffer.offsets && (integers.front() != 0 || !std::ranges::is_sorted(integers)))
    refuse(buffer, "holds offsets that do not ascend from 0");
}

// The place that each of `count` sequences has before, by its place in the order.
std::vector<std::size_t> sequence_order(std::size_t count, std::int64_t order) {
  std::vector<std::size_t> places(count);
  std::iota(places.begin(), places.end(), std::size_t{0});
  constexpr std::size_t kFew = 5;  // whose orders are so few that drawn ones would be unbalanced
  if (count <= kFew) {
    std::int64_t all = 1;
    for (std::size_t i = 2; i <= count; ++i) all *= static_cast<std::int64_t>(i);
    const std::int64_t steps = all < kSequenceOrders ? order % all : order * all / kSequenceOrders;
    for (std::int64_t i = 0; i < steps; ++i) std::ranges::next_permutation(places);
  } else if (order > 0) {
    std::mt19937_64 random(static_cast<std::uint64_t>(order));
    shuffle(places, random);
  }
  return places;
}

void check_output(const Buffer& buffer, const std::vector<Buffer>& all) {
  const OutputCheck& check = buffer.check;
  const bool integer = is_integer(buffer.dtype);
  if (check.kind == OutputCheck::Kind::tolerance && integer)
    refuse(buffer, "holds integers: they are checked exactly or as sets, not within a tolerance");
  if (check.kind != OutputCheck::Kind::set_per_segment) return;
  if (!integer) refuse(buffer, "holds no integers and cannot be checked as sets");
  if (check.segments.empty()) {
    if (check.segment_length < 1 || buffer.elements % check.segment_length != 0)
      refuse(buffer, "is not a whole number of segments of " + std::to_string(check.segment_length));
    return;
  }
  const auto offsets =
      std::find_if(all.begin(), all.end(), [&](const Buffer& other) { return other.name == check.segments; });
  if (offsets == all.end() || offsets->dtype != DType::i32 || offsets->elements < 2)
    refuse(buffer, "has its segments in '" + check.segments + "', which is no list of i32 offsets");
  if (offsets->is_written() && offsets->check.kind != OutputCheck::Kind::exact)
    refuse(buffer, "has its segments in '" + check.segments + "', an output that is not checked exactly");
}

}  // namespace

void check_buffers(const std::vector<Buffer>& buffers) {
  for (const Buffer& buffer : buffers) {
    if (buffer.is_read()) check_fill(buffer);
    check_sequences(buffer);
    if (buffer.is_written()) check_output(buffer, buffers);
  }
}

std::vector<std::uint64_t> zipf_thresholds(std::int64_t values, double exponent) {
  std::vector<double> cumulative(static_cast<std::size_t>(values));
  double sum = 0;
  for (std::size_t k = 0; k < cumulative.size(); ++k)
    cumulative[k] = sum += std::pow(static_cast<double>(k + 1), -exponent);
  std::vector<std::uint64_t> thresholds;
  thresholds.reserve(cumulative.size());
  for (const double weight : cumulative) {
    const double scaled = std::ldexp(weight / sum, 64);
    thresholds.push_back(scaled < 0x1p64 ? static_cast<std::uint64_t>(scaled) : ~std::uint64_t{0});
  }
  return thresholds;
}

std::vector<std::int32_t> integers_in_order(const Buffer& buffer, std::int64_t order) {
  const std::vector<std::int32_t>& given = buffer.fill.integers;
  if (buffer.sequences == 0) return given;
  const auto count = static_cast<std::size_t>(buffer.sequences);
  const std::size_t row = given.size() / count;
  std::vector<std::int32_t> ordered;
  if (buffer.offsets) ordered.push_back(0);
  for (const std::size_t from : sequence_order(count, order)) {
    if (buffer.offsets) {
      ordered.push_back(ordered.back() + given[from + 1] - given[from]);
      continue;
    }
    const auto begin = given.begin() + static_cast<std::ptrdiff_t>(from * row);
    ordered.insert(ordered.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
  }
  return ordered;
}

}  // namespace moetune
