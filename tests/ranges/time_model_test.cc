#include "ranges/time_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moetune;

namespace {

constexpr double kSms = 132;
const std::vector<int> kSplits = {1, 2, 3, 4, 6, 8, 12, 16};

double waves_of(double batch, int splits) { return batch * splits / kSms; }

// Waves of blocks that share the work of a batch, and a price for each part.
double time_of(double batch, double length, int splits) {
  const double waves = std::ceil(waves_of(batch, splits));
  return 2 + waves * (length / splits / 500 + 0.4) + 0.05 * splits;
}

std::vector<TimeModel::Config> configs() {
  std::vector<TimeModel::Config> configs;
  for (const int splits : kSplits) configs.push_back({0, {std::log2(splits)}, {}});
  return configs;
}

TimeModel::Point measured(double batch, double length) {
  TimeModel::Point point{{std::log2(batch), std::log2(length)}, {}};
  for (std::size_t i = 0; i < kSplits.size(); ++i)
    point.times.push_back({{i, waves_of(batch, kSplits[i])}, time_of(batch, length, kSplits[i])});
  return point;
}

std::size_t fastest(double batch, double length) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < kSplits.size(); ++i) {
    if (time_of(batch, length, kSplits[i]) < time_of(batch, length, kSplits[best])) best = i;
  }
  return best;
}

}  // namespace

TEST_CASE("between points the model's first choice loses less than the nearest point's") {
  std::vector<TimeModel::Point> points;
  std::vector<std::pair<double, double>> places;
  for (double batch = 4; batch <= 512; batch *= 2) {
    for (double length = 1024; length <= 16384; length *= 4) {
      points.push_back(measured(batch, length));
      places.emplace_back(batch, length);
    }
  }
  const TimeModel model(configs(), points);
  double of_model = 0, of_nearest = 0;
  int shapes = 0;
  for (double batch = 5; batch < 500; batch = std::ceil(batch * 1.17)) {
    for (const double length : {1500.0, 3000.0, 6000.0, 12000.0}) {
      const auto away = [&](const std::pair<double, double>& place) {
        return std::abs(std::log2(place.first / batch)) + std::abs(std::log2(place.second / length));
      };
      const auto near = *std::ranges::min_element(places, {}, away);
      std::vector<TimeModel::Launched> launches;
      for (std::size_t i = 0; i < kSplits.size(); ++i) launches.push_back({i, waves_of(batch, kSplits[i])});
      const std::vector<double> expected = model.expect({std::log2(batch), std::log2(length)}, launches);
      const auto first = static_cast<std::size_t>(std::ranges::min_element(expected) - expected.begin());
      const double best = time_of(batch, length, kSplits[fastest(batch, length)]);
      of_model += time_of(batch, length, kSplits[first]) / best - 1;
      of_nearest += time_of(batch, length, kSplits[fastest(near.first, near.second)]) / best - 1;
      ++shapes;
    }
  }
  CAPTURE(of_model / shapes);
  CAPTURE(of_nearest / shapes);
  CHECK(of_model < 0.6 * of_nearest);
  CHECK(of_model / shapes < 0.05);
}

TEST_CASE("what a point's times share is no matter, and equal measurements expect equal times") {
  std::vector<TimeModel::Point> points = {measured(8, 1024), measured(16, 1024), measured(32, 2048)};
  const std::vector<TimeModel::Launched> asked = {{0, 0.1}, {3, 0.4}, {7, 1.6}};
  const std::vector<double> position = {3.5, 10.2};
  const std::vector<double> expected = TimeModel(configs(), points).expect(position, asked);
  for (TimeModel::Timed& one : points[1].times) one.time_us *= 7;
  const std::vector<double> scaled = TimeModel(configs(), points).expect(position, asked);
  for (std::size_t i = 0; i < asked.size(); ++i)
    CHECK(scaled[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  CHECK(TimeModel(configs(), points).expect(position, asked) == scaled);
}

TEST_CASE("of too many times the slowest are left out") {
  std::vector<TimeModel::Point> points;
  for (int i = 0; i < 400; ++i) points.push_back(measured(4 + i, 1024 + 8 * i));  // 3200 times
  const TimeModel model(configs(), points);
  const std::size_t best = fastest(40, 1312);
  std::vector<TimeModel::Launched> launches;
  for (std::size_t i = 0; i < kSplits.size(); ++i) launches.push_back({i, waves_of(40, kSplits[i])});
  const std::vector<double> expected = model.expect({std::log2(40), std::log2(1312)}, launches);
  const auto first = static_cast<std::size_t>(std::ranges::min_element(expected) - expected.begin());
  CHECK(time_of(40, 1312, kSplits[first]) <= 1.01 * time_of(40, 1312, kSplits[best]));
}

TEST_CASE("far from all points the mean alone says what is faster") {
  const std::vector<TimeModel::Point> points = {measured(8, 1024), measured(16, 1024), measured(32, 2048)};
  const std::vector<double> expected =
      TimeModel(configs(), points)
          .expect({300, 300}, std::vector<TimeModel::Launched>{{0, 1, 17}, {3, 2, 15}});
  CHECK(expected[0] - expected[1] == doctest::Approx(2));
}

TEST_CASE("times that go with the mean are expected to do so elsewhere") {
  std::vector<TimeModel::Point> points = {measured(8, 1024), measured(16, 1024)};
  for (TimeModel::Point& point : points) {
    for (TimeModel::Timed& one : point.times) {
      one.launched.mean = 12 + 0.01 * static_cast<double>((3 * one.launched.config) % 8);
      one.time_us = std::exp(one.launched.mean);
    }
  }
  const std::vector<TimeModel::Launched> asked = {{0, 0.1, 20}, {3, 0.4, 20.2}, {7, 1.6, 20.5}};
  const std::vector<double> expected = TimeModel(configs(), points).expect({3.5, 10}, asked);
  CHECK(expected[1] - expected[0] == doctest::Approx(0.2));
  CHECK(expected[2] - expected[0] == doctest::Approx(0.5));
}

TEST_CASE("what a point's means share is no matter") {
  std::vector<TimeModel::Point> points = {measured(8, 1024), measured(16, 1024), measured(32, 2048)};
  for (TimeModel::Point& point : points) {
    for (TimeModel::Timed& one : point.times) one.launched.mean = std::log(one.time_us) + one.launched.waves;
  }
  std::vector<TimeModel::Launched> asked = {{0, 0.1, 2}, {3, 0.4, 1.5}, {7, 1.6, 2.2}};
  const std::vector<double> position = {3.5, 10.2};
  const std::vector<double> expected = TimeModel(configs(), points).expect(position, asked);
  for (TimeModel::Timed& one : points[1].times) one.launched.mean += 19;
  for (TimeModel::Launched& one : asked) one.mean += 7;
  const std::vector<double> moved = TimeModel(configs(), points).expect(position, asked);
  for (std::size_t i = 1; i < asked.size(); ++i)
    CHECK(moved[i] - moved[0] == doctest::Approx(expected[i] - expected[0]).epsilon(1e-9));
}
