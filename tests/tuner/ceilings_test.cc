#include "tuner/ceilings.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

const Ceilings kGpu{.read_tb_s = 4.0,
                    .mostly_read_tb_s = 3.6,
                    .copy_tb_s = 3.2,
                    .mostly_write_tb_s = 2.5,
                    .l2_tb_s = 8.0,
                    .bf16_tflop_s = 700,
                    .fp16_tflop_s = 600,
                    .e4m3_tflop_s = 1200,
                    .launch_us = 1.5,
                    .l2_bytes = 50'000'000};

Floor overlapping(const Cost& cost, const Ceilings& ceilings = kGpu) {
  const std::optional<Floor> floor = floor_of(cost, ceilings, Launches::overlapping);
  REQUIRE(floor);
  return *floor;
}

bool is_unknown(const Cost& cost, const Ceilings& ceilings) {
  return !floor_of(cost, ceilings, Launches::separate) && !floor_of(cost, ceilings, Launches::overlapping);
}

}  // namespace

TEST_CASE("each ceiling has its own bound, the binding one of which is the floor") {
  const Cost cost{.read_bytes = 4e6, .flops = {.bf16 = 7e9, .fp32 = 1e6}};
  const std::vector<Floor> overlapped = floors_of(cost, kGpu, Launches::overlapping);
  REQUIRE(overlapped.size() == 2);
  CHECK(overlapped[0].bound == "read bandwidth");
  CHECK(overlapped[0].us == doctest::Approx(1));
  CHECK(overlapped[1].us == doctest::Approx(10));
  CHECK(overlapped[1].us == overlapping(cost).us);
  CHECK(floors_of(cost, kGpu, Launches::separate).back().us == 1.5);

  const Cost warm{.read_bytes = 8e7, .inputs = Inputs::warm};
  const std::vector<Floor> both = floors_of(warm, kGpu, Launches::overlapping);
  REQUIRE(both.size() == 2);
  CHECK(both[0].us == doctest::Approx(10));         // all through L2
  CHECK(both[1].us == doctest::Approx(3e7 / 4e6));  // what exceeds it from memory
  CHECK(floors_of(cost, {}, Launches::separate).empty());
}

TEST_CASE("the floor of a read is its bytes at the read ceiling, and the least launch if launches are separate") {
  const Cost read{.read_bytes = 4e6};
  CHECK(overlapping(read).us == doctest::Approx(1));
  CHECK(overlapping(read).bound == "read bandwidth");
  CHECK(floor_of(read, kGpu, Launches::separate)->us == doctest::Approx(2.5));
  CHECK(floor_of(read, kGpu, Launches::separate)->roofline_fraction(5) == doctest::Approx(0.5));
  CHECK(floor_of(read, {.read_tb_s = 4.0}, Launches::separate)->us == doctest::Approx(1));
}

TEST_CASE("a mix of reads and writes takes a time a byte between those of the measured mixes") {
  const auto us = [](double read, double written) {
    return overlapping({.read_bytes = read, .written_bytes = written}).us;
  };
  CHECK(us(8e6, 1e6) == doctest::Approx(9 / 3.6));
  CHECK(us(1e6, 1e6) == doctest::Approx(2 / 3.2));
  CHECK(us(1e6, 8e6) == doctest::Approx(9 / 2.5));
  CHECK(us(0, 1e6) == doctest::Approx(1 / 2.5));  // nothing was measured beyond 1:8
  CHECK(us(17e6, 1e6) == doctest::Approx(18 * (1 / 4.0 + 1 / 3.6) / 2));
  CHECK(us(4e6, 1e6) > 5 / 3.6);
  CHECK(us(4e6, 1e6) < 5 / 3.2);
  CHECK(overlapping({.read_bytes = 1, .written_bytes = 1}).bound == "memory bandwidth");
  CHECK(overlapping({.written_bytes = 1}).bound == "write bandwidth");
}

TEST_CASE("mixes that were not measured are bridged by those that were") {
  const Cost mix{.read_bytes = 8e6, .written_bytes = 1e6}, writes{.written_bytes = 4e6};
  CHECK(overlapping(mix, {.read_tb_s = 4.0}).us == doctest::Approx(9 / 4.0));
  CHECK(overlapping(writes, {.read_tb_s = 4.0, .copy_tb_s = 3.2}).us == doctest::Approx(4 / 3.2));
  const double at_copy = 1 / 3.2, at_read = 1 / 4.0;
  CHECK(overlapping(mix, {.read_tb_s = 4.0, .copy_tb_s = 3.2}).us ==
        doctest::Approx(9 * (at_read + (at_copy - at_read) * (1.0 / 9) / 0.5)));
}

TEST_CASE("warm inputs pass at the L2 ceiling, and what exceeds L2 comes from memory") {
  const Cost small{.read_bytes = 8e6, .inputs = Inputs::warm};
  CHECK(overlapping(small).us == doctest::Approx(1));
  CHECK(overlapping(small).bound == "L2 bandwidth");
  const Cost large{.read_bytes = 250e6, .inputs = Inputs::warm};
  CHECK(overlapping(large).us == doctest::Approx(200 / 4.0));
  CHECK(overlapping(large).bound == "read bandwidth");
  CHECK(is_unknown(small, {.read_tb_s = 4.0, .l2_bytes = 50'000'000}));
}

TEST_CASE("FLOPs bind if they take longer than the bytes; types take turns on the tensor cores") {
  const Cost both{.read_bytes = 4e6, .flops = {.bf16 = 1.4e9}};
  CHECK(overlapping(both).us == doctest::Approx(2));
  CHECK(overlapping(both).bound == "tensor cores (bf16)");
  CHECK(overlapping({.read_bytes = 12e6, .flops = {.bf16 = 1.4e9}}).bound == "read bandwidth");
  const Cost mixed{.read_bytes = 4e6, .flops = {.bf16 = 0.7e9, .e4m3 = 2.4e9}};
  CHECK(overlapping(mixed).us == doctest::Approx(3));
  CHECK(overlapping(mixed).bound == "tensor cores (e4m3)");
  CHECK(overlapping({.flops = {.fp16 = 6e8}}).us == doctest::Approx(1));
}

TEST_CASE("without a ceiling that it needs a floor is unknown, never wrong") {
  CHECK(is_unknown({.read_bytes = 1e9}, {}));
  CHECK(is_unknown({.read_bytes = 1e9}, {.launch_us = 1.5}));
  CHECK(is_unknown({.read_bytes = 1e9}, {.copy_tb_s = 3.2}));
  CHECK(is_unknown({}, kGpu));
  const Ceilings streams{.read_tb_s = 4.0, .launch_us = 1.5};
  // Eight FLOPs a byte bind on no GPU, a thousand do on many.
  CHECK(overlapping({.read_bytes = 4e6, .flops = {.bf16 = 32e6}}, streams).bound == "read bandwidth");
  CHECK(is_unknown({.read_bytes = 4e6, .flops = {.bf16 = 4e9}}, streams));
  CHECK(overlapping({.read_bytes = 4e6, .flops = {.fp32 = 3e6}}).bound == "read bandwidth");
  CHECK(is_unknown({.read_bytes = 4e6, .flops = {.fp32 = 1e9}}, kGpu));
  CHECK(is_unknown({.flops = {.fp16 = 1e9}}, {.bf16_tflop_s = 700}));
}

TEST_CASE("the rate that is shown is the one that binds") {
  const auto rate = [](const Cost& cost, const std::optional<Floor>& floor) { return work_of(cost, floor).rate(2); };
  const Cost read{.read_bytes = 4e6, .flops = {.bf16 = 32e6}}, math{.read_bytes = 4e6, .flops = {.bf16 = 4e9}};
  CHECK(rate(read, overlapping(read)).value == doctest::Approx(2));
  CHECK(rate(read, overlapping(read)).unit == Unit::tb_s);
  CHECK(rate(math, overlapping(math)).value == doctest::Approx(2000));
  CHECK(rate(math, overlapping(math)).unit == Unit::tflop_s);
  CHECK(rate(read, std::nullopt).unit == Unit::tb_s);
  CHECK(rate(math, std::nullopt).unit == Unit::tflop_s);
}

TEST_CASE("launches overlap if the first of a plan may begin before its predecessor ends") {
  Plan plan;
  CHECK(launches_of(plan) == Launches::separate);
  plan.launches = {Launch{{.entry = "a"}, {}}, Launch{{.entry = "b", .programmatic_dependent = true}, {}}};
  CHECK(launches_of(plan) == Launches::separate);
  plan.launches[0].programmatic_dependent = true;
  CHECK(launches_of(plan) == Launches::overlapping);
}

TEST_CASE("ceilings that are known are kept, those that are not stay") {
  const TemporaryFolder folder;
  const HardwareKey gpu{.name = "GPU", .l2_bytes = 1234}, other{.name = "Other GPU"};
  {
    Cache cache = Cache::open(folder / "ceilings.db", Cache::Mode::create);
    store_ceilings(cache, gpu, {.read_tb_s = 4.5, .copy_tb_s = 4.1});
    store_ceilings(cache, gpu, {.read_tb_s = 4.6, .e4m3_tflop_s = 1300, .launch_us = 1.5});
    const Ceilings stored = stored_ceilings(&cache, gpu);
    CHECK(stored.read_tb_s == 4.6);
    CHECK(stored.copy_tb_s == 4.1);
    CHECK(stored.e4m3_tflop_s == 1300);
    CHECK(stored.launch_us == 1.5);
    CHECK_FALSE(stored.l2_tb_s);
    CHECK(stored.l2_bytes == 1234);
    CHECK_FALSE(stored_ceilings(&cache, other).read_tb_s);
    CHECK_FALSE(stored_ceilings(nullptr, gpu).read_tb_s);
  }
}
