// The defaults of a dispatch table's points are those that the space has for the points' problems, which are made and
// judged the long way here.
#include "runtime/family_defaults.h"

#include <doctest/doctest.h>

#include <algorithm>

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
      problem.dims.set(dimension.name, Value::named(dimension.names[position], static_cast<std::int64_t>(position)));
    } else if (draw.below(2) == 0) {
      problem.dims.set(dimension.name, dimension.default_value);
    } else {
      const std::int64_t value = (std::int64_t{1} << draw.below(9)) - (draw.below(4) == 0 ? 1 : 0);
      problem.dims.set(dimension.name, Value::integer(std::min(std::max(value, dimension.minimum), dimension.maximum)));
    }
  }
  try {
    kernel.check(problem);
    return problem;
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

// The space's default for the problem at these extents, the long way; nullopt if there is no such problem.
std::optional<std::string> slow_default(const Kernel& kernel, const FamilyInterface& interface, const Problem& of,
                                        const DeviceLimits& limits, const Extents& extents, bool ragged) {
  try {
    Problem problem = kernel.problem_of(kernel.specialization(of), extents);
    if (ragged) interface.make_ragged(problem);
    const auto config = shared_space(kernel.name()).default_config(expression_environment(problem, limits));
    return config ? config->text() : "";
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("a family's defaults are the space's, on every kernel, architecture and kind of work") {
  std::size_t defaults = 0, certain = 0;
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
      const FamilyDefaults fast(*kernel, *interface, kernel->specialization(*problem), limits,
                                kernel->extents_of(*problem));
      for (int i = 0; i < 60; ++i) {
        Extents extents = kernel->extents_of(*problem), higher = extents;
        for (std::size_t axis = 0; axis < extents.size(); ++axis) {
          extents[axis] = power(draw, 18);
          higher[axis] = extents[axis] + (draw.below(2) == 0 ? 0 : power(draw, 12));
        }
        const bool ragged = interface->has_ragged() && draw.below(2) == 0;
        const std::optional<std::string> expected =
            slow_default(*kernel, *interface, *problem, limits, extents, ragged);
        if (!expected) continue;
        const std::optional<std::uint32_t> number = fast.at(extents, ragged);
        REQUIRE((number ? fast.texts()[*number] : "") == *expected);
        const SpaceDefaults::Within within = fast.within(extents, higher, ragged);
        for (const Extents& end : {extents, higher}) {
          const std::optional<std::uint32_t> there = fast.at(end, ragged);
          if (there) REQUIRE(std::ranges::find(within.numbers, *there) != within.numbers.end());
          if (!there) REQUIRE(within.none);
        }
        if (number) REQUIRE(fast.number_met(fast.texts()[*number]) == number);
        REQUIRE(fast.number_met("") == std::nullopt);  // of results that do not name it
        REQUIRE(fast.number_met("another=1") == std::nullopt);
        defaults += number ? 1 : 0;
        certain += within.is_one() ? 1 : 0;
      }
    }
  }
  CHECK(defaults > 1500);
  CHECK(certain > defaults / 3);
}

}  // namespace moetune
