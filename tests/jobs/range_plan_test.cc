// Which cells a range's plan has and adds, on recordings that are made up.
#include "jobs/range_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "jobs/device_choice.h"
#include "tests/jobs/made_up_range.h"
#include "tests/jobs/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

std::int64_t tokens_of(const Problem& problem) { return find_kernel("router").extents_of(problem)[0]; }

struct MadeUpPlan {
  explicit MadeUpPlan(const std::vector<std::int64_t>& recorded) {
    std::filesystem::create_directories(folder.file("recordings"));
    for (const std::int64_t tokens : recorded)
      write_recording(made_up_recording(tokens),
                      folder.file("recordings") + "/" + std::to_string(tokens) + ".json.zst");
    session.emplace(choose_family_device("replay:" + folder.file("recordings"), {.kernel = "router"}),
                    SessionOptions{.cache = {.path = folder.file("a.db"), .none = false}, .no_compile = true},
                    Events{});
    base.emplace(session->problem());
    plan.emplace(*session, *base, "tokens=16..1024", 3);
  }

  std::size_t cell_with(std::int64_t tokens) const {
    const auto is_it = [&](const PlannedCell& cell) { return tokens_of(cell.problem) == tokens; };
    return static_cast<std::size_t>(std::ranges::find_if(plan->cells(), is_it) - plan->cells().begin());
  }

  TemporaryFolder folder;
  std::optional<Session> session;
  std::optional<Problem> base;
  std::optional<RangePlan> plan;
};

}  // namespace

TEST_CASE("cells beside each other are paired, that with fewer tokens first") {
  const MadeUpPlan made({16, 128, 1024});
  REQUIRE(made.plan->cells().size() == 3);
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const auto& [a, b] : made.plan->counted_neighbours())
    pairs.emplace(tokens_of(made.plan->cells()[a].problem), tokens_of(made.plan->cells()[b].problem));
  CHECK((pairs == std::set<std::pair<std::int64_t, std::int64_t>>{{16, 128}, {128, 1024}}));
}

TEST_CASE("a step between two cells gets a cell on both of its sides") {
  const auto added_for = [](std::int64_t first_past) {
    MadeUpPlan made({16, 128, 132, 133, 134, 1024});
    const auto is_past = [&](const Problem& problem) { return tokens_of(problem) >= first_past; };
    std::vector<std::int64_t> tokens;
    const std::size_t before = made.plan->cells().size();
    made.plan->add_around(made.cell_with(128), made.cell_with(1024), is_past);
    for (std::size_t i = before; i < made.plan->cells().size(); ++i)
      tokens.push_back(tokens_of(made.plan->cells()[i].problem));
    return tokens;
  };
  CHECK((added_for(133) == std::vector<std::int64_t>{132, 133}));
  CHECK((added_for(134) == std::vector<std::int64_t>{133, 134}));
  CHECK(added_for(129).empty());  // what was recorded nearest to both sides is a cell already
}
