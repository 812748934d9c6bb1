#include "jobs/range/launch_steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "replay/shipped.h"

using namespace moetune;

namespace {

using Point = std::vector<Position>;
using Siblings = std::map<Point, double>;  // times of one cubin's configurations
using Cubins = std::map<Point, Siblings>;  // by what is compiled

Parameter parameter(const std::string& name, std::vector<Value> values, bool at_launch) {
  return {.name = name, .values = std::move(values), .doc = "", .at_launch = at_launch};
}

std::vector<Value> numbers(int count) {
  std::vector<Value> values;
  for (int i = 0; i < count; ++i) values.push_back(Value::integer(1 << i));
  return values;
}

Point compiled_part(const std::vector<Parameter>& parameters, std::span<const Position> point) {
  Point part;
  for (std::size_t i = 0; i < point.size(); ++i) {
    if (!parameters[i].at_launch) part.push_back(point[i]);
  }
  return part;
}

struct RecordedShape {
  std::string specialization;
  Cubins cubins;
  double best_us = std::numeric_limits<double>::infinity();
};

std::vector<RecordedShape> recorded_shapes(const std::vector<Parameter>& parameters) {
  const Kernel& kernel = find_kernel("decode_attention");
  std::vector<RecordedShape> shapes;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    if (shipped.header.kernel != kernel.name()) continue;
    const Recording recording = shipped.read();
    const Problem problem = kernel.parse(recording.problem);
    RecordedShape shape{.specialization = kernel.specialization(problem).text(), .cubins = {}};
    for (ConfigId id = 0; id < recording.space.size(); ++id) {
      const RecordedTrial& trial = recording.trials[id];
      if (trial.outcome != Outcome::ok) continue;
      const std::span<const Position> point = recording.space.point(id);
      const double time = trial.time_us;
      shape.cubins[compiled_part(parameters, point)].emplace(Point(point.begin(), point.end()), time);
      shape.best_us = std::min(shape.best_us, time);
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

auto fastest_of(const Siblings& siblings) {
  return std::ranges::min_element(siblings, {}, &Siblings::value_type::second);
}

// The time found by so many tries from `start`: always the nearest untried one to the best so far.
double time_after(int tries, const Siblings& siblings, const Point& start, const LaunchSteps& steps) {
  Siblings left = siblings;
  Point best = start;
  double least = std::numeric_limits<double>::infinity();
  for (; tries > 0 && !left.empty(); --tries) {
    const auto next = std::ranges::min_element(
        left, {}, [&](const Siblings::value_type& one) { return steps.distance(one.first, best); });
    if (next->second < least) {
      least = next->second;
      best = next->first;
    }
    left.erase(next);
  }
  return least;
}

// What eight tries lose, sorted: at each shape for each good cubin, from what is best for it at another one.
std::vector<double> losses(const std::vector<RecordedShape>& shapes, const std::vector<Parameter>& parameters,
                           bool is_learned) {
  std::vector<double> all;
  for (const RecordedShape& from : shapes) {
    LaunchSteps steps(parameters);
    for (const auto& [name, siblings] : from.cubins) {
      std::vector<LaunchSteps::Timed> timed;
      for (const auto& [point, time] : siblings) timed.push_back({point, time});
      if (is_learned) steps.learn(timed);
    }
    for (const RecordedShape& to : shapes) {
      if (&from == &to || from.specialization != to.specialization) continue;
      for (const auto& [name, siblings] : to.cubins) {
        const auto there = from.cubins.find(name);
        const double best = fastest_of(siblings)->second;
        if (there == from.cubins.end() || best > 1.1 * to.best_us) continue;
        all.push_back(time_after(8, siblings, fastest_of(there->second)->first, steps) / best - 1);
      }
    }
  }
  std::ranges::sort(all);
  return all;
}

double mean(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

}  // namespace

TEST_CASE("steps are of run-time values, and named values are one step apart") {
  const std::vector<Parameter> parameters = {
      parameter("tile", numbers(8), false), parameter("splits", numbers(8), true),
      parameter("combine", {Value::named("none", 0), Value::named("last", 1), Value::named("kernel", 2)}, true)};
  const LaunchSteps steps(parameters);
  CHECK(steps.distance(Point{0, 1, 0}, Point{7, 4, 2}) == 4);  // nothing is known yet
  CHECK(steps.distance(Point{3, 1, 1}, Point{3, 1, 1}) == 0);
}

TEST_CASE("steps that change little are long") {
  const std::vector<Parameter> parameters = {parameter("splits", numbers(8), true),
                                             parameter("ahead", numbers(8), true), parameter("idle", numbers(2), true)};
  LaunchSteps steps(parameters);
  std::vector<LaunchSteps::Timed> siblings;
  for (Position splits = 0; splits < 5; ++splits) {
    for (Position ahead = 0; ahead < 5; ++ahead)
      siblings.push_back({{splits, ahead, 0}, std::exp(0.04 * splits + 0.01 * ahead)});
  }
  siblings.push_back({{7, 0, 0}, 100});  // far slower: does not count
  siblings.push_back({{6, 0, 0}, std::numeric_limits<double>::infinity()});
  steps.learn(siblings);
  CHECK(steps.distance(Point{0, 0, 0}, Point{2, 0, 0}) == doctest::Approx(2));
  CHECK(steps.distance(Point{0, 0, 0}, Point{0, 2, 0}) == doctest::Approx(8));
  CHECK(steps.distance(Point{0, 0, 0}, Point{0, 0, 1}) == 1);  // never seen to change
}

TEST_CASE("on recordings tries by learned steps find far more than by plain ones") {
  const std::vector<Parameter>& parameters = shared_space("decode_attention").parameters();
  const std::vector<RecordedShape> shapes = recorded_shapes(parameters);
  REQUIRE(shapes.size() == 6);
  const std::vector<double> plain = losses(shapes, parameters, false), learned = losses(shapes, parameters, true);
  REQUIRE(plain.size() > 3000);
  const std::size_t p95 = plain.size() * 95 / 100;
  MESSAGE("plain: mean " << mean(plain) << ", p95 " << plain[p95] << "; learned: mean " << mean(learned) << ", p95 "
                         << learned[p95] << "; " << plain.size() << " walks");
  CHECK(mean(learned) < 0.4 * mean(plain));
  CHECK(learned[p95] < 0.7 * plain[p95]);
}
