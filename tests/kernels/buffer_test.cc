#include "kernels/buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "tests/kernels/answers/host_values.h"

using moetune::Buffer;
using moetune::DType;
using moetune::Fill;
using moetune::fill_stream;
using moetune::generate_element;
using moetune::host_values;
using moetune::OutputCheck;
using moetune::Role;
using moetune::round_to;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments(Fill::Kind kind, float scale, std::uint64_t stream) {
  constexpr int kCount = 200'000;
  double sum = 0, squares = 0, largest = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = generate_element(kind, scale, 7, stream, static_cast<std::uint64_t>(i));
    sum += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  const double mean = sum / kCount;
  return {mean, std::sqrt(squares / kCount - mean * mean), largest};
}

Buffer input(DType type, std::int64_t elements, Fill fill) {
  return {.name = "x", .dtype = type, .elements = elements, .role = moetune::Role::input, .fill = std::move(fill)};
}

}  // namespace

TEST_CASE("element types have sizes and names that read back") {
  CHECK(moetune::dtype_bytes(DType::f32) == 4);
  CHECK(moetune::dtype_bytes(DType::bf16) == 2);
  CHECK(moetune::dtype_bytes(DType::e4m3) == 1);
  CHECK(moetune::dtype_bytes(DType::i64) == 8);
  CHECK(moetune::dtype_bytes(DType::u8) == 1);
  CHECK(moetune::is_integer(DType::u8));
  CHECK_FALSE(moetune::is_integer(DType::e4m3));
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::i32, DType::i64, DType::u8}) {
    CHECK(moetune::dtype_from_name(moetune::dtype_name(type)) == type);
  }
  CHECK_THROWS_WITH_AS(moetune::dtype_from_name("bf61"), doctest::Contains("did you mean 'bf16'"), moetune::BadInput);
}

TEST_CASE("a normal fill has the mean and deviation it was asked for, a uniform one its half-width") {
  const Moments normal = moments(Fill::Kind::normal, 0.5f, 3);
  CHECK(normal.mean == doctest::Approx(0).epsilon(0.01));
  CHECK(normal.deviation == doctest::Approx(0.5).epsilon(0.01));
  CHECK(normal.largest < 0.5 * std::sqrt(12.0) + 1e-6);
  const Moments uniform = moments(Fill::Kind::uniform, 2.0f, 3);
  CHECK(uniform.mean == doctest::Approx(0).epsilon(0.02));
  CHECK(uniform.deviation == doctest::Approx(2 / std::sqrt(3.0)).epsilon(0.01));
  CHECK(uniform.largest < 2.0);
  CHECK(uniform.largest > 1.99);
}

TEST_CASE("the generator is the documented one") {
  // The first output of SplitMix64 from state 0 is the published 0xE220A8397B1DCDAF.
  const auto mix = [](std::uint64_t x) {
    std::uint64_t z = x + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  };
  REQUIRE(mix(0) == 0xE220A8397B1DCDAFu);
  const std::uint64_t word = mix(mix(mix(11) + 5) + 42);
  const int lanes = static_cast<int>((word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) + (word >> 48));
  const float normal = generate_element(Fill::Kind::normal, 1.0f, 11, 5, 42);
  CHECK(normal == static_cast<float>(lanes - 131070) * 0x1.bb67aep-16f);
  const float uniform = generate_element(Fill::Kind::uniform, 1.0f, 11, 5, 42);
  CHECK(uniform == static_cast<float>(2 * static_cast<int>(word >> 40) + 1 - (1 << 24)) * 0x1p-24f);
  const float step = generate_element(Fill::Kind::steps, 0.25f, 11, 5, 42);
  CHECK(step == static_cast<float>(2 * static_cast<int>(word >> 60) - 15) * 0.25f);
  double squares = 0;  // of a deviation of 1
  constexpr int kDrawn = 100'000;
  for (int i = 0; i < kDrawn; ++i) {
    const double drawn = generate_element(Fill::Kind::normal, 1.0f, 11, 5, static_cast<std::uint64_t>(i));
    squares += drawn * drawn;
  }
  CHECK(squares / kDrawn == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("seeds, buffers, copies and elements are told apart, and equal ones are equal") {
  const auto at = [](std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    return generate_element(Fill::Kind::uniform, 1.0f, seed, stream, index);
  };
  CHECK(at(1, 2, 3) == at(1, 2, 3));
  CHECK(at(1, 2, 3) != at(2, 2, 3));
  CHECK(at(1, 2, 3) != at(1, 3, 3));
  CHECK(at(1, 2, 3) != at(1, 2, 4));
  CHECK(fill_stream(0, 1) != fill_stream(1, 0));
}

TEST_CASE("rounding goes to the nearest value, ties to even") {
  CHECK(round_to(DType::bf16, 1 + 0x1p-8) == 1);               // halfway: down to even
  CHECK(round_to(DType::bf16, 1 + 3 * 0x1p-8) == 1 + 0x1p-6);  // halfway: up to even
  CHECK(round_to(DType::bf16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
  CHECK(round_to(DType::f16, 2049) == 2048);
  CHECK(round_to(DType::f16, 2051) == 2052);
  CHECK(round_to(DType::e4m3, 17) == 16);
  CHECK(round_to(DType::e4m3, 19) == 20);
  CHECK(round_to(DType::f32, 16777217) == 16777216);
  CHECK(round_to(DType::i32, 2.5) == 2);
  CHECK(round_to(DType::i32, -3.5) == -4);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
    CHECK(round_to(type, -1.5) == -1.5);
    CHECK(round_to(type, 0.0) == 0.0);
    CHECK(std::isnan(round_to(type, kNaN)));
  }
}

TEST_CASE("rounding knows subnormals and both ends of each type") {
  CHECK(round_to(DType::f16, 0x1p-24) == 0x1p-24);
  CHECK(round_to(DType::f16, 0x1p-25) == 0);  // halfway to the smallest subnormal
  CHECK(round_to(DType::f16, 0x1.8p-25) == 0x1p-24);
  CHECK(round_to(DType::f16, 65519) == 65504);
  CHECK(round_to(DType::f16, 65520) == kInfinity);
  CHECK(round_to(DType::e4m3, 0x1p-9) == 0x1p-9);
  CHECK(round_to(DType::e4m3, 0x1p-10) == 0);
  CHECK(round_to(DType::e4m3, 1000) == 448);
  CHECK(round_to(DType::e4m3, -kInfinity) == -448);
  CHECK(round_to(DType::bf16, 0x1.FFp127) == kInfinity);
  CHECK(round_to(DType::f32, 1e300) == kInfinity);
  CHECK(round_to(DType::i32, 1e300) == 2147483647);
  CHECK(round_to(DType::i32, kNaN) == 0);
  CHECK(round_to(DType::u8, -3) == 0);
  CHECK(round_to(DType::u8, 1000) == 255);
  CHECK(round_to(DType::i64, 1e300) == 0x1p63);
}

TEST_CASE("a value rounded to f32 is the compiler's float") {
  for (int i = 0; i < 10'000; ++i) {
    const double value = std::ldexp(generate_element(Fill::Kind::uniform, 1, 1, 1, i), i % 200 - 130) * (1 + 1e-9);
    CHECK(round_to(DType::f32, value) == static_cast<float>(value));
  }
}

TEST_CASE("host values are the generator's, rounded, with poison on top") {
  const Buffer buffer = input(DType::bf16, 16, {Fill::Kind::normal, 0.25f, {}, {{2, 3}, {15, 1}}});
  const std::vector<double> values = host_values(buffer, 9, 4);
  REQUIRE(values.size() == 16);
  for (std::size_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    const bool poisoned = (i >= 2 && i < 5) || i == 15;
    CHECK(std::isnan(values[i]) == poisoned);
    if (!poisoned) CHECK(values[i] == round_to(DType::bf16, generate_element(Fill::Kind::normal, 0.25f, 9, 4, i)));
  }
}

TEST_CASE("zeros and integers stand as they are") {
  CHECK(host_values(input(DType::f32, 3, {}), 1, 1) == std::vector<double>{0, 0, 0});
  const Fill integers = {Fill::Kind::integers, 1, {-2147483647, 0, 2147483647}, {}};
  CHECK(host_values(input(DType::i32, 3, integers), 1, 1) == std::vector<double>{-2147483647, 0, 2147483647});
  const Fill small = {Fill::Kind::integers, 1, {-3, 0, 16777216}, {}};
  CHECK(host_values(input(DType::f32, 3, small), 1, 1) == std::vector<double>{-3, 0, 16777216});
}

TEST_CASE("a fill that does not fit its buffer is a mistake of the kernel's author") {
  CHECK_THROWS_AS(host_values(input(DType::i32, 2, {Fill::Kind::integers, 1, {1}, {}}), 1, 1), std::logic_error);
  CHECK_THROWS_AS(host_values(input(DType::f32, 2, {Fill::Kind::zeros, 1, {}, {{1, 2}}}), 1, 1), std::logic_error);
  CHECK_THROWS_AS(host_values(input(DType::f32, 2, {Fill::Kind::zeros, 1, {}, {{-1, 1}}}), 1, 1), std::logic_error);
}

TEST_CASE("every element of every type is loaded as it was stored") {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
    std::vector<std::uint8_t> bytes(3 * moetune::dtype_bytes(type));
    for (int exponent = -160; exponent < 130; ++exponent) {
      for (const double factor : {1.0, 1.3, -1.9}) {
        const double value = round_to(type, std::ldexp(factor, exponent));
        moetune::store_element(type, bytes.data(), 1, value);
        CHECK(moetune::load_element(type, bytes.data(), 1) == value);
      }
    }
    moetune::store_element(type, bytes.data(), 2, kNaN);
    CHECK(std::isnan(moetune::widened(type, bytes)[2]));
    CHECK(moetune::widened(type, bytes)[0] == 0);
  }
  // Known encodings.
  std::vector<std::uint8_t> bytes(2);
  moetune::store_element(DType::f16, bytes.data(), 0, 1.0);
  CHECK(bytes == std::vector<std::uint8_t>{0x00, 0x3C});
  moetune::store_element(DType::bf16, bytes.data(), 0, -2.0);
  CHECK(bytes == std::vector<std::uint8_t>{0x00, 0xC0});
  moetune::store_element(DType::e4m3, bytes.data(), 0, 448);
  CHECK(bytes[0] == 0x7E);
  std::vector<std::uint8_t> wide(16);
  moetune::store_integer(DType::i64, wide.data(), 1, (std::int64_t{1} << 60) + 1);
  CHECK(moetune::load_integer(DType::i64, wide.data(), 1) == (std::int64_t{1} << 60) + 1);
  moetune::store_integer(DType::i32, wide.data(), 0, -7);
  CHECK(moetune::load_element(DType::i32, wide.data(), 0) == -7);
}

TEST_CASE("a permutation holds every integer once, and another one for another seed or stream") {
  for (const std::int64_t elements : {1, 2, 3, 17, 256, 1000, 65537}) {
    CAPTURE(elements);
    const Buffer ids = input(DType::i32, elements, {.kind = Fill::Kind::permutation});
    std::vector<double> values = host_values(ids, 3, 4);
    if (elements > 16) {
      CHECK(values != host_values(ids, 4, 4));
      CHECK(values != host_values(ids, 3, 5));
    }
    if (elements > 16) CHECK_FALSE(std::is_sorted(values.begin(), values.end()));
    std::sort(values.begin(), values.end());
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == static_cast<double>(i));
  }
}

TEST_CASE("Zipf draws follow their law") {
  constexpr int kDraws = 200'000;
  const Buffer draws = input(DType::i32, kDraws, {.kind = Fill::Kind::zipf, .scale = 1.2f, .values = 64});
  std::vector<double> seen(64);
  for (const double value : host_values(draws, 3, 4)) {
    REQUIRE(value >= 0);
    REQUIRE(value < 64);
    seen[static_cast<std::size_t>(value)] += 1;
  }
  double sum = 0;
  for (int k = 1; k <= 64; ++k) sum += std::pow(k, -1.2);
  for (const int k : {0, 1, 5, 63}) {
    CAPTURE(k);
    const double expected = kDraws * std::pow(k + 1, -1.2) / sum;
    CHECK(std::abs(seen[static_cast<std::size_t>(k)] - expected) < 5 * std::sqrt(expected));
  }
  // An exponent of 0 is an even draw.
  CHECK(moetune::zipf_thresholds(4, 0) == std::vector<std::uint64_t>{1ull << 62, 2ull << 62, 3ull << 62, ~0ull});
}

TEST_CASE("columns are shifted draws, rounded to the type before and after") {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Buffer plain = input(type, 600, {.kind = Fill::Kind::normal, .scale = 0.5f});
    const Buffer shifted = input(type, 600, {.kind = Fill::Kind::columns, .scale = 0.5f, .shifts = {0, 100, -7}});
    const std::vector<double> drawn = host_values(plain, 3, 4), moved = host_values(shifted, 3, 4);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const float sum = static_cast<float>(drawn[i]) + std::vector<float>{0, 100, -7}[i % 3];
      REQUIRE(moved[i] == moetune::round_to(type, sum));
    }
  }
}

TEST_CASE("constants, and integers poisoned with their largest value") {
  CHECK(host_values(input(DType::u8, 2, {.kind = Fill::Kind::constant, .scale = 300}), 1, 1) ==
        std::vector<double>{255, 255});
  CHECK(host_values(input(DType::i32, 2, {.poison = {{1, 1}}}), 1, 1) == std::vector<double>{0, 2147483647});
}

TEST_CASE("in other orders each sequence keeps its rows, and offsets follow the same order") {
  constexpr std::int64_t kSequences = 7;
  const std::vector<std::int32_t> lengths = {5, 0, 12, 1, 7, 30, 2};
  std::vector<std::int32_t> rows, sums = {0};
  for (const std::int32_t length : lengths) {
    rows.insert(rows.end(), {length, 100 + length});
    sums.push_back(sums.back() + length);
  }
  Buffer table = input(DType::i32, 14, {.kind = Fill::Kind::integers, .integers = rows});
  table.sequences = kSequences;
  Buffer offsets = input(DType::i32, 8, {.kind = Fill::Kind::integers, .integers = sums});
  offsets.sequences = kSequences;
  offsets.offsets = true;
  CHECK_NOTHROW(moetune::check_buffers({table, offsets}));
  CHECK(moetune::integers_in_order(table, 0) == rows);
  CHECK(moetune::integers_in_order(offsets, 0) == sums);
  std::set<std::vector<std::int32_t>> orders;
  for (std::int64_t order = 0; order < moetune::kSequenceOrders; ++order) {
    const std::vector<std::int32_t> moved = moetune::integers_in_order(table, order);
    const std::vector<std::int32_t> moved_sums = moetune::integers_in_order(offsets, order);
    REQUIRE(moved.size() == rows.size());
    REQUIRE(moved_sums.size() == sums.size());
    std::vector<std::int32_t> seen;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      CHECK(moved[2 * i + 1] == 100 + moved[2 * i]);
      CHECK(moved_sums[i + 1] - moved_sums[i] == moved[2 * i]);
      seen.push_back(moved[2 * i]);
    }
    CHECK(std::ranges::is_permutation(seen, lengths));
    orders.insert(moved);
  }
  CHECK(orders.size() == 16);
}

TEST_CASE("few sequences take first and last places evenly over the orders") {
  for (std::int32_t count = 1; count <= 5; ++count) {
    CAPTURE(count);
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    Buffer rows = input(DType::i32, count, {.kind = Fill::Kind::integers, .integers = numbers});
    rows.sequences = count;
    std::map<std::int32_t, int> first, last;
    for (std::int64_t order = 0; order < moetune::kSequenceOrders; ++order) {
      const std::vector<std::int32_t> moved = moetune::integers_in_order(rows, order);
      ++first[moved.front()];
      ++last[moved.back()];
    }
    for (const auto& counts : {first, last}) {
      CHECK(counts.size() == numbers.size());
      for (const auto& [number, times] : counts) CHECK(std::abs(times - 16.0 / count) <= 2);
    }
  }
}

TEST_CASE("buffers that contradict themselves are refused, each for its own rule") {
  const auto refused = [](std::vector<Buffer> buffers, const char* why) {
    CHECK_THROWS_WITH_AS(moetune::check_buffers(buffers), doctest::Contains(why), std::logic_error);
  };
  Buffer ids{.name = "ids", .dtype = DType::i32, .elements = 12, .role = Role::output};
  refused({ids}, "within a tolerance");
  ids.check = OutputCheck::exact();
  CHECK_NOTHROW(moetune::check_buffers({ids}));
  ids.check = OutputCheck::sets_of(5);
  refused({ids}, "whole number of segments");
  ids.check = OutputCheck::sets_of(4);
  CHECK_NOTHROW(moetune::check_buffers({ids}));
  ids.check = OutputCheck::sets_between("offsets");
  refused({ids}, "no list of i32 offsets");
  Buffer offsets{.name = "offsets", .dtype = DType::i32, .elements = 4, .role = Role::output};
  offsets.check = OutputCheck::sets_of(4);
  refused({ids, offsets}, "not checked exactly");
  offsets.check = OutputCheck::exact();
  CHECK_NOTHROW(moetune::check_buffers({ids, offsets}));
  Buffer floats{.name = "y", .elements = 12, .role = Role::output};
  floats.check = OutputCheck::sets_of(4);
  refused({floats}, "no integers");
  refused({input(DType::u8, 300, {.kind = Fill::Kind::permutation})}, "that u8 cannot");
  refused({input(DType::i32, 3, {.kind = Fill::Kind::zipf})}, "draws from no values");
  refused({input(DType::f32, 3, {.kind = Fill::Kind::columns})}, "columns without shifts");
  refused({input(DType::i32, 3, {.kind = Fill::Kind::columns, .shifts = {1}})}, "columns of integers");
  refused({input(DType::f32, 3, {.kind = Fill::Kind::arrays})}, "arrays without contents");
  const auto content = std::make_shared<const std::vector<std::uint8_t>>(11);
  refused({input(DType::f32, 3, {.kind = Fill::Kind::arrays, .contents = {content}})}, "its fill 11");
  refused({input(DType::u8, 11, {.kind = Fill::Kind::normal, .contents = {content}})}, "contents without arrays");
  CHECK_NOTHROW(moetune::check_buffers({input(DType::u8, 11, {.kind = Fill::Kind::arrays, .contents = {content}})}));
  Buffer rows = input(DType::i32, 3, {.kind = Fill::Kind::integers, .integers = {0, 2, 3}});
  for (const std::int64_t sequences : {std::int64_t{2}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    rows.sequences = sequences;
    refused({rows}, "no input of whole rows of integers");
  }
  rows.offsets = true;
  refused({rows}, "no input of whole rows of integers");
  rows.sequences = 2;
  CHECK_NOTHROW(moetune::check_buffers({rows}));
  for (const std::vector<std::int32_t>& bad : {std::vector{1, 2, 3}, std::vector{0, 3, 2}}) {
    rows.fill.integers = bad;
    refused({rows}, "do not ascend from 0");
  }
  rows.fill.integers = {0, 2, 3};
  rows.rotates = true;
  refused({rows}, "for 2 sequences");
  Buffer zeros = input(DType::i32, 4, {});
  zeros.sequences = 2;
  refused({zeros}, "for 2 sequences");
  Buffer written{.name = "y", .dtype = DType::i32, .elements = 4, .role = Role::output};
  written.check = OutputCheck::exact();
  written.sequences = 2;
  refused({written}, "for 2 sequences");
}
