// Lists of workloads that are tuned on recordings that are made up.
#include "workloads/tune_list.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/jobs/made_up_range.h"
#include "tests/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;

TEST_CASE("a range whose time is over before anything is measured was not tuned before, unless it is complete") {
  const TemporaryFolder folder;
  write_made_up_range(folder.file("recordings"));
  TuneListRequest request;
  request.list.entries = {{.kernel = "router", .ranges = {{"tokens", 1, 4096}}}};
  request.search.target.device = "replay:" + folder.file("recordings");
  request.search.target.cache = {.path = folder.file("cache.db"), .none = false};
  request.search.settings.strategy = "local";
  request.search.settings.budget = 30;
  request.search.no_compile = true;
  request.certificate_shapes = 2;
  RangeRequest range{.target = request.search.target, .over = "tokens=1..4096"};
  range.target.workload = {.kernel = "router", .problem = kMadeUpFamily, .preset = ""};
  range.settings = request.search.settings;
  range.certificate_shapes = request.certificate_shapes;
  range.no_compile = true;
  range.time_s = 0.001;
  REQUIRE(search_range(range, {}).out_of_time);

  // A range has a second at least, which passes while its device is opened.
  const JobContext slow{.events = {.listener = [](const Event& event) {
                          if (std::holds_alternative<DeviceChosen>(event.what))
                            std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                        }}};
  const auto state_with = [&](double time_s, const JobContext& context) {
    request.time_s = time_s;
    const TuneListResult result = tune_list(request, context, {});
    REQUIRE(result.ranges.size() == 1);
    const bool is_cut_off = result.ranges[0].state == TunedState::not_reached;
    CHECK(result.out_of_time == is_cut_off);
    const Document document = tune_list_document(result);
    const Document& tuned = document.at("ranges").at(0);
    CHECK(tuned.at("out_of_time") == is_cut_off);
    CHECK(tuned.at("planned") >= tuned.at("cells"));
    CHECK(document.at("out_of_time") == is_cut_off);
    return tuned_state_name(result.ranges[0].state);
  };
  CHECK(state_with(0.9, slow) == "not_reached");
  CHECK(state_with(0, {}) == "tuned");
  CHECK(state_with(0.9, slow) == "already_tuned");
}
