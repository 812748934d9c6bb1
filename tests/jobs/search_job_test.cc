#include "jobs/search_job.h"

#include <doctest/doctest.h>

#include <barrier>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "tests/jobs/made_up_range.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

const std::string kFirst = "replay:decode_attention_h200_b8_c4096";

SearchRequest request_for(const std::string& device, const std::string& cache = "") {
  SearchRequest request;
  request.target.device = device;
  request.target.cache = {.path = cache, .none = cache.empty()};
  request.settings.strategy = "local";
  request.settings.budget = 60;
  request.no_compile = true;
  return request;
}

// The device of a made-up recording of so many tokens, which is read quicker than a shipped one.
std::string made_up_device(const TemporaryFolder& folder, std::int64_t tokens) {
  const std::string file = folder.file("router_" + std::to_string(tokens) + ".json.zst");
  write_recording(testing::made_up_recording(tokens), file);
  return "replay:" + file;
}

// What was measured, in order, with its outcome and time.
std::vector<std::string> trajectory(const SearchResult& result) {
  std::vector<std::string> steps;
  for (const Trial& trial : result.tune.trials) {
    steps.push_back(trial.config.text() + " " + std::string(outcome_name(trial.result.outcome)) + " " +
                    std::to_string(trial.result.measurement.median_us));
  }
  return steps;
}

struct Seen {
  std::vector<std::string> order;  // of events, each kind once in a row
  std::vector<Phase> phases;
  std::size_t begun = 0, ended = 0, warnings = 0, finished = 0;
  bool other_job = false;

  void handle(JobId expected, const Event& event) {
    other_job = other_job || event.job != expected;
    const auto note = [&](const char* what) {
      if (order.empty() || order.back() != what) order.emplace_back(what);
    };
    std::visit(Overloaded{[&](const DeviceChosen&) { note("device"); },
                          [&](const PhaseChanged& change) { phases.push_back(change.phase); },
                          [&](const SearchStarted&) { note("started"); }, [&](const TrialBegun&) { ++begun; },
                          [&](const TrialEnded&) {
                            ++ended;
                            note("trials");
                          },
                          [&](const SearchEnded&) { note("search ended"); }, [&](const RangeAdvanced&) {},
                          [&](const CeilingMeasured&) {}, [&](const GpuDisturbed&) {}, [&](const GpuQuiet&) {},
                          [&](const GpuContended&) {}, [&](const Warning&) { ++warnings; },
                          [&](const Finished&) {
                            ++finished;
                            note("finished");
                          }},
               event.what);
  }
};

}  // namespace

TEST_CASE("a search reports its device, phases, trials and end, in order, with the job's id") {
  const TemporaryFolder folder;
  Seen seen;
  const SearchResult result =
      search(request_for(made_up_device(folder, 256)),
             {.events = {.job = 7, .listener = [&](const Event& event) { seen.handle(7, event); }}});
  CHECK_FALSE(seen.other_job);
  CHECK(seen.order == std::vector<std::string>{"device", "started", "trials", "search ended", "finished"});
  // Nothing was compiled and there is no cache: nothing is stored.
  CHECK(seen.phases == std::vector<Phase>{Phase::preparing, Phase::searching, Phase::duel, Phase::verifying});
  CHECK(seen.begun == result.tune.trials.size());
  CHECK(seen.ended == result.tune.trials.size());
  CHECK(seen.finished == 1);
  CHECK(seen.warnings == 0);
}

TEST_CASE("a listener's stop request ends the search after the trial, and the result says so") {
  std::stop_source stop;
  std::size_t ended = 0;
  bool interrupted = false;
  const auto listener = [&](const Event& event) {
    if (std::holds_alternative<TrialEnded>(event.what) && ++ended == 5) stop.request_stop();
    if (const auto* finished = std::get_if<Finished>(&event.what)) interrupted = finished->interrupted;
  };
  const TemporaryFolder folder;
  const SearchResult result =
      search(request_for(made_up_device(folder, 256)), {.events = {.listener = listener}, .stop = stop.get_token()});
  CHECK(result.tune.interrupted);
  CHECK(interrupted);
  CHECK(ended == 5);
  CHECK(result.tune.trials.size() == 5);
}

TEST_CASE("two searches at once on two devices and one cache go the way that each goes alone") {
  const TemporaryFolder folder;
  const std::vector<std::string> devices = {made_up_device(folder, 4), made_up_device(folder, 1024)};
  std::vector<std::vector<std::string>> alone(2), together(2);
  for (std::size_t i = 0; i < 2; ++i) alone[i] = trajectory(search(request_for(devices[i]), {}));
  CHECK(alone[0] != alone[1]);

  std::mutex mutex;
  std::map<JobId, std::size_t> ended;
  const EventListener shared = [&](const Event& event) {
    if (!std::holds_alternative<TrialEnded>(event.what)) return;
    const std::lock_guard lock(mutex);
    ++ended[event.job];
  };
  std::barrier start(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        SearchRequest request = request_for(devices[i], folder.file("both.db"));
        request.cold = true;  // neither is to learn from what the other stores meanwhile
        start.arrive_and_wait();
        together[i] = trajectory(search(request, {.events = {.job = i + 1, .listener = shared}}));
      });
    }
  }
  CHECK(together[0] == alone[0]);
  CHECK(together[1] == alone[1]);
  CHECK(ended[1] == alone[0].size());
  CHECK(ended[2] == alone[1].size());
}

TEST_CASE("what is wrong with a request is said by the field's name") {
  const auto field = [](const SearchRequest& request) -> std::string {
    try {
      search(request, {});
    } catch (const BadField& error) {
      CHECK(std::string(error.what()) == error.field() + ": " + error.reason());
      return error.field();
    }
    return "";
  };
  SearchRequest request = request_for(kFirst);
  request.settings.strategy = "locl";
  CHECK(field(request) == "strategy");
  CHECK(field(request_for("replay:none")) == "device");
  CHECK(field(request_for("gpu")) == "kernel");
  request = request_for("gpu");
  request.target.workload.kernel = "decode_attention";
  CHECK(field(request) == "device");
  request.target.device = kFirst;
  request.target.workload.problem = "batch=0";
  CHECK(field(request) == "problem");
  request.target.workload = {.kernel = "decode_attention", .problem = "", .preset = "none"};
  CHECK(field(request) == "preset");
  request = request_for(kFirst, "somewhere");
  request.target.cache.none = true;
  CHECK(field(request) == "cache");
}

TEST_CASE("the document of a search holds what the result does") {
  const SearchRequest request = request_for(kFirst);
  SearchResult result = search(request, {});
  REQUIRE(result.tune.best);
  CHECK(result.subject.optimum_us > 0);
  result.subject.optimum_us = result.tune.best->result.measurement.median_us / 2;
  const Document document = search_document(request, result);
  CHECK(document["kernel"] == "decode_attention");
  CHECK(document["legal"] == result.legal);
  CHECK(document["best"]["config"] == result.tune.best->config.text());
  CHECK(document["best"]["regret"] == 2);
  CHECK(document["best"]["roofline"].get<double>() > 0);
  CHECK(document["trials"]["total"] == result.tune.counts.total());
  CHECK(document["exhausted"] == result.tune.exhausted);
  CHECK(document["compiled"] == false);
  CHECK(document["cache"].is_null());
  CHECK(document["device"]["uuid"].is_null());
}

TEST_CASE("a row of a recording that is faster than its GPU can be wins nothing") {
  const TemporaryFolder folder;
  Recording recording = testing::made_up_recording(256);
  const std::size_t cheat = recording.trials.size() / 2;
  recording.trials[cheat].time_us = 0.002f;
  write_recording(recording, folder.file("cheat.json.zst"));
  SearchRequest request = request_for("replay:" + folder.file("cheat.json.zst"), folder.file("cache.db"));
  request.settings.strategy = "exhaustive";
  request.settings.budget = recording.space.size();
  const SearchResult result = search(request, {});
  CHECK(result.tune.counts[Outcome::implausible] == 1);
  REQUIRE(result.tune.best);
  CHECK(result.tune.best->id != cheat);
  CHECK(result.tune.best->result.measurement.median_us > 1);
}
