#include "tuner/worker/worker_messages.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/buffer.h"
#include "tuner/worker/worker_session.h"

namespace moetune {

TEST_CASE("results and policies cross unchanged, infinities included") {
  TrialResult result;
  result.outcome = Outcome::wrong_result;
  result.message = "off by \"1\"";
  result.measurement = {12.5, 12, 13, {12, 12.5, 13}, 1980, 2600, 55, true};
  result.max_error = std::numeric_limits<double>::infinity();
  result.dissimilarity = 0.25;
  result.validate_s = 0.5;
  const auto same = nlohmann::json::parse(nlohmann::json(RunReply{result, true, false, true}).dump()).get<RunReply>();
  CHECK(same.damaged);
  CHECK_FALSE(same.context_lost);
  CHECK(same.result.outcome == result.outcome);
  CHECK(same.result.message == result.message);
  CHECK(same.result.measurement.samples_us == result.measurement.samples_us);
  CHECK(same.result.measurement.high_us == 13);
  CHECK(same.result.measurement.sm_clock_mhz == 1980);
  CHECK(same.result.measurement.throttled);
  CHECK(same.result.max_error == result.max_error);
  CHECK(same.result.dissimilarity == 0.25);

  MeasurePolicy policy;
  policy.max_samples = 11;
  const auto back = nlohmann::json::parse(nlohmann::json(policy).dump()).get<MeasurePolicy>();
  CHECK(back.drop_above_us == std::numeric_limits<double>::infinity());
  CHECK(back.max_samples == 11);
}

TEST_CASE("a canary's reading comes back as it was sent, with and without what NVML says") {
  for (const bool known : {true, false}) {
    CanaryReply reply;
    reply.reading = {.elapsed_us = 5001.5,
                     .lost_us = 2000.25,
                     .longest_gap_us = 1999.5,
                     .slow_share = 0.125,
                     .windows_per_us = 0.75,
                     .throttled = true};
    if (known) reply.reading.other_processes = 2;
    reply.failure = known ? "" : "an error";
    const auto same = nlohmann::json::parse(nlohmann::json(reply).dump()).get<CanaryReply>();
    CHECK(same.reading.elapsed_us == 5001.5);
    CHECK(same.reading.lost_us == 2000.25);
    CHECK(same.reading.longest_gap_us == 1999.5);
    CHECK(same.reading.slow_share == 0.125);
    CHECK(same.reading.windows_per_us == 0.75);
    CHECK(same.reading.throttled);
    CHECK(same.reading.other_processes == reply.reading.other_processes);
    CHECK(same.failure == reply.failure);
  }
}

TEST_CASE("the largest page table that a problem may have fits a message") {
  constexpr std::int64_t kEntries = std::int64_t{64} << 20;
  // The table, and where every unused page of a ragged batch is poisoned by itself, in keys and in values.
  const std::int64_t table = kEntries * 4, poison = 2 * (kEntries / 16) * static_cast<std::int64_t>(sizeof(Range));
  CHECK(static_cast<std::uint64_t>(table + poison) < Channel::kMaxTotal / 2);
}

TEST_CASE("the worker answers nonsense with an error and serves on") {
  WorkerSession session;
  for (const char* header :
       {"", "{", "[]", "{}", R"({"op":"sing"})", R"({"op":"run"})", R"({"op":"open"})", R"({"op":7})"}) {
    CAPTURE(header);
    const nlohmann::json reply = nlohmann::json::parse(session.handle({header, {}}).header);
    CHECK(reply.at("error").at("kind") == "request");
    CHECK_FALSE(reply.at("error").at("message").get<std::string>().empty());
  }
}

}  // namespace moetune
