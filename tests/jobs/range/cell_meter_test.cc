// What is tried of a cubin in a cell, on a recording that is made up.
#include "jobs/range/cell_meter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "jobs/session/device_choice.h"
#include "tests/jobs/made_up_range.h"
#include "tests/temporary_folder.h"
#include "tuner/trial_record.h"

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

// The router at 256 tokens, in a folder of its own.
struct RecordedCell {
  RecordedCell() {
    std::filesystem::create_directories(folder.file("recordings"));
    write_recording(made_up_recording(256), folder.file("recordings") + "/one.json.zst");
  }
  DeviceChoice device() const {
    return choose_device("replay:" + folder.file("recordings"),
                         {.kernel = "router", .problem = "tokens=256", .preset = ""}, {.family = true});
  }

  const TemporaryFolder folder;
};

constexpr double kSlowDuel = 1.1;

// Who met in duels, and how long the last one was to be.
struct Met {
  std::vector<std::string> configs;
  DuelPolicy policy;
};

// A duel takes longer than a trial, by the same share for all who meet.
class SlowDuels : public Device {
 public:
  SlowDuels(std::unique_ptr<Device> device, Met& met) : device_(std::move(device)), met_(met) {}
  const DeviceInfo& info() const override { return device_->info(); }
  void open(const Kernel& kernel, const Problem& problem, std::uint64_t seed) override {
    device_->open(kernel, problem, seed);
  }
  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override {
    return device_->run(candidate, policy);
  }
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) override {
    std::vector<TrialResult> results = device_->duel(finalists, policy);
    for (TrialResult& result : results) result.measurement.median_us *= kSlowDuel;
    for (const Candidate& one : finalists) met_.configs.push_back(one.config.text());
    met_.policy = policy;
    return results;
  }
  TrialResult verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) override {
    return device_->verify(candidate, seed, time_limit_s);
  }

 private:
  std::unique_ptr<Device> device_;
  Met& met_;
};

// A meter of the recorded cell, whose duels are noted.
struct DuelingCell {
  DeviceChoice device() {
    DeviceChoice choice = recorded.device();
    choice.device = std::make_unique<SlowDuels>(std::move(choice.device), met);
    return choice;
  }

  RecordedCell recorded;
  JobContext context;
  TuneSettings settings;
  Met met;
  Session session{
      device(), {.cache = {.path = recorded.folder.file("a.db"), .none = false}, .no_compile = true}, context.events};
  CellMeter meter{session, settings, context};
};

// Runs so many candidates, and then fails.
class BreakingDevice : public SlowDuels {
 public:
  BreakingDevice(std::unique_ptr<Device> device, Met& met, int runs) : SlowDuels(std::move(device), met), left_(runs) {}
  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override {
    if (left_-- == 0) throw BrokenEnvironment("the GPU itself fails");
    return SlowDuels::run(candidate, policy);
  }

 private:
  int left_;
};

}  // namespace

TEST_CASE("what a cell ran since the last canary of a device that failed is run again by the next search") {
  const RecordedCell recorded;
  const JobContext context;
  const TuneSettings settings;
  Met met;
  const auto measure = [&](int runs) {
    DeviceChoice choice = recorded.device();
    choice.device = std::make_unique<BreakingDevice>(std::move(choice.device), met, runs);
    Session session(std::move(choice),
                    {.cache = {.path = recorded.folder.file("a.db"), .none = false}, .no_compile = true},
                    context.events);
    CellMeter meter(session, settings, context);
    meter.begin(false);
    MeasuredCell cell{.problem = session.problem().text()};
    if (runs < 100) {
      CHECK_THROWS_AS(meter.measure({{cubins_of(session, meter).begin()->second, {}}}, meter.brief(), cell),
                      BrokenEnvironment);
    } else {
      meter.measure({{cubins_of(session, meter).begin()->second, {}}}, meter.brief(), cell);
    }
    const auto trials = session.cache()->trials.of(*session.cache()->workloads.find(session.key()));
    return std::pair(trials.size(), std::ranges::count_if(trials, should_retry));
  };
  CHECK(measure(2) == std::pair<std::size_t, std::ptrdiff_t>(2, 2));
  const auto [trials, unsure] = measure(1000);
  CHECK(trials >= 3);
  CHECK(unsure == 0);
}

TEST_CASE("a cubin that is clearly slower than a cell's best gets no more than its starting points") {
  const RecordedCell recorded;
  const JobContext context;
  const TuneSettings settings;
  const auto trials_of_slow = [&](double within) {
    Session session(
        recorded.device(),
        {.cache = {.path = recorded.folder.file(within > 0 ? "a.db" : "b.db"), .none = false}, .no_compile = true},
        context.events);
    CellMeter meter(session, settings, context);
    const std::map<double, std::string> cubins = cubins_of(session, meter);
    REQUIRE(cubins.size() >= 2);
    const std::string fast = cubins.begin()->second, slow = cubins.rbegin()->second;
    REQUIRE(cubins.rbegin()->first > 1.3 * cubins.begin()->first);
    CellMeter::Effort effort = meter.brief();
    effort.within = within;
    meter.begin(false);
    MeasuredCell cell{.problem = session.problem().text()};
    meter.measure({{fast, {}}, {slow, {}}}, effort, cell);
    const std::vector<TrialRecord> trials = session.cache()->trials.of(*session.cache()->workloads.find(session.key()));
    return std::ranges::count_if(trials, [&](const TrialRecord& one) {
      return meter.cubin_of(session.space_file()->parse_config(one.config)) == slow;
    });
  };
  const auto all = trials_of_slow(0), few = trials_of_slow(1.05);
  CHECK(all >= 3);
  CHECK(few == 1);
}

TEST_CASE("a default that is far from the fastest has the time of its trial, in the duel's scale") {
  DuelingCell dueling;
  auto& [recorded, context, settings, met, session, meter] = dueling;
  REQUIRE(session.default_config());
  const Config space_default = *session.default_config();
  const double trial_us = made_up_time(space_default, session.space_file()->parameters(), 256);
  const std::string fast = cubins_of(session, meter).begin()->second;
  for (const bool meets : {false, true}) {
    CAPTURE(meets);
    CellMeter::Effort effort = meter.brief();
    effort.duel_within = meets ? 1000 : 1.0001;
    met.configs.clear();
    meter.begin(false);
    MeasuredCell cell{.problem = session.problem().text()};
    meter.measure({{fast, {}}}, effort, cell);
    CHECK((std::ranges::find(met.configs, space_default.text()) != met.configs.end()) == meets);
    REQUIRE(cell.measured_default);
    CHECK(cell.measured_default->config == space_default.text());
    CHECK(cell.measured_default->time_us == doctest::Approx(kSlowDuel * trial_us).epsilon(1e-5));
    CHECK(cell.default_cubin == meter.cubin_of(space_default));
    CHECK(cell.measured_default->time_us > 1.0001 * cell.cubins.at(fast).time_us);
  }
}

TEST_CASE("a cell of the fine grid has a shorter duel than a searched one or an unseen shape") {
  DuelingCell dueling;
  auto& [recorded, context, settings, met, session, meter] = dueling;
  const std::string fast = cubins_of(session, meter).begin()->second;
  const auto policy_of = [&](const CellMeter::Effort& effort) {
    MeasuredCell cell{.problem = session.problem().text()};
    meter.begin(false);
    meter.measure({{fast, {}}}, effort, cell);
    return met.policy;
  };
  const DuelPolicy thorough = policy_of(meter.thorough()), brief = policy_of(meter.brief());
  CHECK(thorough.rounds == settings.duel_rounds);
  CHECK(2 * brief.rounds < thorough.rounds);
  CHECK(brief.sample_us < thorough.sample_us);
  bool contended = false;
  meter.duel({session.default_config()->text()}, contended);
  CHECK(met.policy.rounds == thorough.rounds);
  CHECK(met.policy.sample_us == thorough.sample_us);
}

TEST_CASE("what was withdrawn is not chosen in a cell that is measured again") {
  DuelingCell at;
  const std::string cubin = cubins_of(at.session, at.meter).begin()->second;
  at.meter.begin(false);
  MeasuredCell cell;
  at.meter.measure({{cubin, {}}}, at.meter.brief(), cell);
  const std::string failed = cell.cubins.at(cubin).config;
  REQUIRE_FALSE(failed.empty());
  at.meter.withdraw(failed);
  at.meter.measure({{cubin, {}}}, at.meter.brief(), cell);
  CHECK_FALSE(cell.cubins.at(cubin).config.empty());
  CHECK(cell.cubins.at(cubin).config != failed);
}
