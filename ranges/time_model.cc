#include "ranges/time_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/cholesky.h"

namespace moetune {
namespace {

// Where likeness has fallen to 1/e: octaves on the first axis, which counts what blocks are made of, and on the others;
// octaves of a run-time value; waves; the share of the last wave.
constexpr double kCountedOctaves = 1.5, kOtherOctaves = 2.5, kValueOctaves = 2, kWaves = 2, kLastWave = 0.7;
constexpr double kMostWaves = 4;                       // after which one more changes little
constexpr double kOtherName = 0.6, kOtherCubin = 0.5;  // likeness of what differs in them
// Shares of the variance: of a cubin wherever its blocks fall, of what a point's times share, of a single trial.
constexpr double kOfCubin = 0.3, kOfPoint = 10, kOfTrial = 0.002;
constexpr double kMostSlower = 0.26;  // logarithm; what is slower says little of what is fastest

double nearness(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    const double away = (a[axis] - b[axis]) / (axis == 0 ? kCountedOctaves : kOtherOctaves);
    sum += away * away;
  }
  return std::exp(-std::sqrt(sum));
}

double values_alike(const TimeModel::Config& a, const TimeModel::Config& b) {
  double away = 0, likeness = a.cubin == b.cubin ? 1 : kOtherCubin;
  for (std::size_t i = 0; i < a.numbers.size(); ++i) away += std::abs(a.numbers[i] - b.numbers[i]);
  for (std::size_t i = 0; i < a.names.size(); ++i) likeness *= a.names[i] == b.names[i] ? 1 : kOtherName;
  return likeness * std::exp(-away / kValueOctaves);
}

}  // namespace

TimeModel::Fill::Fill(const Launched& launched)
    : config(launched.config),
      waves(std::min(launched.waves, kMostWaves) / kWaves),
      last_wave(launched.waves / std::ceil(launched.waves) / kLastWave) {}

TimeModel::TimeModel(std::vector<Config> configs, const std::vector<Point>& points)
    : configs_(std::move(configs)) {
  take_rows(points);
  compare_configs();
  fit();
}

// Those of rows alone with all: there may be many more configurations than rows.
void TimeModel::compare_configs() {
  constexpr std::size_t kNowhere = ~std::size_t{0};
  places_.assign(configs_.size(), kNowhere);
  std::size_t count = 0;
  for (const Row& row : rows_) {
    if (places_[row.fill.config] != kNowhere) continue;
    places_[row.fill.config] = count++;
    for (const Config& other : configs_)
      values_alike_.push_back(values_alike(configs_[row.fill.config], other));
  }
}

void TimeModel::take_rows(const std::vector<Point>& points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    positions_.push_back(points[i].position);
    const Timed& fastest = *std::ranges::min_element(points[i].times, {}, &Timed::time_us);
    for (const Timed& one : points[i].times) {
      const double slower = std::log(one.time_us / fastest.time_us);
      const double mean = one.launched.mean - fastest.launched.mean;
      if (slower <= kMostSlower) rows_.push_back({i, Fill(one.launched), slower, slower - mean});
    }
  }
  if (rows_.size() <= kMostTimes) return;
  std::ranges::stable_sort(rows_, {}, &Row::slower);
  rows_.erase(rows_.begin() + kMostTimes, rows_.end());
  std::ranges::stable_sort(rows_, {}, &Row::point);
}

double TimeModel::alike(double near, const Fill& a, const Fill& of_row) const {
  const double values = values_alike_[places_[of_row.config] * configs_.size() + a.config];
  const double filled =
      std::exp(-std::abs(a.waves - of_row.waves) - std::abs(a.last_wave - of_row.last_wave));
  const double cubins = configs_[a.config].cubin == configs_[of_row.config].cubin ? 1 : kOtherCubin;
  return near * (values * filled + kOfCubin * cubins);
}

void TimeModel::fit() {
  const std::size_t count = rows_.size();
  std::vector<double> near(positions_.size() * positions_.size()), matrix(count * count);
  for (std::size_t a = 0; a < positions_.size(); ++a) {
    for (std::size_t b = 0; b <= a; ++b)
      near[a * positions_.size() + b] = near[b * positions_.size() + a] =
          nearness(positions_[a], positions_[b]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Row& row = rows_[i];
    for (std::size_t j = 0; j <= i; ++j) {
      const Row& other = rows_[j];
      matrix[i * count + j] = alike(near[row.point * positions_.size() + other.point], row.fill, other.fill) +
                              (row.point == other.point ? kOfPoint : 0) + (i == j ? kOfTrial : 0);
    }
  }
  if (!factor_cholesky(matrix, count)) throw std::logic_error("likeness of times is not positive definite");
  std::vector<double> past_mean;
  for (const Row& row : rows_) past_mean.push_back(row.past_mean);
  const std::vector<double> pulls = solve_factored(matrix, std::move(past_mean));
  for (std::size_t i = 0; i < count; ++i) rows_[i].pull = pulls[i];
}

std::vector<double> TimeModel::expect(const std::vector<double>& position,
                                      std::span<const Launched> launches) const {
  std::vector<double> near;
  for (const std::vector<double>& point : positions_) near.push_back(nearness(position, point));
  std::vector<double> expected(launches.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Fill fill(launches[i]);
    expected[i] = launches[i].mean;
    for (const Row& row : rows_) expected[i] += row.pull * alike(near[row.point], fill, row.fill);
  }
  return expected;
}

}  // namespace moetune
