#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/registry.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/planted.h"
#include "tests/kernels/answers/host_values.h"

namespace moetune {
namespace {

// The first element in which two tensors differ in value or in being NaN; -1 where they are equal.
std::int64_t first_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool equal = std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]);
    if (!equal) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("device fills equal host_values bit for bit, for every type, fill and copy") {
  if (no_gpu()) return;
  constexpr std::uint64_t kSeed = 11;
  const Problem problem = planted_problem(100'003);
  gpu().open(planted_kernel(), problem, kSeed);
  const std::vector<Buffer> buffers = planted_kernel().buffers(problem, kSeed);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.role != Role::input) continue;
    for (int copy = 0; copy < (buffer.rotates ? 3 : 1); ++copy) {
      CAPTURE(buffer.name);
      CAPTURE(copy);
      const std::vector<double> actual =
          widened(buffer.dtype, gpu().fetch(buffer.name, CudaDevice::Tensor::actual, copy));
      const std::vector<double> expected = host_values(buffer, kSeed, fill_stream(i, static_cast<std::size_t>(copy)));
      const std::int64_t where = first_difference(actual, expected);
      CHECK(where == -1);
      if (where >= 0)
        MESSAGE(actual[static_cast<std::size_t>(where)] << " instead of " << expected[static_cast<std::size_t>(where)]);
    }
  }
}

TEST_CASE("each of 16 copies of what describes ragged sequences in pages has another order of them") {
  if (no_gpu()) return;
  const Kernel& kernel = find_kernel("decode_attention");
  const Problem problem = kernel.parse("batch=9,context=700,page=16,lengths=ragged,q_heads=8,kv_heads=2");
  gpu().open(kernel, problem, 3);
  for (const Buffer& buffer : kernel.buffers(problem, 3)) {
    if (buffer.sequences == 0) continue;
    CAPTURE(buffer.name);
    for (int order = 0; order < 16; ++order) {
      const std::vector<std::int32_t> expected = integers_in_order(buffer, order);
      const std::vector<double> actual =
          widened(buffer.dtype, gpu().fetch(buffer.name, CudaDevice::Tensor::actual, order));
      CHECK(std::ranges::equal(actual, expected));
    }
    CHECK_THROWS_WITH(gpu().fetch(buffer.name, CudaDevice::Tensor::actual, 16), doctest::Contains("no copy 16"));
  }
}

TEST_CASE("a right kernel with clusters, overlap, scratch and 64 KiB of shared memory passes") {
  if (no_gpu()) return;
  for (const std::int64_t elements : {30, 255, 1000, 1'000'001}) {
    CAPTURE(elements);
    gpu().open(planted_kernel(), planted_problem(elements), 3);
    const Plan plan = planted_plan("", elements, gpu().info().limits);
    const TrialResult result = gpu().run({{}, plan, compile_for_gpu(plan.unit)}, {});
    REQUIRE_MESSAGE(result.outcome == Outcome::ok, result.message);
    CHECK(result.measurement.median_us > 0.5);
    CHECK(result.measurement.median_us < 1000);
    CHECK(result.measurement.samples_us.size() >= 7);
    CHECK(result.dissimilarity < 1e-4);
  }
}

TEST_CASE("each planted bug is rejected through the real path, and the next candidate passes") {
  if (no_gpu()) return;
  constexpr std::int64_t kElements = 100'003;
  gpu().open(planted_kernel(), planted_problem(kElements), 3);
  const auto outcome_of = [&](const std::string& bug, double limit_s) {
    const Plan plan = planted_plan(bug, kElements, gpu().info().limits);
    MeasurePolicy policy = one_sample();
    policy.time_limit_s = limit_s;
    const TrialResult result = gpu().run({{}, plan, compile_for_gpu(plan.unit)}, policy);
    MESSAGE(bug << ": " << outcome_name(result.outcome) << ", " << result.message);
    return result.outcome;
  };
  for (const char* bug : {"ONE_WRONG", "ALL_ZERO", "SKIPS_ONE", "READS_POISON", "READS_PAST_END", "WRITES_PAST_END",
                          "WRITES_BEFORE", "CHANGES_INPUT", "OVERRUNS_SCRATCH", "KEEPS_COUNTER", "WEARS"}) {
    CAPTURE(bug);
    CHECK(outcome_of(bug, 10) == Outcome::wrong_result);
    CHECK(outcome_of("", 10) == Outcome::ok);
  }
  const int restarts = gpu().restarts();
  CHECK(outcome_of("FAULTS", 10) == Outcome::launch_failed);
  CHECK(outcome_of("", 10) == Outcome::ok);
  CHECK(outcome_of("HANGS", 1) == Outcome::timed_out);
  CHECK(outcome_of("", 10) == Outcome::ok);
  CHECK(gpu().restarts() == restarts + 2);
}

TEST_CASE("the same plan in a duel against itself ties, and verification on another seed passes") {
  if (no_gpu()) return;
  constexpr std::int64_t kElements = 1 << 24;
  gpu().open(planted_kernel(), planted_problem(kElements), 3);
  const Plan plan = planted_plan("", kElements, gpu().info().limits);
  const Candidate candidate{{}, plan, compile_for_gpu(plan.unit)};
  const std::vector<TrialResult> results = gpu().duel({candidate, candidate}, {.rounds = 21});
  REQUIRE(results.size() == 2);
  CHECK(results[0].measurement.median_us == doctest::Approx(results[1].measurement.median_us).epsilon(0.03));
  // 64 MiB read, written as f32, read again and written as bf16 cannot be faster than 10 TB/s.
  CHECK(results[0].measurement.median_us > 22);
  CHECK(gpu().verify(candidate, 99, 10).outcome == Outcome::ok);
}

}  // namespace moetune
