#include "serve/run/event_json.h"

#include <doctest/doctest.h>

#include "tuner/tune.h"

using namespace moetune;

namespace {

// The event as a client has it that reads the service's text.
Document as_received(const Event& sent) {
  Document received;
  play_event(event_document(sent).dump(), sent.job, [&](const Event& event) {
    CHECK(event.job == sent.job);
    received = event_document(event);
  });
  return received;
}

}  // namespace

TEST_CASE("a client hears of each event what the service heard of it") {
  Trial trial{.id = 12, .resumed = true}, best{.id = 3};
  trial.config.set("tile", Value::named("64", 0));
  trial.result.outcome = Outcome::too_slow;
  trial.result.message = "dropped";
  trial.result.contended = true;
  trial.result.measurement.median_us = 30;
  best.config.set("tile", Value::named("32", 0));
  best.result.measurement.median_us = 20;
  TrialCounts counts;
  std::size_t number = 0;
  for (const Outcome outcome : kOutcomes) counts[outcome] = ++number;
  counts.resumed = ++number;
  counts.unmeasured = ++number;
  const std::string text = "a sentence";
  const CanaryReading reading{.elapsed_us = 5000, .lost_us = 900, .slow_share = 0.25, .other_processes = 2};
  const SearchStarted search{.legal = 100, .budget = 20, .time_budget_s = 2.5, .work = {3, Unit::tflop_s}};
  for (const Event& event : std::vector<Event>{{7, PhaseChanged{Phase::duel}},
                                               {7, search},
                                               {7, TrialEnded{trial, counts, &best, true}},
                                               {7, GpuDisturbed{reading}},
                                               {7, GpuQuiet{1.5}},
                                               {7, GpuContended{2.5}},
                                               {7, RangeAdvanced{"fill", 3, 9, 2, 0.05, 12}},
                                               {7, Warning{WarningKind::unusual_time, text}},
                                               {7, Finished{true}}}) {
    Document sent = event_document(event);
    CAPTURE(sent.dump());
    if (sent.contains("best")) sent["best"] = "";  // its time alone is read
    CHECK(as_received(event) == sent);
  }
  const DeviceInfo device{.key = {.name = "H200"}, .architecture = "sm_90a", .id = "cuda:1"};
  const std::string kernel = "router", problem = "tokens=1", recorded = "2026-01-01", why = "none";
  const Event chosen{7, DeviceChosen{kernel, problem, device, recorded, why}};
  const Document sent = event_document(chosen), received = as_received(chosen);
  for (const char* field : {"kernel", "problem", "recorded_at", "why_no_gpu"}) CHECK(received[field] == sent[field]);
  for (const char* field : {"id", "name", "architecture", "recorded"})
    CHECK(received["device"][field] == sent["device"][field]);
}
