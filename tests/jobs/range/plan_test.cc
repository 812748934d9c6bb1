// Which cells a range's plan has and adds, on recordings that are made up.
#include "jobs/range/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/error.h"
#include "jobs/session/device_choice.h"
#include "ranges/range_table.h"
#include "tests/jobs/made_up_range.h"
#include "tests/paths.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

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
    session.emplace(choose_device("replay:" + folder.file("recordings"), {.kernel = "router"}, {.family = true}),
                    SessionOptions{.cache = {.path = folder.file("a.db"), .none = false}, .no_compile = true},
                    Events{});
    base.emplace(session->problem());
    plan.emplace(*session, *base, "tokens=32..512");
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
    session.emplace(choose_device("cuda:0", {.kernel = kernel, .problem = problem, .preset = ""}, {.family = true}),
                    SessionOptions{.cache = {.path = folder.file("a.db"), .none = false}}, Events{});
    plan.emplace(*session, session->problem(), over);
  }

  TemporaryFolder folder;
  std::optional<Session> session;
  std::optional<RangePlan> plan;
};

}  // namespace

TEST_CASE("a range of one dimension has a finer grid") {
  DevicePlan made("router", "", "memory=67108864", "tokens=1..4096");
  RangePlan& plan = *made.plan;
  const std::size_t coarse = plan.cells().size();
  CHECK(coarse == 7);
  plan.fill();
  std::set<std::int64_t> tokens;
  for (const PlannedProblem& cell : plan.cells()) tokens.insert(tokens_of(cell.problem));
  CHECK(tokens.size() == plan.cells().size());
  CHECK(tokens.size() > 60);
  for (std::int64_t few = 1; few <= 10; ++few) CHECK(tokens.contains(few));
  for (auto next = std::next(tokens.begin()); next != tokens.end(); ++next)
    CHECK((*next - *std::prev(next) == 1 || *next < 1.2 * static_cast<double>(*std::prev(next))));
}

TEST_CASE("with a window all contexts of one place in the table are measured at one, which ends within a tile") {
  for (const char* over :
       {"batch=1..64,context=512..4096", "batch=1..64,context=128..512", "batch=1..64,context=128..128k"}) {
    CAPTURE(over);
    DevicePlan made("decode_attention", "q_heads=8,kv_heads=2,head_dim=64,page=64,window=128", "memory=4294967296",
                    over);
    RangePlan& plan = *made.plan;
    plan.fill();
    std::set<std::int64_t> contexts, batches;
    std::size_t ragged = 0;
    for (const PlannedProblem& cell : plan.cells()) {
      if (cell.position[1] < 256) continue;
      contexts.insert(cell.problem.dims.at("context").number);
      if (cell.ragged) ++ragged;
      if (!cell.ragged) batches.insert(cell.problem.dims.at("batch").number);
    }
    REQUIRE(contexts.size() == 1);
    CHECK(*contexts.begin() > 256);
    CHECK(*contexts.begin() % 64 != 0);
    CHECK(batches.size() > 12);
    CHECK(*batches.begin() == 1);
    CHECK(*batches.rbegin() == 64);
    if (plan.ranges()[1].first == 128) CHECK(ragged > 5);  // longer ones are longer than what they see
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
  for (const PlannedProblem& cell : plan.cells()) {
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
    return refusal_of<BadField>([&] {
      const DevicePlan made("decode_attention", "q_heads=8,kv_heads=2,head_dim=64", "memory=67108864", over);
    });
  };
  CHECK(refused("batch=1..1048576m,context=1k..2k")
            .ends_with("batch of decode_attention must lie from 1 to 65535 (got 1..1099511627776)"));
  CHECK(refused("batch=1..65536,context=1k..2k").ends_with("must lie from 1 to 65535 (got 1..65536)"));
  CHECK(refused("batch=1..65535,context=1k..1k").empty());
}

TEST_CASE("a range that no recording is within is refused with what was recorded") {
  const auto refused = [](const std::vector<std::int64_t>& recorded) -> std::string {
    return refusal_of<BadField>([&] { const MadeUpPlan made(recorded); });
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
  for (const PlannedProblem& cell : plan.cells()) {
    const auto [rows, context] = std::pair(cell.position[0], cell.position[1]);
    (cell.ragged ? ragged : full)[context].insert(rows);
    const std::int64_t batch = session.kernel()->extents_of(cell.problem)[0];
    CHECK(batch <= 64);
    CHECK(2 * batch >= rows);
    if (!cell.ragged) CHECK(rows == 2 * batch);
    twice += cell.ragged && batch >= rows ? 1 : 0;
    const PlannedProblem again = plan.cell_of(cell.problem);
    CHECK(again.position == cell.position);  // as an earlier search's is restored
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
  DevicePlan made("decode_attention", "q_heads=8,kv_heads=2,head_dim=64,page=64,context=640", "memory=67108864",
                  "batch=1..64");
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

TEST_CASE("a finer grid has fewer cells if some were restored") {
  DevicePlan made("prefill_attention", "q_heads=4,kv_heads=2,head_dim=64,page=64", "memory=1073741824",
                  "batch=1..16,seqlen_q=16..2048,seqlen_kv=2048..16384");
  RangePlan& plan = *made.plan;
  for (const char* const batch : {"3", "5", "7"})
    plan.restore(std::string("q_heads=4,kv_heads=2,head_dim=64,page=64,seqlen_q=77,seqlen_kv=2500,batch=") + batch);
  CHECK(plan.cells().size() == plan.coarse() + 3);
  plan.fill();
  CHECK(plan.cells().size() == 400);
}
