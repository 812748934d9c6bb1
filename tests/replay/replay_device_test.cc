#include "replay/replay_device.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/named_kernel.h"
#include "tests/replay/sample_recording.h"

using namespace moetune;

namespace {

// As much of a kernel as opening a recording looks at: its name and the schema of its problems.
class Axpy : public NamedKernel {
 public:
  explicit Axpy(std::string name = "axpy")
      : NamedKernel(std::move(name),
                    {{"n", "elements", Value::integer(1), 1, 1 << 20, {}},
                     {"dtype", "type", Value::named("fp16", 0), 0, 0, {"fp16", "bf16"}},
                     {"later", "a dimension that the recording predates", Value::integer(3), 0, 9, {}}}) {}
  std::vector<Buffer> buffers(const Problem&, const Call&, std::uint64_t) const override { return {}; }
  std::unique_ptr<const Launcher> launcher(const Config&, const Problem&, const DeviceLimits&) const override {
    return nullptr;
  }
  Plan reference(Reference, const Problem&, const Call&, const DeviceLimits&) const override { return {}; }
  Cost cost(const Problem&) const override { return {}; }
};

std::shared_ptr<const Recording> shared_sample() {
  Recording recording = sample_recording();
  recording.digest = "abc";
  recording.trials[1] = {Outcome::compile_failed, 0, {}, "no such instruction"};
  recording.trials[2] = {Outcome::ok, 50, {}, ""};
  return std::make_shared<const Recording>(std::move(recording));
}

Candidate candidate(const Recording& recording, ConfigId id) { return {.config = recording.space.config(id)}; }

Problem problem(const Kernel& kernel, std::string_view text) { return kernel.parse(text); }

}  // namespace

TEST_CASE("a replay is the recorded GPU, and never to be taken for it") {
  const auto recording = shared_sample();
  const ReplayDevice device({recording}, "replay:r.json");
  CHECK(device.info().recorded);
  CHECK(device.info().id == "replay:r.json");
  CHECK(device.info().key.name == "NVIDIA H200");
  CHECK(device.info().key.origin == "replay:abc");
  CHECK(device.info().key.text() != recording->hardware.text());
  CHECK(device.info().architecture == "sm_90a");
  CHECK(device.info().limits.shared_per_block == 232448);
}

TEST_CASE("a recording of unknown hardware has no architecture") {
  Recording recording = sample_recording();
  recording.hardware.compute_capability = 0;
  CHECK(ReplayDevice({std::make_shared<const Recording>(recording)}, "replay:x").info().architecture.empty());
}

TEST_CASE("it replays outcome, median, samples and message") {
  const auto recording = shared_sample();
  ReplayDevice device({recording}, "replay:r.json");
  const TrialResult ok = device.run(candidate(*recording, 0), {});
  CHECK(ok.outcome == Outcome::ok);
  CHECK(ok.measurement.median_us == recording->trials[0].time_us);
  CHECK(ok.measurement.samples_us.size() == 7);
  CHECK(ok.measurement.low_us < ok.measurement.median_us);
  CHECK(ok.measurement.high_us > ok.measurement.median_us);
  const TrialResult failed = device.run(candidate(*recording, 1), {});
  CHECK(failed.outcome == Outcome::compile_failed);
  CHECK(failed.message == "no such instruction");
  CHECK(failed.measurement.median_us == 0);
  const TrialResult unsampled = device.run(candidate(*recording, 2), {});
  CHECK(unsampled.measurement.low_us == 50);
  CHECK(unsampled.measurement.high_us == 50);
}

TEST_CASE("clear losers are reported as a GPU reports them, in trials and not in duels") {
  const auto recording = shared_sample();
  ReplayDevice device({recording}, "replay:r.json");
  const TrialResult dropped = device.run(candidate(*recording, 2), {.drop_above_us = 49});
  CHECK(dropped.outcome == Outcome::too_slow);
  CHECK(dropped.measurement.median_us == 50);
  CHECK(device.run(candidate(*recording, 2), {.drop_above_us = 50}).outcome == Outcome::ok);
  const auto duel = device.duel({candidate(*recording, 2), candidate(*recording, 1)}, {.rounds = 21});
  REQUIRE(duel.size() == 2);
  CHECK(duel[0].outcome == Outcome::ok);
  CHECK(duel[1].outcome == Outcome::compile_failed);
  CHECK(device.verify(candidate(*recording, 2), 9, 10).outcome == Outcome::ok);
}

TEST_CASE("a configuration that was never recorded is pruned, with a message") {
  const auto recording = shared_sample();
  ReplayDevice device({recording}, "replay:r.json");
  const TrialResult result =
      device.run({.config = {{"tile", Value::integer(16)}, {"loader", Value::named("tma", 1)}}}, {});
  CHECK(result.outcome == Outcome::pruned);
  CHECK(result.message == "the recording has no such configuration: tile=16,loader=tma");
}

TEST_CASE("it opens for its own kernel and problem only") {
  ReplayDevice device({shared_sample()}, "replay:r.json");
  const Axpy axpy;
  CHECK_NOTHROW(device.open(axpy, problem(axpy, "n=1024,dtype=bf16"), 1));
  CHECK_THROWS_WITH_AS(device.open(axpy, problem(axpy, "n=1024,dtype=fp16"), 1),
                       "replay:r.json records n=1024,dtype=bf16,later=3, not n=1024,dtype=fp16,later=3", BadInput);
  const Axpy other("router");
  CHECK_THROWS_WITH_AS(device.open(other, problem(other, "n=1024,dtype=bf16"), 1),
                       "replay:r.json is a recording of axpy, not of router", BadInput);
}
