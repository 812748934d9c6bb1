// Which cells a range's plan has and adds, on recordings that are made up.
#include "jobs/range_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/error.h"
#include "jobs/session/device_choice.h"
#include "ranges/range_table.h"
#include "tests/jobs/made_up_range.h"
#include "tests/jobs/temporary_folder.h"
#include "tests/paths.h"

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
    plan.emplace(*session, *base, "tokens=32..512");
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

// A plan of a range on the scripted device.
struct DevicePlan {
  DevicePlan(const std::string& kernel, const std::string& problem, const char* memory, const char* over) {
    setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
    setenv("MOETUNE_FAKE_CUDA", memory, 1);
    session.emplace(choose_family_device("cuda:0", {.kernel = kernel, .problem = problem, .preset = ""}),
                    SessionOptions{.cache = {.path = folder.file("a.db"), .none = false}}, Events{});
    plan.emplace(*session, session->problem(), over);
  }

  TemporaryFolder folder;
  std::optional<Session> session;
  std::optional<RangePlan> plan;
};

}  // namespace

TEST_CASE("cells beside each other are paired, that with fewer tokens first") {
  const MadeUpPlan made({32, 128, 512});
  REQUIRE(made.plan->cells().size() == 3);
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const auto& [a, b] : made.plan->counted_neighbours())
    pairs.emplace(tokens_of(made.plan->cells()[a].problem), tokens_of(made.plan->cells()[b].problem));
  CHECK((pairs == std::set<std::pair<std::int64_t, std::int64_t>>{{32, 128}, {128, 512}}));
}

TEST_CASE("a step between two cells gets a cell on both of its sides") {
  const auto added_for = [](std::int64_t first_past) {
    MadeUpPlan made({32, 128, 132, 133, 134, 512});
    const auto is_past = [&](const Problem& problem) { return tokens_of(problem) >= first_past; };
    std::vector<std::int64_t> tokens;
    const std::size_t before = made.plan->cells().size();
    made.plan->add_around(made.cell_with(128), made.cell_with(512), is_past);
    for (std::size_t i = before; i < made.plan->cells().size(); ++i)
      tokens.push_back(tokens_of(made.plan->cells()[i].problem));
    return tokens;
  };
  CHECK((added_for(133) == std::vector<std::int64_t>{132, 133}));
  CHECK((added_for(134) == std::vector<std::int64_t>{133, 134}));
  CHECK(added_for(129).empty());  // what was recorded nearest to both sides is a cell already
}

TEST_CASE("a range of one dimension has a finer grid") {
  DevicePlan made("router", "", "memory=67108864", "tokens=1..4096");
  RangePlan& plan = *made.plan;
  const std::size_t coarse = plan.cells().size();
  CHECK(coarse == 7);
  plan.fill();
  std::set<std::int64_t> tokens;
  for (const PlannedCell& cell : plan.cells()) tokens.insert(tokens_of(cell.problem));
  CHECK(tokens.size() == plan.cells().size());
  CHECK(tokens.size() > 60);
  for (std::int64_t few = 1; few <= 10; ++few) CHECK(tokens.contains(few));
  for (auto next = std::next(tokens.begin()); next != tokens.end(); ++next)
    CHECK((*next - *std::prev(next) == 1 || *next < 1.2 * static_cast<double>(*std::prev(next))));
}

TEST_CASE(
    "with a window all contexts of one place in the table are measured at one, which ends within a tile") {
  for (const char* over :
       {"batch=1..64,context=512..4096", "batch=1..64,context=128..512", "batch=1..64,context=128..128k"}) {
    CAPTURE(over);
    DevicePlan made("decode_attention", "q_heads=8,kv_heads=2,head_dim=64,page=64,window=128",
                    "memory=4294967296", over);
    RangePlan& plan = *made.plan;
    plan.fill();
    std::set<std::int64_t> contexts, batches;
    std::size_t uneven = 0;
    for (const PlannedCell& cell : plan.cells()) {
      if (cell.position[1] < 256) continue;
      contexts.insert(cell.problem.dims.at("context").number);
      if (cell.uneven) ++uneven;
      if (!cell.uneven) batches.insert(cell.problem.dims.at("batch").number);
    }
    REQUIRE(contexts.size() == 1);
    CHECK(*contexts.begin() > 256);
    CHECK(*contexts.begin() % 64 != 0);
    CHECK(batches.size() > 12);
    CHECK(*batches.begin() == 1);
    CHECK(*batches.rbegin() == 64);
    if (plan.ranges()[1].first == 128) CHECK(uneven > 5);  // longer ones are longer than what they see
    for (const PlannedCell& cell : plan.cells()) {
      if (cell.uneven) continue;
      const std::optional<Problem> there = plan.problem_of_position(cell.position, false);
      REQUIRE(there.has_value());
      CHECK(plan.cell_of(*there).position == cell.position);
      if (cell.position[1] == 256) CHECK(there->dims.at("context").number == *contexts.begin());
    }
    CHECK(plan.left_out().empty());
  }
}

TEST_CASE("between the ends of a range no length is whole tiles, of new tokens as of contexts") {
  DevicePlan made("prefill_attention", "q_heads=4,kv_heads=2,head_dim=64,page=64", "memory=1073741824",
                  "batch=1..4,seqlen_q=128..2048,seqlen_kv=512..4096");
  const Session& session = *made.session;
  RangePlan& plan = *made.plan;
  plan.fill();
  std::size_t within = 0, equal = 0;
  for (const PlannedCell& cell : plan.cells()) {
    const Extents extents = session.kernel()->extents_of(cell.problem);
    const std::int64_t new_tokens = extents[2], context = extents[3];
    CHECK((new_tokens == 128 || new_tokens == 2048 || new_tokens % 64 != 0));
    CHECK((context == 512 || context == 2048 || context == 4096 || context % 64 != 0));
    within += new_tokens % 64 != 0 && context % 64 != 0;
    equal += new_tokens == context;
  }
  CHECK(within > 10);
  CHECK(equal > 2);  // prompts without an earlier context
}

TEST_CASE("an end of a range at which the kernel has no problem is left out in one line, with the reason") {
  DevicePlan made("prefill_attention", "q_heads=4,kv_heads=2,head_dim=64,page=64", "memory=1073741824",
                  "batch=1..4,seqlen_q=128..4096,seqlen_kv=512..2048");
  made.plan->fill();
  REQUIRE(made.plan->left_out().size() == 1);
  const std::string& why = made.plan->left_out()[0];
  CHECK(why.starts_with("every problem of seqlen_q=4096: prefill_attention: seqlen_kv="));
}

TEST_CASE("a range that the kernel does not take is refused with the dimension's limits") {
  const auto refused = [](const char* over) -> std::string {
    try {
      const DevicePlan made("decode_attention", "q_heads=8,kv_heads=2,head_dim=64", "memory=67108864", over);
    } catch (const BadField& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refused("batch=1..1048576m,context=1k..2k")
            .ends_with("batch of decode_attention must lie from 1 to 65535 (got 1..1099511627776)"));
  CHECK(refused("batch=1..65536,context=1k..2k").ends_with("must lie from 1 to 65535 (got 1..65536)"));
  CHECK(refused("batch=1..65535,context=1k..1k").empty());
}

TEST_CASE("a range that no recording is within is refused with what was recorded") {
  const auto refused = [](const std::vector<std::int64_t>& recorded) -> std::string {
    try {
      const MadeUpPlan made(recorded);
    } catch (const BadField& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refused({4, 2000}).ends_with(
      "no problem of tokens=32..512 was recorded on NVIDIA H200; recorded are tokens=4; tokens=2000"));
  CHECK(refused({1, 2, 3, 4, 5, 6, 2000}).ends_with("; recorded are shapes within tokens=1..2000"));
}

TEST_CASE("ragged cells have the places of full ones in the table, of as many sequences as that takes") {
  DevicePlan made("decode_attention", "q_heads=8,kv_heads=2,head_dim=64,page=64", "memory=67108864",
                  "batch=1..64,context=512..2048");
  const Session& session = *made.session;
  RangePlan& plan = *made.plan;
  plan.fill();
  std::map<std::int64_t, std::set<std::int64_t>> full, ragged;  // places by context
  std::size_t twice = 0;
  for (const PlannedCell& cell : plan.cells()) {
    const auto [rows, context] = std::pair(cell.position[0], cell.position[1]);
    CHECK(cell.place[1] == context);
    (cell.uneven ? ragged : full)[context].insert(rows);
    if (!cell.uneven) CHECK(rows == 2 * cell.place[0]);
    const std::int64_t batch = session.kernel()->extents_of(cell.problem)[0];
    CHECK(batch <= 64);
    CHECK(batch >= cell.place[0]);
    twice += cell.uneven && batch >= 2 * cell.place[0] ? 1 : 0;
    const PlannedCell again = plan.cell_of(cell.problem);
    CHECK(again.position == cell.position);
    CHECK(std::abs(again.place[0] - cell.place[0]) <=
          cell.place[0] / 8);  // as an earlier search's is restored
  }
  CHECK(twice > 10);
  REQUIRE(full.size() >= 3);
  for (const auto& [context, places] : full) {
    CAPTURE(context);
    for (const std::int64_t rows : places) {
      if (rows > 32 * 2) continue;  // more than the most ragged sequences are work for
      // No ragged batch of few sequences may lie nearer: their lengths are drawn.
      const auto is_near = [&](std::int64_t other) { return 4 * std::abs(other - rows) <= rows; };
      CHECK_MESSAGE(std::ranges::any_of(ragged[context], is_near), rows);
    }
  }
}

TEST_CASE("a cell is restored if what the ranges leave fixed is as it was") {
  DevicePlan made("decode_attention", "q_heads=8,kv_heads=2,head_dim=64,page=64,context=640",
                  "memory=67108864", "batch=1..64");
  RangePlan& plan = *made.plan;
  const std::size_t coarse = plan.cells().size();
  const auto restores = [&](const std::string& values) {
    const std::size_t before = plan.cells().size();
    plan.restore("q_heads=8,kv_heads=2,head_dim=64,page=64," + values);
    return plan.cells().size() > before;
  };
  CHECK_FALSE(restores("batch=3,context=1024"));
  CHECK(restores("batch=3,context=640"));
  CHECK_FALSE(restores("batch=3,context=640"));  // it is there
  CHECK_FALSE(restores("batch=65,context=640"));
  CHECK(plan.cells().size() == coarse + 1);
}

TEST_CASE("no more cells are restored than a table holds") {
  DevicePlan made("router", "experts=8,top_k=2", "memory=1073741824", "tokens=1..8192");
  for (std::int64_t tokens = 1; tokens <= 8192; ++tokens)
    made.plan->restore("experts=8,top_k=2,tokens=" + std::to_string(tokens));
  CHECK(made.plan->cells().size() == RangeTable::kMostCells);
}

TEST_CASE("restored cells take their places on the finer grid") {
  const auto fresh = [] {
    return DevicePlan("decode_attention", "q_heads=8,kv_heads=2,head_dim=64,page=64", "memory=1073741824",
                      "batch=1..256,context=512..65536");
  };
  DevicePlan one = fresh(), two = fresh();
  RangePlan& plan = *one.plan;
  RangePlan& resumed = *two.plan;
  plan.fill();
  const std::size_t all = plan.cells().size(), coarse = plan.coarse();
  std::size_t beside = 0;  // cells that rounding has lie beside their lines
  for (std::size_t i = coarse; i < all; ++i) {
    const PlannedCell& cell = plan.cells()[i];
    beside += cell.place != plan.cell_of(cell.problem).place;
    resumed.restore(cell.problem.text());
  }
  CHECK(beside > 5);
  const std::string off_grid = "q_heads=8,kv_heads=2,head_dim=64,page=64,batch=3,context=777";
  resumed.restore(off_grid);
  CHECK(resumed.cells().size() == all + 1);
  resumed.fill();
  for (std::size_t i = 0; i < all; ++i) CHECK(resumed.cells()[i].place == plan.cells()[i].place);
  CHECK(resumed.cells().size() == all + 1);
}

TEST_CASE("a finer grid has fewer cells if some were restored") {
  DevicePlan made("prefill_attention", "q_heads=4,kv_heads=2,head_dim=64,page=64", "memory=1073741824",
                  "batch=1..16,seqlen_q=16..2048,seqlen_kv=2048..16384");
  RangePlan& plan = *made.plan;
  for (const char* const batch : {"3", "5", "7"})
    plan.restore(std::string("q_heads=4,kv_heads=2,head_dim=64,page=64,seqlen_q=77,seqlen_kv=2500,batch=") +
                 batch);
  CHECK(plan.cells().size() == plan.coarse() + 3);
  plan.fill();
  CHECK(plan.cells().size() == 400);
}
