#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/tuner/scripted_device.h"
#include "tuner/tune.h"

using namespace moetune;

TEST_CASE("a budget of time ends a search before its trials are used up") {
  constexpr std::int64_t kPoints = 64;
  std::vector<Parameter> parameters = {{"x", {}, ""}};
  std::vector<Position> rows;
  for (std::int64_t x = 0; x < kPoints; ++x) {
    parameters[0].values.push_back(Value::integer(x));
    rows.push_back(static_cast<Position>(x));
  }
  const LegalSpace space(parameters, rows);
  ScriptedDevice device;
  device.answer = [](const Config& config) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // 1.9 s in all
    return timed(100 + static_cast<double>(config.number("x")));
  };
  TuneRequest request;
  request.space = &space;
  request.strategy = "random";
  request.budget = kPoints;
  request.time_budget_s = 0.7;
  request.in_flight = 4;
  const TuneResult result = tune(request, {.device = device}, {});
  CHECK(result.counts.total() >= 1);
  CHECK(result.counts.total() < kPoints);
  CHECK_FALSE(result.interrupted);
  CHECK(result.best);
}
