// Every kind of output check through the real worker on the stand-in for libcuda, with planted bugs.
#include <doctest/doctest.h>

#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/ids_kernel.h"

namespace moetune {
namespace {

constexpr std::int64_t kChecked = 1000;

MeasurePolicy short_policy() {
  MeasurePolicy policy;
  policy.time_limit_s = 60;
  policy.quick_samples = policy.min_samples = policy.max_samples = 1;
  return policy;
}

struct OpenIds {
  OpenIds(const IdsKernel& of, std::int64_t count) : kernel(of), elements(count), device(open_device()) {
    device.open(kernel, doubling_problem(elements), 7);
  }
  TrialResult run(const std::string& bug) { return device.run(kernel.candidate(bug, elements), short_policy()); }
  static CudaDevice open_device() {
    use_fake_cuda("memory=100000000");
    return fake_device();
  }

  const IdsKernel& kernel;
  std::int64_t elements;
  CudaDevice device;
};

void check_wrong(OpenIds& ids, const std::string& bug, const std::string& reason) {
  CAPTURE(bug);
  const TrialResult result = ids.run(bug);
  CHECK(result.outcome == Outcome::wrong_result);
  CHECK_MESSAGE(result.message.find(reason) != std::string::npos, result.message);
  const TrialResult next = ids.run("");
  CHECK_MESSAGE(next.outcome == Outcome::ok, next.message);
}

}  // namespace

TEST_CASE("one id of a million that is off by a hundred, or by one, is a wrong result") {
  const IdsKernel kernel(DType::i32, OutputCheck::exact());
  OpenIds ids(kernel, 1'000'000);
  check_wrong(ids, "__off100", "differs from the reference in 1 elements, first at 500000");
  check_wrong(ids, "__off1", "differs from the reference in 1 elements, first at 500000");
  check_wrong(ids, "__unwritten", "has 1 elements that were never written, first at 500000");
}

TEST_CASE("exact integers of every width: off by one, not written, swapped") {
  for (const DType type : {DType::i32, DType::i64, DType::u8}) {
    CAPTURE(dtype_name(type));
    const IdsKernel kernel(type, OutputCheck::exact());
    OpenIds ids(kernel, kChecked);
    check_wrong(ids, "__off1", "first at 500");
    check_wrong(ids, "__unwritten", "never written, first at 500");
    check_wrong(ids, "__swap", "in 2 elements, first at 500");
    check_wrong(ids, "__swapfar", "in 2 elements, first at 0");
  }
}

TEST_CASE("sets of a fixed length: a swap inside is right, across is wrong") {
  const IdsKernel kernel(DType::i64, OutputCheck::sets_of(10));
  OpenIds ids(kernel, kChecked);
  CHECK(ids.run("__swap").outcome == Outcome::ok);
  check_wrong(ids, "__swapfar", "in 2 segments, first in elements 0 to 9");
  check_wrong(ids, "__off1", "in 1 segments, first in elements 500 to 509");
  check_wrong(ids, "__unwritten", "never written, first at 500");
}

TEST_CASE("sets between offsets, with what lies before the first and behind the last") {
  const IdsKernel kernel(DType::i32, OutputCheck::sets_between("offsets"));
  OpenIds ids(kernel, kChecked);
  CHECK(ids.run("__swap").outcome == Outcome::ok);
  check_wrong(ids, "__swapfar", "in 2 segments, first in elements 0 to 3");
  check_wrong(ids, "__off1", "in 1 segments, first in elements 4 to 874");
}

TEST_CASE("a buffer that is read and written is filled again before every run that is judged") {
  const AccumulateKernel kernel;
  OpenIds sums(kernel, kChecked);
  for (int i = 0; i < 2; ++i) {
    const TrialResult right = sums.run("");
    CHECK_MESSAGE(right.outcome == Outcome::ok, right.message);
  }
  check_wrong(sums, "__wrong", "off by 1");
  CHECK(sums.device.verify(kernel.candidate("", kChecked), 8, 60).outcome == Outcome::ok);
}

TEST_CASE("a plan's memsets run in the worker, each before the launch that it names") {
  const IdsKernel kernel(DType::i32, OutputCheck::exact());
  OpenIds ids(kernel, kChecked);
  const auto run_with_memset = [&](std::uint32_t before) {
    Candidate candidate = kernel.candidate("", kChecked);
    candidate.plan.memsets = {{"to", 0, 4, 1, before}};
    return ids.device.run(candidate, short_policy());
  };
  const TrialResult first = run_with_memset(0);
  CHECK_MESSAGE(first.outcome == Outcome::ok, first.message);
  const TrialResult last = run_with_memset(1);
  CHECK(last.outcome == Outcome::wrong_result);
  CHECK_MESSAGE(last.message.find("in 1 elements, first at 0: 16843009 instead of") != std::string::npos, last.message);
}

TEST_CASE("a kernel whose integers have a tolerance is refused when it is opened") {
  use_fake_cuda();
  CudaDevice device = fake_device();
  const IdsKernel kernel(DType::i32, {});
  CHECK_THROWS_WITH_AS(device.open(kernel, doubling_problem(10), 1), doctest::Contains("within a tolerance"),
                       std::logic_error);
}

}  // namespace moetune
