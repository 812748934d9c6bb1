// What is tried of a cubin in a cell, on a recording that is made up.
#include "jobs/cell_meter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "jobs/device_choice.h"
#include "tests/jobs/made_up_range.h"
#include "tests/jobs/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// Cubins with at least three run-time values, by the time of their best.
std::map<double, std::string> cubins_of(const Session& session, const CellMeter& meter) {
  std::map<std::string, std::vector<double>> times;
  for (ConfigId id = 0; id < session.space().size(); ++id) {
    const Config config = session.space().config(id);
    times[meter.cubin_of(config)].push_back(made_up_time(config, session.space_file()->parameters(), 256));
  }
  std::map<double, std::string> cubins;
  for (const auto& [name, all] : times) {
    if (all.size() >= 3) cubins.emplace(*std::ranges::min_element(all), name);
  }
  return cubins;
}

}  // namespace

TEST_CASE("a cubin that is clearly slower than a cell's best gets no more than its starting points") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("recordings"));
  write_recording(made_up_recording(256), folder.file("recordings") + "/one.json.zst");
  const WorkloadSpec workload{.kernel = "router", .problem = "tokens=256", .preset = ""};
  const JobContext context;
  const TuneSettings settings;
  const auto looks_of_slow = [&](double within) {
    Session session(
        choose_family_device("replay:" + folder.file("recordings"), workload),
        {.cache = {.path = folder.file(within > 0 ? "a.db" : "b.db"), .none = false}, .no_compile = true},
        context.events);
    CellMeter meter(session, settings, context);
    const std::map<double, std::string> cubins = cubins_of(session, meter);
    REQUIRE(cubins.size() >= 2);
    const std::string fast = cubins.begin()->second, slow = cubins.rbegin()->second;
    REQUIRE(cubins.rbegin()->first > 1.3 * cubins.begin()->first);
    CellMeter::Effort effort = meter.brief();
    effort.within = within;
    meter.begin(false);
    RangeCellState cell{.problem = session.problem().text()};
    meter.measure({{fast, {}}, {slow, {}}}, effort, cell);
    return std::ranges::count_if(cell.looks, [&](const auto& one) { return one.second.cubin == slow; });
  };
  const auto all = looks_of_slow(0), few = looks_of_slow(1.05);
  CHECK(all >= 3);
  CHECK(few <= 2);  // the first, and one whose blocks come in whole waves
  CHECK(few >= 1);
}

TEST_CASE("a default that is far from the fastest has a time without a duel") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("recordings"));
  write_recording(made_up_recording(256), folder.file("recordings") + "/one.json.zst");
  const WorkloadSpec workload{.kernel = "router", .problem = "tokens=256", .preset = ""};
  const JobContext context;
  const TuneSettings settings;
  Session session(choose_family_device("replay:" + folder.file("recordings"), workload),
                  {.cache = {.path = folder.file("a.db"), .none = false}, .no_compile = true},
                  context.events);
  CellMeter meter(session, settings, context);
  REQUIRE(session.default_config());
  const Config fallback = *session.default_config();
  const double expected = made_up_time(fallback, session.space_file()->parameters(), 256);
  const std::string fast = cubins_of(session, meter).begin()->second;
  for (const double within : {1.0001, 1000.0}) {
    CAPTURE(within);
    CellMeter::Effort effort = meter.brief();
    effort.duel_within = within;
    meter.begin(false);
    RangeCellState cell{.problem = session.problem().text()};
    meter.measure({{fast, {}}}, effort, cell);
    REQUIRE(cell.fallback);
    CHECK(cell.fallback->config == fallback.text());
    CHECK(cell.fallback->time_us == doctest::Approx(expected).epsilon(1e-5));
    CHECK(cell.fallback_cubin == meter.cubin_of(fallback));
    CHECK(cell.fallback->time_us > 1.0001 * cell.cubins.at(fast).time_us);
  }
}
