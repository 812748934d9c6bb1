#include "jobs/propose/messages.h"

#include <doctest/doctest.h>

using namespace moetune;

TEST_CASE(
    "a proposer is told of a trial its time, its share of the roofline, what it erred and may, and its registers") {
  Trial trial{.id = 1};
  trial.config.set("tile", Value::integer(64));
  trial.result.measurement.median_us = 20;
  trial.result.measurement.low_us = 19;
  trial.result.measurement.high_us = 22;
  trial.result.max_error = 0.02;
  trial.result.error_share = 0.25;
  Build build;
  build.entries["first"] = {.registers = 40, .spill_store_bytes = 8};
  build.entries["second"] = {.registers = 64, .static_shared = 1024};
  const Document told = tell_document(trial, &build, {}, Floor{.us = 15});
  CHECK(told["config"] == Document{{"tile", 64}});
  CHECK(told["time_us"] == 20);
  CHECK(told["interval"] == Document{19, 22});
  CHECK(told["roofline"] == 0.75);
  CHECK(told["error"] == 0.02);
  CHECK(told["allowed"] == 0.08);
  CHECK(told["registers"] == 64);
  CHECK(told["spills"] == 8);
  CHECK(told["shared"] == 1024);
  trial.result.outcome = Outcome::launch_failed;
  const Document failed = tell_document(trial, nullptr, {}, {});
  for (const char* field : {"interval", "roofline", "registers"}) CHECK_FALSE(failed.contains(field));
}
