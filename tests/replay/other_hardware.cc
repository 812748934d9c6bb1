#include "tests/replay/other_hardware.h"

#include <algorithm>
#include <cmath>

#include "search/random.h"

namespace moetune {
namespace {

// Nearly normal, of variance one: twelve uniform numbers less their mean.
double normal_sample(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.unit();
  return sum;
}

std::vector<double> normal_samples(Random& random, std::size_t count, double deviation) {
  std::vector<double> drawn(count);
  for (double& x : drawn) x = deviation * normal_sample(random);
  return drawn;
}

}  // namespace

std::vector<Observation> simulate_other_hardware(const LegalSpace& space, std::vector<Observation> outcomes,
                                                 std::uint64_t seed, double strength) {
  Random random(seed);
  const std::vector<Parameter>& parameters = space.parameters();
  const auto matters = [](const Parameter& parameter) { return parameter.values.size() > 1; };
  const auto count = static_cast<double>(
      std::max<std::ptrdiff_t>(1, std::count_if(parameters.begin(), parameters.end(), matters)));
  const double each = strength / std::sqrt(2 * count);
  std::vector<std::vector<double>> of_value, of_pair;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::size_t size = parameters[p].values.size();
    const std::size_t next = parameters[(p + 1) % parameters.size()].values.size();
    of_value.push_back(normal_samples(random, size, size > 1 ? each : 0));
    of_pair.push_back(normal_samples(random, size * next, size > 1 ? each : 0));
  }
  for (Observation& outcome : outcomes) {
    const std::span<const Position> point = space.point(outcome.id);
    double logarithm = 0;
    for (std::size_t p = 0; p < point.size(); ++p) {
      const std::size_t q = (p + 1) % point.size();
      logarithm += of_value[p][point[p]] + of_pair[p][point[p] * parameters[q].values.size() + point[q]];
    }
    outcome.time_us *= std::exp(logarithm);
  }
  return outcomes;
}

}  // namespace moetune
