// The host's judges: negative controls of every kind of check.
#include "tuner/worker/host_compare.h"

#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "tests/tuner/worker/host_figures.h"

namespace moetune {
namespace {

using namespace testing;

using Bytes = std::vector<std::uint8_t>;

Bytes integers(DType type, const std::vector<std::int64_t>& values) {
  Bytes bytes(values.size() * static_cast<std::size_t>(dtype_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_integer(type, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  return bytes;
}

Bytes floats(DType type, const std::vector<double>& values) {
  Bytes bytes(values.size() * static_cast<std::size_t>(dtype_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(type, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  return bytes;
}

constexpr DType kIntegers[] = {DType::i32, DType::i64, DType::u8};
constexpr std::uint8_t kFirstPoison = 0xFF, kSecondPoison = 0x5A;

std::vector<std::int64_t> ramp(std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

bool right_as_sets(DType type, const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& y,
                   const std::vector<std::int64_t>& ends) {
  const Bytes actual = integers(type, x), expected = integers(type, y);
  return judge_sets("ids", compare_integers_on_host(type, actual, expected),
                    compare_segments_on_host(type, actual, expected, ends))
      .right;
}

}  // namespace

TEST_CASE("one integer off by one is seen in every type, where floats would not tell") {
  for (const DType type : kIntegers) {
    CAPTURE(dtype_name(type));
    const std::int64_t large = type == DType::i64   ? (std::int64_t{1} << 60) + 1
                               : type == DType::i32 ? (1 << 30) + 1
                                                    : 200;
    std::vector<std::int64_t> y(1000, large), x = y;
    CHECK(judge_exact("ids", compare_integers_on_host(type, integers(type, x), integers(type, y))).right);
    x[777] += 1;
    const IntegerFigures figures = compare_integers_on_host(type, integers(type, x), integers(type, y));
    CHECK(figures.mismatches == 1);
    CHECK(figures.first_mismatch == 777);
    CHECK(figures.actual == large + 1);
    CHECK(figures.expected == large);
    CHECK_FALSE(judge_exact("ids", figures).right);
  }
}

TEST_CASE("an element that two runs leave at their poisons was never written; one that holds a poison was") {
  for (const DType type : kIntegers) {
    CAPTURE(dtype_name(type));
    const Bytes first_poison(static_cast<std::size_t>(dtype_bytes(type)), kFirstPoison);
    const Bytes second_poison(static_cast<std::size_t>(dtype_bytes(type)), kSecondPoison);
    const std::int64_t first = load_integer(type, first_poison.data(), 0),
                       second = load_integer(type, second_poison.data(), 0);
    // Right answers that happen to be the poisons, and element 2 is not written.
    const Bytes y = integers(type, {first, second, second, 4});
    const Bytes earlier = integers(type, {first, second, first, 4});
    const Bytes later = integers(type, {first, second, second, 4});
    const IntegerFigures figures =
        compare_integers_on_host(type, later, y, EarlierRun{earlier, kFirstPoison, kSecondPoison});
    CHECK(figures.mismatches == 0);
    CHECK(figures.unwritten == 1);
    CHECK(figures.first_unwritten == 2);
    CHECK_FALSE(judge_exact("ids", figures).right);
    CHECK_FALSE(judge_sets("ids", figures, {}).right);
    CHECK(compare_integers_on_host(type, later, y, EarlierRun{later, kFirstPoison, kSecondPoison}).unwritten == 0);
  }
}

TEST_CASE("a swap inside a segment is right, across segments wrong; so is one that keeps the sum") {
  for (const DType type : kIntegers) {
    CAPTURE(dtype_name(type));
    const std::vector<std::int64_t> y = ramp(12), ends = segment_ends(4, 12);
    std::vector<std::int64_t> x = y;
    std::swap(x[4], x[7]);
    CHECK(right_as_sets(type, x, y, ends));
    std::swap(x[3], x[4]);
    CHECK_FALSE(right_as_sets(type, x, y, ends));
    CHECK_FALSE(right_as_sets(type, {1, 1, 1, 3}, {0, 1, 2, 3}, segment_ends(4, 4)));
    // As many different values, but not as often.
    CHECK_FALSE(right_as_sets(type, {1, 1, 2, 3}, {1, 2, 2, 3}, segment_ends(4, 4)));
  }
}

TEST_CASE("the first wrong segment is named with what it holds too often and too seldom") {
  const std::vector<std::int32_t> offsets = {2, 2, 5};
  const std::vector<std::int64_t> ends = segment_ends(offsets, 8);
  CHECK(ends == std::vector<std::int64_t>{2, 2, 5, 8});
  const Bytes y = integers(DType::i32, {1, 2, 10, 20, 30, 7, 8, 9});
  const Bytes x = integers(DType::i32, {2, 1, 30, 10, 40, 7, 8, 8});
  const SegmentFigures figures = compare_segments_on_host(DType::i32, x, y, ends);
  CHECK(figures.mismatches == 2);
  CHECK(figures.begin == 2);
  CHECK(figures.end == 5);
  CHECK(figures.actual == 40);
  CHECK(figures.expected == 20);
}

TEST_CASE("offsets that do not ascend within the tensor are refused") {
  CHECK_THROWS_AS(segment_ends(std::vector<std::int32_t>{0, 5, 4}, 8), std::logic_error);
  CHECK_THROWS_AS(segment_ends(std::vector<std::int32_t>{0, 9}, 8), std::logic_error);
  CHECK_THROWS_AS(segment_ends(std::vector<std::int32_t>{-1, 8}, 8), std::logic_error);
}

TEST_CASE("one NaN, one element off, two swapped and one not written are seen in floats of every type") {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
    CAPTURE(dtype_name(type));
    const std::vector<double> values = {1, -2, 3, 0.5};
    const Bytes y = floats(DType::f32, values);
    const auto verdict = [&](const Bytes& x) { return judge("y", compare_on_host(type, x, y), 0, {}); };
    CHECK(verdict(floats(type, values)).right);
    CHECK(judge_exact("y", compare_on_host(type, floats(type, values), y)).right);
    std::vector<double> off = values;
    off[2] = 3.25;
    CHECK_FALSE(verdict(floats(type, off)).right);
    CHECK_FALSE(judge_exact("y", compare_on_host(type, floats(type, off), y)).right);
    off[2] = std::numeric_limits<double>::quiet_NaN();
    CHECK_FALSE(verdict(floats(type, off)).right);
    CHECK(compare_on_host(type, floats(type, off), y).first_mismatch == 2);
    std::vector<double> swapped = values;
    std::swap(swapped[0], swapped[3]);
    CHECK_FALSE(verdict(floats(type, swapped)).right);
    CHECK_FALSE(judge_exact("y", compare_on_host(type, floats(type, swapped), y)).right);
    Bytes unwritten = floats(type, values);
    std::fill_n(unwritten.end() - dtype_bytes(type), dtype_bytes(type), kFirstPoison);
    CHECK_FALSE(verdict(unwritten).right);
  }
}

}  // namespace moetune
