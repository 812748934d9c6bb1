#include "jobs/range/launch_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moetune {
namespace {

constexpr double kNear = 1.3;  // times the fastest: nobody cares how slow the others are
constexpr std::size_t kLeastSeen = 20;
constexpr double kLongest = 8;  // steps of what changes nothing

}  // namespace

LaunchSteps::LaunchSteps(const std::vector<Parameter>& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].at_launch) parameters_.push_back({.place = i, .is_named = parameters[i].is_named()});
  }
}

std::size_t LaunchSteps::AtLaunch::steps(Point a, Point b) const {
  const auto between = static_cast<std::size_t>(std::abs(int{a[place]} - int{b[place]}));
  return is_named ? std::min<std::size_t>(between, 1) : between;
}

double LaunchSteps::distance(Point a, Point b) const {
  double sum = 0;
  for (const AtLaunch& parameter : parameters_) sum += parameter.weight * static_cast<double>(parameter.steps(a, b));
  return sum;
}

void LaunchSteps::learn(const std::vector<Timed>& siblings) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Timed& one : siblings) fastest = std::min(fastest, one.time_us);
  const auto is_near = [&](const Timed& one) { return one.time_us < kNear * fastest; };
  for (auto one = siblings.begin(); one != siblings.end(); ++one) {
    for (auto other = siblings.begin(); other != one; ++other) {
      if (!is_near(*one) || !is_near(*other)) continue;
      AtLaunch* differs = nullptr;
      std::size_t count = 0;
      for (AtLaunch& parameter : parameters_) {
        if (parameter.steps(one->point, other->point) == 0) continue;
        differs = &parameter;
        ++count;
      }
      if (count != 1) continue;
      const auto apart = static_cast<double>(differs->steps(one->point, other->point));
      differs->change += std::abs(std::log(one->time_us / other->time_us)) / apart;
      ++differs->seen;
    }
  }
  const auto change_of = [](const AtLaunch& parameter) {
    return parameter.change / static_cast<double>(parameter.seen);
  };
  double most = 0;
  for (const AtLaunch& parameter : parameters_) {
    if (parameter.seen >= kLeastSeen) most = std::max(most, change_of(parameter));
  }
  for (AtLaunch& parameter : parameters_) {
    const bool is_known = most > 0 && parameter.seen >= kLeastSeen;
    parameter.weight = is_known ? most / std::max(change_of(parameter), most / kLongest) : 1;
  }
}

}  // namespace moetune
