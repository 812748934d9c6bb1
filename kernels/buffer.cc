#include "kernels/buffer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "kernels/shuffle.h"

namespace moetune {
namespace {

constexpr std::uint64_t kFeistelRounds = 4;

std::uint64_t split_mix(std::uint64_t state) {
  std::uint64_t z = state + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::uint64_t base_of(std::uint64_t seed, std::uint64_t stream) {
  return split_mix(split_mix(seed) + stream);
}

[[noreturn]] void refuse(const Buffer& buffer, const std::string& why) {
  throw std::logic_error("buffer " + buffer.name + " " + why);
}

// The largest integer that the type holds without rounding.
double largest_integer(DType type) {
  switch (type) {
    case DType::f32:
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
  if (fill.kind == Fill::Kind::integers &&
      fill.integers.size() != static_cast<std::size_t>(buffer.elements)) {
    refuse(buffer, "has " + std::to_string(buffer.elements) + " elements, its fill " +
                       std::to_string(fill.integers.size()));
  }
  if (fill.kind == Fill::Kind::zipf && fill.values < 1) refuse(buffer, "draws from no values");
  const bool counts = fill.kind == Fill::Kind::zipf || fill.kind == Fill::Kind::permutation;
  const std::int64_t values = fill.kind == Fill::Kind::zipf ? fill.values : buffer.elements;
  if (counts && static_cast<double>(values - 1) > largest_integer(buffer.dtype))
    refuse(buffer, "holds integers that " + std::string(dtype_name(buffer.dtype)) + " cannot");
  if ((fill.kind == Fill::Kind::columns) == fill.shifts.empty())
    refuse(buffer, "has shifts without columns, or columns without shifts");
  if (!fill.shifts.empty() && is_integer(buffer.dtype)) refuse(buffer, "shifts columns of integers");
  for (const Range& range : fill.poison) {
    if (range.begin < 0 || range.count < 0 || range.begin > buffer.elements - range.count)
      refuse(buffer, "is poisoned past its end");
  }
}

void check_sequences(const Buffer& buffer) {
  if (buffer.sequences == 0 && !buffer.offsets) return;
  const std::vector<std::int32_t>& integers = buffer.fill.integers;
  const bool is_list = buffer.role == Role::input && buffer.fill.kind == Fill::Kind::integers &&
                       buffer.elements > 0 && !buffer.rotates;
  const bool is_whole = buffer.offsets ? buffer.elements - 1 == buffer.sequences
                                       : buffer.sequences > 0 && buffer.elements % buffer.sequences == 0;
  if (!is_list || !is_whole)
    refuse(buffer,
           "is no input of whole rows of integers for " + std::to_string(buffer.sequences) + " sequences");
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

// Before rounding to the buffer's type.
class Values {
 public:
  Values(const Buffer& buffer, std::uint64_t seed, std::uint64_t stream)
      : fill_(buffer.fill), dtype_(buffer.dtype), elements_(buffer.elements), seed_(seed), stream_(stream) {
    if (fill_.kind == Fill::Kind::zipf) thresholds_ = zipf_thresholds(fill_.values, fill_.scale);
  }

  double at(std::uint64_t index) const {
    switch (fill_.kind) {
      case Fill::Kind::zeros:
        return 0;
      case Fill::Kind::constant:
        return fill_.scale;
      case Fill::Kind::integers:
        return fill_.integers[index];
      case Fill::Kind::zipf:
        return static_cast<double>(zipf_element(thresholds_, seed_, stream_, index));
      case Fill::Kind::permutation:
        return static_cast<double>(permuted_element(elements_, seed_, stream_, index));
      case Fill::Kind::columns:
        return shifted(index);
      case Fill::Kind::normal:
      case Fill::Kind::uniform:
        break;
    }
    return generate_element(fill_.kind, fill_.scale, seed_, stream_, index);
  }

 private:
  double shifted(std::uint64_t index) const {
    const float drawn = generate_element(Fill::Kind::normal, fill_.scale, seed_, stream_, index);
    const auto rounded = static_cast<float>(round_to(dtype_, drawn));
    return rounded + fill_.shifts[index % fill_.shifts.size()];
  }

  const Fill& fill_;
  DType dtype_;
  std::int64_t elements_;
  std::uint64_t seed_, stream_;
  std::vector<std::uint64_t> thresholds_;
};

}  // namespace

void check_buffers(const std::vector<Buffer>& buffers) {
  for (const Buffer& buffer : buffers) {
    if (buffer.is_read()) check_fill(buffer);
    check_sequences(buffer);
    if (buffer.is_written()) check_output(buffer, buffers);
  }
}

float generate_element(Fill::Kind kind, float scale, std::uint64_t seed, std::uint64_t stream,
                       std::uint64_t index) {
  const std::uint64_t word = split_mix(base_of(seed, stream) + index);
  if (kind == Fill::Kind::normal) {
    const auto lane = [&](int i) { return static_cast<std::int32_t>((word >> (16 * i)) & 0xFFFF); };
    const std::int32_t centred = lane(0) + lane(1) + lane(2) + lane(3) - 2 * 65535;
    constexpr float kInverseDeviation = 0x1.bb67aep-16f;  // 1 / sqrt(4 * (65536^2 - 1) / 12)
    return static_cast<float>(centred) * (scale * kInverseDeviation);
  }
  if (kind == Fill::Kind::uniform) {
    const std::int32_t odd = 2 * static_cast<std::int32_t>(word >> 40) + 1 - (1 << 24);  // exact in a float
    return static_cast<float>(odd) * (scale * 0x1p-24f);
  }
  return 0;
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

std::int64_t zipf_element(std::span<const std::uint64_t> thresholds, std::uint64_t seed, std::uint64_t stream,
                          std::uint64_t index) {
  const std::uint64_t word = split_mix(base_of(seed, stream) + index);
  const auto above = std::upper_bound(thresholds.begin(), thresholds.end() - 1, word);
  return above - thresholds.begin();
}

std::int64_t permuted_element(std::int64_t elements, std::uint64_t seed, std::uint64_t stream,
                              std::uint64_t index) {
  const auto count = static_cast<std::uint64_t>(elements);
  const std::uint64_t key = base_of(seed, stream);
  const int half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (std::uint64_t round = 0; round < kFeistelRounds; ++round) {
      const std::uint64_t mixed = left ^ (split_mix(key + (round << 32 | right)) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= count);
  return static_cast<std::int64_t>(index);
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

std::vector<double> host_values(const Buffer& buffer, std::uint64_t seed, std::uint64_t stream) {
  check_fill(buffer);
  std::vector<double> numbers(static_cast<std::size_t>(buffer.elements));
  const Values values(buffer, seed, stream);
  // Through f32, as on the device: an integer past 2^24 rounds to it first on its way to a narrower float.
  const bool floating = !is_integer(buffer.dtype);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double value = values.at(i);
    numbers[i] = round_to(buffer.dtype, floating ? static_cast<float>(value) : value);
  }
  const double poison = floating ? std::numeric_limits<double>::quiet_NaN()
                                 : round_to(buffer.dtype, std::numeric_limits<double>::infinity());
  for (const Range& range : buffer.fill.poison)
    std::fill_n(numbers.begin() + range.begin, range.count, poison);
  return numbers;
}

}  // namespace moetune
