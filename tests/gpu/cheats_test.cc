// Kernels that spare work and look right: the judge's negative controls.
#include "tests/gpu/cheats.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/gpu/gpu.h"

namespace moetune {
namespace {

constexpr const char* kCheats[] = {
    "MEMO_IN_SCRATCH",    "MEMO_IN_SHARED",      "MEMO_BY_CONTENT", "SOME_ROWS",      "SKIPS_WHAT_IS_WRITTEN",
    "EVERY_OTHER_LAUNCH", "ONLY_OUTSIDE_GRAPHS", "FIRST_RESULT",    "MADE_FROM_SEED", "READS_BEHIND",
};

Candidate candidate_of(const std::string& cheat, std::int64_t columns) {
  const Plan plan = cheats_plan(cheat, columns);
  return {{}, plan, compile_for_gpu(plan.unit)};
}

MeasurePolicy leading() {
  MeasurePolicy policy;
  policy.prove_below_us = std::numeric_limits<double>::infinity();
  return policy;
}

// What saves less than this the proof lets pass: what a block finds in shared memory again depends on its SM.
constexpr double kLeastSaving = 0.25;

void check_refused(const char* cheat, std::int64_t columns, const Candidate& honest, double honest_us) {
  CAPTURE(std::string(cheat));
  CAPTURE(columns);
  const Candidate candidate = candidate_of(cheat, columns);
  REQUIRE_MESSAGE(candidate.build->outcome == Outcome::ok, candidate.build->message);
  const auto saves = [&](const TrialResult& result) {
    return result.measurement.median_us < (1 - kLeastSaving) * honest_us;
  };
  const TrialResult result = gpu().run(candidate, leading());
  MESSAGE(std::string(cheat) << ": " << result.measurement.median_us << " us, honest " << honest_us << ": "
                             << result.message);
  CHECK((result.outcome == Outcome::wrong_result || !saves(result)));
  const std::vector<TrialResult> finals = gpu().duel({candidate, honest}, {.rounds = 5, .proves = true});
  CHECK((finals[0].outcome == Outcome::wrong_result || !saves(finals[0])));
  CHECK_MESSAGE(finals[1].outcome == Outcome::ok, finals[1].message);
}

}  // namespace

TEST_CASE("a kernel that keeps results in a global is not even run") {
  if (no_gpu()) return;
  const Candidate candidate = candidate_of("MEMO_IN_GLOBAL", kColdColumns);
  CHECK(candidate.build->outcome == Outcome::compile_failed);
  CHECK_MESSAGE(candidate.build->message.find("keeps 'remembered'") != std::string::npos, candidate.build->message);
}

TEST_CASE("a kernel that cheats is refused when it would lead, and in the finals") {
  if (no_gpu()) return;
  for (const std::int64_t columns : {kColdColumns, kWarmColumns}) {
    gpu().open(cheats_kernel(), cheats_problem(columns), 7);
    const Candidate honest = candidate_of("", columns);
    const TrialResult right = gpu().run(honest, leading());
    REQUIRE_MESSAGE(right.outcome == Outcome::ok, right.message);
    for (const char* cheat : kCheats) check_refused(cheat, columns, honest, right.measurement.median_us);
  }
}

TEST_CASE("an honest kernel stands the proof under every timing, again and again") {
  if (no_gpu()) return;
  for (const std::int64_t columns : {kColdColumns, kWarmColumns}) {
    gpu().open(cheats_kernel(), cheats_problem(columns), 7);
    const Candidate honest = candidate_of("", columns);
    for (const Timing timing : kTimings) {
      CAPTURE(timing_name(timing));
      MeasurePolicy leads = leading();
      leads.timing = timing;
      for (int i = 0; i < 20; ++i) {
        const TrialResult result = gpu().run(honest, leads);
        CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
      }
    }
  }
}

}  // namespace moetune
