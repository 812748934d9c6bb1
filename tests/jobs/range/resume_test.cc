// Range searches that go on with what an earlier one left, of the same ranges or of others.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stop_token>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "jobs/range/state.h"
#include "tests/jobs/made_up_search.h"
#include "tests/sanitized.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// Cubins that are good for few tokens are bad for many, so that many serve.
void write_steep_range(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const std::int64_t tokens :
       {1, 2, 4, 5, 7, 10, 16, 26, 45, 64, 100, 180, 256, 400, 600, 1024, 1500, 3000, 4096}) {
    Recording recording = made_up_recording(tokens);
    for (ConfigId id = 0; id < recording.space.size(); ++id) {
      const ConfigParts parts = split_config(recording.space.config(id), recording.space.parameters());
      const double home = 12 * made_up_unit("steep " + parts.compiled.text());
      recording.trials[id].time_us *=
          static_cast<float>(1 + 0.1 * std::abs(std::log2(static_cast<double>(tokens)) - home));
    }
    write_recording(recording, folder / (std::to_string(tokens) + ".json.zst"));
  }
}

RangeState stored_progress(const RangeRequest& request) {
  const Cache cache = Cache::open(request.target.cache.path, Cache::Mode::read_only);
  return RangeState::parse(cache.ranges.progress(cache.ranges.all().at(0).key));
}

RangeResult search_until(const RangeRequest& request, std::size_t trials) {
  std::stop_source stop;
  std::size_t ended = 0;
  if (trials == 0) stop.request_stop();
  const auto listener = [&](const Event& event) {
    if (std::holds_alternative<TrialEnded>(event.what) && ++ended == trials) stop.request_stop();
  };
  return search_range(request, {.events = {.listener = listener}, .stop = stop.get_token()});
}

}  // namespace

TEST_CASE("a widened search that was stopped goes on to the same end") {
  if (kSanitized) return;  // many searches, whose every part other cases run
  const TemporaryFolder folder;
  write_steep_range(folder.file("recordings"));
  RangeRequest straight = range_request(folder, "straight.db"), stopped = range_request(folder, "stopped.db");
  straight.variants = stopped.variants = 12;
  straight.over = "tokens=5..400";
  search_range(straight, {});
  std::filesystem::copy_file(straight.target.cache.path, stopped.target.cache.path);
  straight.over = stopped.over = "tokens=1..4096";
  const RangeResult whole = search_range(straight, {});
  const RangeState state = stored_progress(straight);
  CHECK(state.taken_over >= 5);
  for (const std::size_t after : {1, 40}) {
    CHECK(search_until(stopped, after).interrupted);
    CHECK(stored_progress(stopped).taken_over == state.taken_over);
  }
  CHECK((text_without_time(stopped, search_range(stopped, {})) == text_without_time(straight, whole)));
  CHECK((stored_progress(stopped) == state));
}

TEST_CASE("cells that are taken over come before the finer grid") {
  const TemporaryFolder folder;
  write_made_up_range(folder.file("recordings"));
  RangeRequest request = range_request(folder);
  request.over = "tokens=4..400";
  search_range(request, {});
  const RangeState narrow = stored_progress(request);
  search_until(request, 0);
  CHECK((stored_progress(request).cells == narrow.cells));  // of the same ranges all stays

  request.over = "tokens=1..4096";
  search_until(request, 0);
  const RangeState wide = stored_progress(request);
  constexpr std::size_t kCoarse = 7;
  CHECK(wide.taken_over >= 3);
  REQUIRE(wide.cells.size() > kCoarse + wide.taken_over);
  for (std::size_t i = 0; i < wide.cells.size(); ++i) {
    const MeasuredCell& cell = wide.cells[i];
    CAPTURE(cell.problem);
    if (i >= kCoarse) CHECK(cell.is_measured() == (i < kCoarse + wide.taken_over));
    if (!cell.is_measured()) continue;
    const auto known = std::ranges::find(narrow.cells, cell.problem, &MeasuredCell::problem);
    REQUIRE(known != narrow.cells.end());
    CHECK((cell == *known));
  }
}

TEST_CASE("what was withdrawn stays so when the search goes on, and no cell is measured anew for it") {
  const TemporaryFolder folder;
  const RangeResult& before = write_searched_range(folder).result;
  const RangeRequest request = range_request(folder);
  RangeState known = stored_progress(request);
  const auto cell =
      std::ranges::find_if(before.table.cells, [](const RangeCell& one) { return one.config != one.default_config; });
  REQUIRE(cell != before.table.cells.end());
  const std::string failed = cell->config;
  known.withdrawn.push_back(failed);
  known.cells.back().unreachable = "too little memory";
  {
    Cache cache = Cache::open(request.target.cache.path, Cache::Mode::read_write);
    const FamilyRange stored = cache.ranges.all().at(0);
    cache.ranges.put(stored.key, {.table = stored.table, .progress = known.text()});
  }
  const RangeResult after = search_range(request, {});
  CHECK(after.table.cells.size() == before.table.cells.size());
  for (const RangeCell& one : after.table.cells) CHECK(one.config != failed);
  const RangeState state = stored_progress(request);
  CHECK((state.withdrawn == std::vector<std::string>{failed}));
  CHECK(state.cells.back().unreachable.empty());
  CHECK(after.measured <= after.unseen.size());  // shapes alone
}

TEST_CASE("a certificate is of no choices that came after it, wherever a search that goes on is stopped") {
  const TemporaryFolder folder;
  const RangeResult& before = write_searched_range(folder).result;
  const RangeRequest request = range_request(folder);
  REQUIRE(before.table.certificate.shapes > 0);
  RangeState known = stored_progress(request);
  for (std::size_t i = 0; i < 2; ++i) known.cells[i] = {.problem = known.cells[i].problem};
  {
    Cache cache = Cache::open(request.target.cache.path, Cache::Mode::read_write);
    const FamilyRange stored = cache.ranges.all().at(0);
    cache.ranges.put(stored.key, {.table = stored.table, .progress = known.text()});
  }
  CHECK(search_until(request, 0).table.certificate.shapes == before.table.certificate.shapes);
  std::stop_source stop;
  const auto listener = [&](const Event& event) {
    if (std::holds_alternative<RangeAdvanced>(event.what)) stop.request_stop();
  };
  const RangeResult part = search_range(request, {.events = {.listener = listener}, .stop = stop.get_token()});
  REQUIRE(part.interrupted);
  CHECK(part.table.cells.size() + 1 == before.table.cells.size());
  CHECK(part.table.certificate.shapes == 0);
  CHECK(search_range(request, {}).table.certificate.shapes >= before.table.certificate.shapes);
}
