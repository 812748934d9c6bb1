// The defaults of a dispatch table's points are those that the space has for the points' problems, which are made and
// judged the long way here.
#include "runtime/family_defaults.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "search/random.h"

namespace moetune {
namespace {

std::int64_t power(Random& draw, std::uint64_t most) {
  return static_cast<std::int64_t>((std::uint64_t{1} << draw.below(most)) + draw.below(3));
}

// A problem of the kernel whose dimensions are drawn from what its schema allows; nullopt for an impossible one.
std::optional<Problem> random_problem(const Kernel& kernel, Random& draw) {
  Problem problem{kernel.name(), {}};
  for (const Dimension& dimension : kernel.schema()) {
    if (!dimension.names.empty()) {
      const std::size_t position = draw.below(dimension.names.size());
      problem.dims.set(dimension.name,
                       Value::named(dimension.names[position], static_cast<std::int64_t>(position)));
    } else if (draw.below(2) == 0) {
      problem.dims.set(dimension.name, dimension.default_value);
    } else {
      const std::int64_t value = (std::int64_t{1} << draw.below(9)) - (draw.below(4) == 0 ? 1 : 0);
      problem.dims.set(dimension.name,
                       Value::integer(std::min(std::max(value, dimension.minimum), dimension.maximum)));
    }
  }
  try {
    kernel.check(problem);
    return problem;
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

struct SlowDefault {
  std::string config;   // "" for none
  std::string problem;  // "" if there is none
};

SlowDefault slow_default(const Kernel& kernel, const FamilyInterface& interface, const Problem& of,
                         const DeviceLimits& limits, const TablePoint& point, const Extents& like) {
  try {
    Problem problem = kernel.problem_of(kernel.specialization(of), interface.extents_at(point, like));
    if (point.ragged) interface.make_ragged(problem);
    const auto config = shared_space(kernel.name()).default_config(expression_environment(problem, limits));
    return {config ? config->text() : "", problem.text()};
  } catch (const BadInput&) {
    return {};
  }
}

}  // namespace

TEST_CASE("a family's defaults are the space's, on every kernel, architecture and kind of point") {
  std::size_t defaults = 0, impossible = 0;
  for (const Kernel* kernel : all_kernels()) {
    CAPTURE(kernel->name());
    Random draw(17);
    for (int family = 0; family < 60; ++family) {
      const std::optional<Problem> problem = random_problem(*kernel, draw);
      if (!problem) continue;
      CAPTURE(problem->text());
      const std::vector<std::string>& architectures = known_architectures();
      const DeviceLimits limits = limits_of_architecture(architectures[draw.below(architectures.size())]);
      const auto interface = kernel->family_interface(*problem);
      const Extents like = kernel->extents_of(*problem);
      FamilyDefaults fast(*kernel, *interface, kernel->specialization(*problem), limits, like);
      for (int i = 0; i < 60; ++i) {
        TablePoint point = interface->table_point_of(*problem);
        for (std::int64_t& position : point.position) position = power(draw, draw.below(4) == 0 ? 40 : 18);
        point.ragged = interface->has_ragged() && draw.below(2) == 0;
        const SlowDefault expected = slow_default(*kernel, *interface, *problem, limits, point, like);
        const Config* const config = fast.at(point);
        REQUIRE((config != nullptr ? config->text() : "") == expected.config);
        if (config != nullptr) REQUIRE(fast.problem().text() == expected.problem);
        defaults += config != nullptr ? 1 : 0;
        impossible += expected.problem.empty() ? 1 : 0;
      }
    }
  }
  CHECK(defaults > 3000);
  CHECK(impossible > 300);
}

}  // namespace moetune
