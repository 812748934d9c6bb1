// Range searches on recordings that are made up: a time for every configuration at every shape of a grid.
#include "jobs/range/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/regular_file.h"
#include "cache/cache.h"
#include "cache/check.h"
#include "cache/ranges.h"
#include "jobs/range/solution.h"
#include "jobs/range/state.h"
#include "tests/jobs/made_up_search.h"

using namespace moetune;
using namespace moetune::testing;

TEST_CASE("a range of recordings gives a table that keeps its bound, never loses to the default, and is certified") {
  const TemporaryFolder folder;
  const auto& [result, stages, planned, measured, bytes] = write_searched_range(folder);
  const RangeRequest request = range_request(folder);
  CHECK((stages == std::vector<std::string>{"search", "fill", "certificate"}));
  CHECK(planned >= 7);
  CHECK(result.table.cells.size() == result.planned);
  // A point of the finer grid alone, which is measured without a search.
  const auto is_between = [](const RangeCell& cell) {
    return ("," + cell.problem).find(",tokens=3,") != std::string::npos;
  };
  CHECK(std::ranges::any_of(result.table.cells, is_between));
  CHECK(result.table.kept);
  CHECK(result.table.worst_cell() <= request.regret);
  CHECK(result.cubins.size() <= request.variants);
  for (const RangeCell& cell : result.table.cells) {
    CHECK(cell.default_us > 0);
    CHECK(cell.time_us <= cell.default_us);
  }
  CHECK(result.table.certificate.shapes >= 2);
  CHECK(result.table.certificate.worst_to_default <= 0.01);
  CHECK(result.unseen.size() == result.table.certificate.shapes);
  CHECK(range_document(request, result)["unseen"].size() == result.unseen.size());
  CHECK_FALSE(result.stored);  // nothing was compiled
  CHECK_FALSE(result.interrupted);
  const Cache cache = Cache::open(request.target.cache.path, Cache::Mode::read_only);
  REQUIRE(cache.ranges.all().size() == 1);
  CHECK(RangeTable::parse(cache.ranges.all()[0].table, "the table") == result.table);
  // Defaults' cubins were measured like the pool wherever there was a search.
  RangeState state = RangeState::parse(cache.ranges.progress(cache.ranges.all()[0].key));
  std::erase_if(state.cells, [](const MeasuredCell& cell) { return !cell.searched; });
  const std::vector<std::string> choosable = choosable_cubins(state);
  CHECK(choosable.size() > state.cubins.size());
  for (const MeasuredCell& cell : state.cells) {
    for (const std::string& name : choosable) CHECK(cell.cubins.contains(name));
  }
  CHECK(check_cache(cache).empty());
}

TEST_CASE("a search that is done does nothing again") {
  const TemporaryFolder folder;
  const SearchedRange& searched = write_searched_range(folder);
  const RangeRequest request = range_request(folder);
  std::size_t trials = 0;
  const RangeResult again = search_range(request, counting_trials(trials));
  CHECK((text_without_time(request, again) == text_without_time(request, searched.result)));
  CHECK(trials == 0);
}

TEST_CASE("a search that was stopped anywhere leaves a sound table, and goes on to the same end") {
  const TemporaryFolder folder;
  const SearchedRange& straight = write_searched_range(folder);
  const RangeRequest stopped = range_request(folder, "stopped.db");
  for (const std::size_t after : {5, 50, 80, 120}) {
    std::stop_source stop;
    std::size_t ended = 0;
    const auto listener = [&](const Event& event) {
      if (std::holds_alternative<TrialEnded>(event.what) && ++ended == after) stop.request_stop();
    };
    const RangeResult part = search_range(stopped, {.events = {.listener = listener}, .stop = stop.get_token()});
    if (part.interrupted) CHECK(ended == after);
    for (const RangeCell& cell : part.table.cells) CHECK(cell.time_us <= cell.default_us);
    CHECK(check_cache(Cache::open(stopped.target.cache.path, Cache::Mode::read_only)).empty());
  }
  CHECK((text_without_time(stopped, search_range(stopped, {})) == text_without_time(stopped, straight.result)));
}

TEST_CASE("time that is up ends a search with a table of what was measured") {
  const TemporaryFolder folder;
  write_made_up_range(folder.file("recordings"));
  RangeRequest request = range_request(folder);
  request.time_s = 0.001;
  const RangeResult result = search_range(request, {});
  CHECK(result.out_of_time);
  CHECK(range_document(request, result)["out_of_time"] == true);
  CHECK_FALSE(result.table.cells.empty());
  CHECK(result.table.certificate.shapes == 0);
  request.time_s = 0;
  const RangeResult whole = search_range(request, {});
  CHECK_FALSE(whole.out_of_time);
  CHECK(whole.table.cells.size() == whole.planned);
  CHECK(whole.table.certificate.shapes > 0);
}

TEST_CASE("fewer cubins than the bound needs give the best table that they can, and it says so") {
  const TemporaryFolder folder;
  const RangeResult& many = write_searched_range(folder).result;
  RangeRequest request = range_request(folder);
  request.variants = 1;
  const RangeResult one = search_range(request, {});  // from what the first measured
  CHECK(many.cubins.size() > 1);
  CHECK_FALSE(one.table.kept);
  CHECK(one.table.worst_cell() >= many.table.worst_cell());
  for (const RangeCell& cell : one.table.cells) CHECK(cell.time_us <= cell.default_us);
}

TEST_CASE("an unseen shape's own search has as many trials as are asked for") {
  const TemporaryFolder folder;
  const RangeResult& result = write_searched_range(folder).result;
  const RangeRequest request = range_request(folder);
  REQUIRE_FALSE(result.unseen.empty());
  const Cache cache = Cache::open(request.target.cache.path, Cache::Mode::read_only);
  std::size_t seen = 0;
  for (const Workload& workload : cache.workloads.all()) {
    const bool is_unseen =
        std::ranges::find(result.unseen, workload.key.problem, &UnseenShape::problem) != result.unseen.end();
    if (!is_unseen) continue;
    ++seen;
    CHECK(cache.trials.of(workload.id).size() == request.shape_budget);
  }
  CHECK(seen == result.unseen.size());
}

TEST_CASE("what is wrong with a range is said by the field's name") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("recordings"));
  write_recording(made_up_recording(64), folder.file("recordings") + "/one.json.zst");
  const auto field = [](const RangeRequest& request) -> std::string {
    try {
      search_range(request, {});
    } catch (const BadField& error) {
      return error.field();
    }
    return "";
  };
  RangeRequest request = range_request(folder);
  for (const char* over : {"", "tokens", "token=1..4", "tokens=9..4", "experts=1..4", "tokens=5000..6000"}) {
    CAPTURE(over);
    request.over = over;
    CHECK(field(request) == "over");
  }
  request = range_request(folder);
  request.target.cache = {.path = "", .none = true};
  CHECK(field(request) == "no_cache");
  request = range_request(folder);
  request.target.workload.problem = "experts=64";
  CHECK(field(request) == "device");  // nothing of that family was recorded
}

TEST_CASE("progress that is damaged is left out with a warning, and the range is measured anew") {
  const TemporaryFolder folder;
  const RangeResult& first = write_searched_range(folder).result;
  const RangeRequest request = range_request(folder);
  const std::string& file = request.target.cache.path;
  const auto search_again = [&](const std::string& said) {
    std::vector<std::string> warnings;
    const RangeResult result = search_range(request, {.events = {.listener = [&](const Event& event) {
                                                        if (const auto* warning = std::get_if<Warning>(&event.what))
                                                          warnings.push_back(warning->text);
                                                      }}});
    CHECK(result.table.cells.size() >= first.table.cells.size() / 2);
    CHECK(result.table.certificate.shapes > 0);
    REQUIRE(warnings.size() == (said.empty() ? 0 : 1));
    if (!said.empty()) CHECK(warnings[0] == "The range is measured anew: " + said);
  };
  {
    Cache cache = Cache::open(file, Cache::Mode::read_write);
    const FamilyRange stored = cache.ranges.all().at(0);
    cache.ranges.put(stored.key, {.table = stored.table, .progress = "{\"moetune_range_progress\":1}"});
  }
  search_again("the progress of a range search is of another moetune");
  search_again("");

  std::string bytes = read_regular_file(file, std::size_t{1} << 30);
  const std::string key = "moetune_range_progress";
  REQUIRE(bytes.find(key) != std::string::npos);
  for (std::size_t at = 0; (at = bytes.find(key, at)) != std::string::npos;) bytes[at] = 'M';
  std::ofstream(file, std::ios::binary) << bytes;
  search_again("its stored table and progress are damaged (they do not match their digest)");
  search_again("");
}

TEST_CASE("a fresh search has its whole budget again, and is as good as the first") {
  const TemporaryFolder folder;
  const SearchedRange& first = write_searched_range(folder);
  RangeRequest request = range_request(folder);
  request.settings.fresh = true;
  std::size_t measured = 0;
  const RangeResult again = search_range(request, counting_trials(measured));
  CHECK(measured >= first.measured * 3 / 4);  // not always as many cells are refined
  CHECK(again.table.kept);
  CHECK(again.table.cells.size() >= again.planned);
  CHECK(again.table.certificate.shapes > 0);
  // Other shapes may be left for it.
  CHECK(again.table.certificate.worst <= first.result.table.certificate.worst + 2 * request.regret);
}
