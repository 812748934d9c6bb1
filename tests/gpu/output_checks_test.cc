// Every kind of output check on the GPU, with planted bugs.
#include <doctest/doctest.h>

#include "tests/gpu/gpu.h"
#include "tests/gpu/planted_ids.h"

namespace moetune {
namespace {

struct Planted {
  const char* output;
  const char* bug;
  const char* reason;  // part of the message; null: it is right
};

constexpr Planted kPlanted[] = {
    {"exact_i32", "OFF_BY_1", "differs from the reference in 1 elements"},
    {"exact_i32", "OFF_BY_100", "differs from the reference in 1 elements"},
    {"exact_i32", "SKIPS_ONE", "has 1 elements that were never written"},
    {"exact_i32", "SWAPS_INSIDE", "differs from the reference in 2 elements"},
    {"exact_i32", "SWAPS_ACROSS", "differs from the reference in 2 elements, first at 0"},
    {"exact_i64", "OFF_BY_1", "differs from the reference in 1 elements"},
    {"exact_i64", "SKIPS_ONE", "has 1 elements that were never written"},
    {"exact_i64", "SWAPS_ACROSS", "differs from the reference in 2 elements, first at 0"},
    {"exact_u8", "OFF_BY_1", "differs from the reference in 1 elements"},
    {"exact_u8", "SKIPS_ONE", "has 1 elements that were never written"},
    {"exact_u8", "SWAPS_ACROSS", "differs from the reference in 2 elements, first at 0"},
    {"sets_i32", "SWAPS_INSIDE", nullptr},
    {"sets_i32", "SWAPS_ACROSS", "in 2 segments, first in elements 0 to 3"},
    {"sets_i32", "OFF_BY_1", "in 1 segments"},
    {"sets_i32", "SKIPS_ONE", "has 1 elements that were never written"},
    {"sets_i64", "SWAPS_INSIDE", nullptr},
    {"sets_i64", "SWAPS_ACROSS", "in 2 segments, first in elements 0 to 7"},
    {"sets_i64", "OFF_BY_1", "in 1 segments"},
    {"sets_i64", "SKIPS_ONE", "has 1 elements that were never written"},
    {"exact_bf16", "ONE_NAN", "is NaN or infinite where the reference is not"},
    {"exact_bf16", "OFF_BY_1", "differs from the reference, which it should equal"},
    {"exact_bf16", "SKIPS_ONE", "is NaN or infinite where the reference is not"},
    {"exact_bf16", "SWAPS_ACROSS", "differs from the reference, which it should equal"},
    {"y", "ONE_NAN", "is NaN or infinite where the reference is not"},
    {"y", "OFF_BY_1", "off by 1"},
    {"y", "SKIPS_ONE", "is NaN or infinite where the reference is not"},
    {"y", "SWAPS_ACROSS", "off by"},
    {"total", "ONE_NAN", "is NaN or infinite where the reference is not"},
    {"total", "OFF_BY_1", "off by"},
    {"total", "SKIPS_ONE", "off by"},
    {"total", "SWAPS_ACROSS", "off by"},
};

}  // namespace

TEST_CASE("planted bugs in one element of a million are rejected by every kind of check") {
  if (no_gpu()) return;
  constexpr std::int64_t kElements = 1'000'000;
  gpu().open(planted_ids_kernel(), planted_ids_problem(kElements), 3);
  const auto run = [&](const std::string& output, const std::string& bug) {
    const Plan plan = planted_ids_plan(output, bug, kElements);
    return gpu().run({{}, plan, compile_for_gpu(plan.unit)}, one_sample());
  };
  for (const Planted& planted : kPlanted) {
    CAPTURE(planted.output);
    CAPTURE(planted.bug);
    const TrialResult result = run(planted.output, planted.bug);
    CAPTURE(result.message);
    if (planted.reason == nullptr) {
      CHECK(result.outcome == Outcome::ok);
    } else {
      CHECK(result.outcome == Outcome::wrong_result);
      CHECK(result.message.find("'" + std::string(planted.output) + "'") != std::string::npos);
      CHECK(result.message.find(planted.reason) != std::string::npos);
    }
    const TrialResult right = run("", "");
    CHECK_MESSAGE(right.outcome == Outcome::ok, right.message);
  }
}

TEST_CASE("small and odd counts, and inputs from another seed, are right") {
  if (no_gpu()) return;
  for (const std::int64_t elements : {128, 4096, 16 * 10'007}) {
    CAPTURE(elements);
    gpu().open(planted_ids_kernel(), planted_ids_problem(elements), 3);
    const Plan plan = planted_ids_plan("", "", elements);
    const Candidate candidate{{}, plan, compile_for_gpu(plan.unit)};
    const TrialResult result = gpu().run(candidate, one_sample());
    CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
    CHECK(gpu().verify(candidate, 99, 10).outcome == Outcome::ok);
  }
}

}  // namespace moetune
