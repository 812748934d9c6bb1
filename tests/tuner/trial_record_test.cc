#include "tuner/trial_record.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/plan_interface.h"
#include "tests/tuner/scripted_device.h"

using namespace moetune;

TEST_CASE("a trial survives the way through its record") {
  const Config config{{"tile", Value::integer(64)}, {"loader", Value::named("tma", 1)}};
  TrialResult result = timed(12.5);
  result.measurement.samples_us = {12.4, 12.5, 12.6};
  Build build;
  build.entries["main"] = {.registers = 96, .spill_store_bytes = 8};
  build.entries["combine"] = {.registers = 32, .static_shared = 128};

  const TrialRecord record = to_record(config, result, &build, {.strategy = "local", .seed = 7, .device = "cuda:0"});
  CHECK(record.config == "tile=64,loader=tma");
  CHECK(record.samples == 3);
  const auto facts = nlohmann::json::parse(record.facts);
  CHECK(facts["registers"] == 96);
  CHECK(facts["static_shared"] == 128);
  CHECK(nlohmann::json::parse(record.provenance)["seed"] == 7);

  const auto back = from_record(record);
  REQUIRE(back);
  CHECK(back->outcome == Outcome::ok);
  CHECK(back->measurement.median_us == 12.5);
  CHECK(back->measurement.low_us == result.measurement.low_us);
}

TEST_CASE("a failed trial keeps its reason and carries no time") {
  const TrialResult failed{.outcome = Outcome::launch_failed, .message = "CUDA_ERROR_LAUNCH_FAILED"};
  const TrialRecord record = to_record({}, failed, nullptr, {});
  CHECK(record.time_us == 0);
  CHECK(record.samples == 0);
  CHECK(from_record(record)->message == "CUDA_ERROR_LAUNCH_FAILED");
}

TEST_CASE("a recording's name may hold any bytes") {
  const TrialRecord record = to_record({}, timed(1), nullptr, {.device = "replay:\xff.json"});
  CHECK(nlohmann::json::parse(record.provenance)["device"] == "replay:\xef\xbf\xbd.json");
  const WinnerRecord winner = to_winner({}, timed(1), {}, nullptr, 0, {.device = "replay:\xff.json"});
  CHECK(nlohmann::json::accept(winner.provenance));
}

TEST_CASE("an outcome of another version is not guessed, and a time that is none not taken") {
  CHECK_FALSE(from_record({.outcome = "melted"}));
  CHECK_FALSE(from_record({.outcome = "ok", .time_us = -3}));
  CHECK_FALSE(from_record({.outcome = "too_slow"}));
  CHECK(from_record({.outcome = "crashed"}));
}

TEST_CASE("a winner's plan and cubin come back as they were stored") {
  Candidate winner;
  winner.config = Config{{"tile", Value::integer(64)}};
  winner.plan.unit = {"templates/k/k.cu", {{"TILE", "64"}}};
  Launch& launch = winner.plan.launches.emplace_back();
  launch.entry = "k";
  launch.grid = {3, 2, 1};
  launch.block = {128, 1, 1};
  launch.dynamic_shared = 4096;
  winner.plan.launches[0].arguments = {{"x", Pointer{"x", 16}}, {"a", 1.5f}};
  auto build = std::make_shared<Build>();
  build->cubin = {1, 2, 3};
  winner.build = build;

  const TrialResult baseline = timed(20);
  const WinnerRecord record =
      to_winner(winner, timed(10), winner, &baseline, 0.9, {.strategy = "local", .trials = 200});
  CHECK(record.default_time_us == 20);
  CHECK(record.roofline == 0.9);
  CHECK(record.default_launch.config == record.config);
  CHECK(record.default_launch.cubin == record.cubin);
  CHECK(record.interface == interface_digest(winner.plan.unit, winner.plan));
  CHECK(to_winner(winner, timed(10), {}, nullptr, 0, {}).default_launch.config.empty());

  const Candidate loaded = from_winner(record, winner.config);
  CHECK(loaded.plan.unit == winner.plan.unit);
  REQUIRE(loaded.plan.launches.size() == 1);
  CHECK(loaded.plan.launches[0].grid == Dim3{3, 2, 1});
  CHECK(std::get<Pointer>(loaded.plan.launches[0].arguments[0].value).offset == 16);
  CHECK(loaded.build->cubin == std::vector<std::uint8_t>{1, 2, 3});
}

TEST_CASE("what may be due to the moment is told from what the configuration does") {
  const auto record = [](Outcome outcome, const std::string& message, const Build* build = nullptr) {
    return to_record({}, {.outcome = outcome, .message = message}, build, {});
  };
  Build broken_down, refused;
  broken_down.repeatable = false;
  CHECK(should_retry(record(Outcome::timed_out, "late")));
  CHECK(should_retry(record(Outcome::crashed, "signal 11")));
  CHECK(should_retry(record(Outcome::out_of_memory, "cuMemAlloc of 8 bytes")));
  CHECK(should_retry(record(Outcome::compile_failed, "time limit", &broken_down)));
  CHECK(should_retry({.outcome = "melted"}));
  CHECK_FALSE(should_retry(record(Outcome::compile_failed, "line 3: no", &refused)));
  CHECK_FALSE(should_retry(record(Outcome::launch_failed, "out of device memory")));
  CHECK_FALSE(should_retry(record(Outcome::wrong_result, "off by 1")));
  CHECK_FALSE(should_retry(record(Outcome::too_slow, "dropped")));
  CHECK_FALSE(should_retry(record(Outcome::ok, "")));
}
