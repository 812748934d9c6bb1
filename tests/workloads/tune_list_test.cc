// Lists of workloads that are tuned, on recordings that are made up or on a scripted GPU.
#include "workloads/tune_list.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/jobs/made_up_range.h"
#include "tests/serve/scripted_driver.h"
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

TEST_CASE("a winner counts as tuned unless it was measured beside other work or is provisional") {
  const ScriptedDriver driver("memory=4194304");
  const TemporaryFolder folder;
  TuneListRequest request;
  request.list.entries = {{.kernel = "decode_kernel", .shapes = {{"elements=1024"}}}};
  request.search.target.device = "cuda:0";
  request.search.settings.budget = 2;
  request.search.threads = 1;
  const auto state_with = [&](const std::string& cache) {
    request.search.target.cache = {.path = folder.file(cache), .none = false};
    const TuneListResult result = tune_list(request, {}, {});
    REQUIRE(result.points.size() == 1);
    return tuned_state_name(result.points[0].state);
  };
  CHECK(state_with("first.db") == "tuned");
  CHECK(state_with("first.db") == "already_tuned");
  const Cache first = Cache::open(folder.file("first.db"), Cache::Mode::read_only);
  const Workload workload = first.workloads.all().front();
  const WinnerRecord sound = first.winners.find(workload.id).value();
  WinnerRecord contended = sound, provisional = sound;
  contended.contended = true;
  provisional.provenance = R"({"provisional":true})";
  const auto state_beside = [&](const WinnerRecord& winner, const std::string& file) {
    {
      Cache cache = Cache::open(folder.file(file), Cache::Mode::create);
      cache.winners.put(cache.workloads.id(workload.key, workload.family), winner);
    }
    return state_with(file);
  };
  CHECK(state_beside(sound, "sound.db") == "already_tuned");
  CHECK(state_beside(contended, "contended.db") == "tuned");
  CHECK(state_beside(provisional, "provisional.db") == "tuned");
}
