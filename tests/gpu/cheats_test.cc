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

Candidate candidate_of(const std::string& cheat) {
  const Plan plan = cheats_plan(cheat);
  return {{}, plan, compile_for_gpu(plan.unit)};
}

}  // namespace

TEST_CASE("a kernel that keeps results in a global is not even run") {
  if (no_gpu()) return;
  const Candidate candidate = candidate_of("MEMO_IN_GLOBAL");
  CHECK(candidate.build->outcome == Outcome::compile_failed);
  CHECK_MESSAGE(candidate.build->message.find("keeps 'remembered'") != std::string::npos,
                candidate.build->message);
}

TEST_CASE("a kernel that cheats is refused when it would lead, and in the finals") {
  if (no_gpu()) return;
  gpu().open(cheats_kernel(), cheats_problem(), 7);
  MeasurePolicy leads;
  leads.prove_below_us = std::numeric_limits<double>::infinity();
  const Candidate honest = candidate_of("");
  const TrialResult right = gpu().run(honest, leads);
  REQUIRE_MESSAGE(right.outcome == Outcome::ok, right.message);
  for (const char* cheat : kCheats) {
    CAPTURE(std::string(cheat));
    const Candidate candidate = candidate_of(cheat);
    REQUIRE_MESSAGE(candidate.build->outcome == Outcome::ok, candidate.build->message);
    const TrialResult result = gpu().run(candidate, leads);
    MESSAGE(std::string(cheat) << ": " << result.measurement.median_us << " us, honest "
                               << right.measurement.median_us << ": " << result.message);
    CHECK(result.outcome == Outcome::wrong_result);
    const std::vector<TrialResult> finals = gpu().duel({candidate, honest}, {.rounds = 5, .proves = true});
    CHECK(finals[0].outcome == Outcome::wrong_result);
    CHECK_MESSAGE(finals[1].outcome == Outcome::ok, finals[1].message);
  }
}

TEST_CASE("an honest kernel stands the proof under every timing, again and again") {
  if (no_gpu()) return;
  gpu().open(cheats_kernel(), cheats_problem(), 7);
  const Candidate honest = candidate_of("");
  for (const Timing timing : kTimings) {
    CAPTURE(timing_name(timing));
    MeasurePolicy leads;
    leads.timing = timing;
    leads.prove_below_us = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 20; ++i) {
      const TrialResult result = gpu().run(honest, leads);
      CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
    }
  }
}

}  // namespace moetune
