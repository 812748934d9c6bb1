// Expected times of configurations at points between measured ones: a Gaussian process over the logarithm of times,
// with a mean that the caller knows. Two times are alike as their points lie near each other, as their cubins and
// run-time values agree, and as their blocks fill as many waves of the SMs, and the last of them as much. What near
// means is fixed; nothing learns it. What all times of a point share is left to the point: only differences at one
// point are expected.
//
// Gaussian processes: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2. Immutable;
// thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace moetune {

class TimeModel {
 public:
  static constexpr std::size_t kMostTimes = 3000;  // the slowest of the others are left out

  struct Config {
    std::size_t cubin = 0;
    std::vector<double> numbers;     // run-time values, as logarithms to base 2
    std::vector<std::size_t> names;  // run-time values that are no numbers, each by a number of its own
  };
  // A configuration at a point; `waves` is its blocks over the SMs, `mean` the natural logarithm of the time that is
  // expected of it before anything is measured, in a unit that all of the point share.
  struct Launched {
    std::size_t config = 0;
    double waves = 0;
    double mean = 0;
  };
  struct Timed {
    Launched launched;
    double time_us = 0;
  };
  struct Point {
    std::vector<double> position;  // logarithms to base 2, that which blocks are made of first
    std::vector<Timed> times;      // at least one
  };

  TimeModel(std::vector<Config> configs, const std::vector<Point>& points);

  // Logarithms of times, up to a number that they share.
  std::vector<double> expect(const std::vector<double>& position, std::span<const Launched> launches) const;

 private:
  // What likeness is computed from.
  struct Fill {
    explicit Fill(const Launched& launched);
    std::size_t config;
    double waves, last_wave;
  };
  struct Row {
    std::size_t point;
    Fill fill;
    double slower;     // logarithm of the time over the fastest of the point
    double past_mean;  // the same, minus the difference of their means
    double pull = 0;   // by which it weighs in what is expected
  };
  void take_rows(const std::vector<Point>& points);
  void fit();
  void compare_configs();
  double alike(double near, const Fill& a, const Fill& of_row) const;

  std::vector<Config> configs_;
  std::vector<std::size_t> places_;   // of rows' configurations, by configuration
  std::vector<double> values_alike_;  // by the place of a row's configuration, and any configuration
  std::vector<std::vector<double>> positions_;  // of points
  std::vector<Row> rows_;
};

}  // namespace moetune
