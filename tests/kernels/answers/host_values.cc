#include "tests/kernels/answers/host_values.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace moetune {
namespace {

constexpr std::uint64_t kFeistelRounds = 4;

std::uint64_t split_mix(std::uint64_t state) {
  std::uint64_t z = state + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::uint64_t base_of(std::uint64_t seed, std::uint64_t stream) { return split_mix(split_mix(seed) + stream); }

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
      case Fill::Kind::arrays:
        return load_element(dtype_, fill_.contents[seed_ % fill_.contents.size()]->data(),
                            static_cast<std::int64_t>(index));
      case Fill::Kind::normal:
      case Fill::Kind::uniform:
      case Fill::Kind::steps:
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

float generate_element(Fill::Kind kind, float scale, std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
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
  if (kind == Fill::Kind::steps) return static_cast<float>(2 * static_cast<std::int32_t>(word >> 60) - 15) * scale;
  return 0;
}

std::int64_t zipf_element(std::span<const std::uint64_t> thresholds, std::uint64_t seed, std::uint64_t stream,
                          std::uint64_t index) {
  const std::uint64_t word = split_mix(base_of(seed, stream) + index);
  const auto above = std::upper_bound(thresholds.begin(), thresholds.end() - 1, word);
  return above - thresholds.begin();
}

std::int64_t permuted_element(std::int64_t elements, std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
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

std::vector<double> host_values(const Buffer& buffer, std::uint64_t seed, std::uint64_t stream) {
  check_buffers({buffer});
  std::vector<double> numbers(static_cast<std::size_t>(buffer.elements));
  const Values values(buffer, seed, stream);
  // Through f32, as on the device: an integer past 2^24 rounds to it first on its way to a narrower float.
  const bool floating = !is_integer(buffer.dtype), narrow = floating && buffer.fill.kind != Fill::Kind::arrays;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double value = values.at(i);
    numbers[i] = round_to(buffer.dtype, narrow ? static_cast<float>(value) : value);
  }
  const double poison = floating ? std::numeric_limits<double>::quiet_NaN()
                                 : round_to(buffer.dtype, std::numeric_limits<double>::infinity());
  for (const Range& range : buffer.fill.poison) std::fill_n(numbers.begin() + range.begin, range.count, poison);
  return numbers;
}

}  // namespace moetune
