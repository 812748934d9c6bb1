// What the emulator computes, with small kernels of its own.
#include "tests/simt/simt_device.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <numeric>

using namespace moetune;
using namespace moetune::testing;

namespace {

template <typename T>
class Array {
 public:
  explicit Array(std::vector<T> values) : bytes_(values.size() * sizeof(T)) {
    std::memcpy(bytes_.data(), values.data(), bytes_.size());
  }
  std::vector<std::uint8_t>& bytes() { return bytes_; }
  T operator[](std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  std::size_t size() const { return bytes_.size() / sizeof(T); }

 private:
  std::vector<std::uint8_t> bytes_;
};

using Words = Array<std::uint32_t>;

LaunchPlan plan_of(const char* entry, std::uint32_t blocks, std::uint32_t threads,
                   std::initializer_list<Argument> arguments, std::uint32_t shared = 0) {
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = entry;
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  launch.dynamic_shared = shared;
  launch.arguments = arguments;
  return plan;
}

SimtDevice& collectives() {
  static SimtDevice device({"tests/simt/kernels/collectives.cu", {}});
  return device;
}

SimtDevice& grids() {
  static SimtDevice device({"tests/simt/kernels/grids.cu", {}});
  return device;
}

}  // namespace

TEST_CASE("simt: a block's sum through warps and shared memory, under any schedule") {
  std::vector<float> numbers(3 * 256);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  Array<float> in(numbers), out(std::vector<float>(3));
  const LaunchPlan plan =
      plan_of("block_sum", 3, 256, {{"in", Pointer{"in"}}, {"out", Pointer{"out"}}}, 8 * sizeof(float));
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    collectives().set_seed(seed);
    std::fill(out.bytes().begin(), out.bytes().end(), std::uint8_t{0xFF});
    collectives().run(plan, {{"in", std::as_const(in.bytes())}, {"out", out.bytes()}});
    for (std::size_t block = 0; block < 3; ++block)
      CHECK(out[block] == 256.0f * (256.0f * static_cast<float>(block)) + 255 * 128);
  }
}

TEST_CASE("simt: every collective gives each lane what CUDA says") {
  Words out(std::vector<std::uint32_t>(32 * 16));
  for (const std::uint64_t seed : {0, 7}) {
    collectives().set_seed(seed);
    collectives().run(plan_of("shuffles", 1, 32, {{"out", Pointer{"out"}}}), {{"out", out.bytes()}});
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      CAPTURE(lane);
      const auto at = [&](std::uint32_t i) { return out[lane * 16 + i]; };
      CHECK(at(0) == 70);
      CHECK(at(1) == (lane ^ 5) * 10);
      CHECK(at(2) == (lane < 3 ? lane : lane - 3) * 10);
      CHECK(at(3) == (lane % 8 + 3 < 8 ? lane + 3 : lane) * 10);
      CHECK(at(4) == (lane < 16 ? lane ^ 8 : lane ^ 4));
      CHECK(at(5) == (lane < 16 ? 120 : 31));
      std::uint32_t odd = 0;
      for (std::uint32_t other = lane % 3; other < 32; other += 3) odd |= (other % 2) << other;
      if (lane % 3 != 2) CHECK(at(6) == odd);
      CHECK(at(7) == (lane < 30 ? 0x1fu << lane / 5 * 5 : 0xc0000000u));
      CHECK(at(8) == 1);
      CHECK(at(9) == 0);
      CHECK(at(10) == 1 << 8);
      CHECK(std::bit_cast<float>(at(11)) == static_cast<float>(lane < 31 ? lane + 1 : lane));
      CHECK(at(12) == 5);
      CHECK(at(13) == 0);
      CHECK(at(14) == 3);
      CHECK(at(15) == 0xffffffffu);
    }
  }
}

TEST_CASE("simt: atomics in shared and global memory, on top of a memset") {
  std::vector<std::int32_t> numbers;
  for (int i = 0; i < 5000; ++i) numbers.push_back(i * i % 37);
  Array<std::int32_t> in(numbers);
  Words counts(std::vector<std::uint32_t>(37, 99));
  LaunchPlan plan =
      plan_of("histogram", 5, 96,
              {{"in", Pointer{"in"}}, {"counts", Pointer{"counts"}}, {"elements", 5000}, {"values", 37}}, 37 * 4);
  plan.memsets = {Memset{"counts", 0, 37 * 4, 0, 0}};
  collectives().set_seed(3);
  collectives().run(plan, {{"in", std::as_const(in.bytes())}, {"counts", counts.bytes()}});
  for (int value = 0; value < 37; ++value) CHECK(counts[value] == std::count(numbers.begin(), numbers.end(), value));
}

TEST_CASE("simt: static shared memory is each block's own, while others are alive") {
  for (const std::uint64_t seed : {0, 5}) {
    collectives().set_seed(seed);
    Words total(std::vector<std::uint32_t>(6));
    Words gate({0});
    collectives().run(plan_of("static_shared", 6, 64, {{"total", Pointer{"total"}}, {"gate", Pointer{"gate"}}}),
                      {{"total", total.bytes()}, {"gate", gate.bytes()}});
    for (std::uint32_t block = 0; block < 6; ++block) CHECK(total[block] == 63 * 32 * (block + 1));
  }
}

TEST_CASE("simt: named barriers over part of a block") {
  Words out(std::vector<std::uint32_t>(128));
  for (const std::uint64_t seed : {0, 4}) {
    collectives().set_seed(seed);
    collectives().run(plan_of("named_barriers", 1, 128, {{"out", Pointer{"out"}}}, 64 * 4), {{"out", out.bytes()}});
    for (std::uint32_t at = 0; at < 64; ++at) {
      CHECK(out[at] == 64 - at);
      CHECK(out[64 + at] == 1);
    }
  }
}

TEST_CASE("simt: a barrier over eight blocks, run after run over the same scratch") {
  LaunchPlan plan =
      plan_of("grid_rounds", 8, 64,
              {{"counter", Pointer{"counter"}}, {"values", Pointer{"values"}}, {"out", Pointer{"out"}}, {"rounds", 5}});
  plan.scratch = {Scratch{"counter", 4, true}, Scratch{"values", 32, false}};
  Launch& second = plan.launches.emplace_back();
  second.entry = "doubled";
  second.grid[0] = 8;
  second.arguments = {{"out", Pointer{"out"}}, {"counter", Pointer{"counter"}}};
  grids().forget_scratch();
  for (const std::uint64_t seed : {0, 1, 2, 3, 4}) {
    grids().set_seed(seed);
    Words out(std::vector<std::uint32_t>(8));
    grids().run(plan, {{"out", out.bytes()}});
    for (std::size_t block = 0; block < 8; ++block) CHECK(out[block] == 2 * 36 * 15);
  }
}

TEST_CASE("simt: counters that a kernel does not leave at zero are an error, other scratch may hold anything") {
  LaunchPlan plan =
      plan_of("grid_rounds", 8, 64,
              {{"counter", Pointer{"counter"}}, {"values", Pointer{"values"}}, {"out", Pointer{"out"}}, {"rounds", 1}});
  plan.scratch = {Scratch{"counter", 4, true}, Scratch{"values", 32, false}};
  grids().forget_scratch();
  Words out(std::vector<std::uint32_t>(8));
  CHECK_THROWS_WITH_AS(grids().run(plan, {{"out", out.bytes()}}),
                       "byte 0 of scratch 'counter' is left at 16, not at zero", SimtError);
}

TEST_CASE("simt: blocks look back at blocks that started before them, few at a time") {
  LaunchPlan plan = plan_of("look_back", 40, 32,
                            {{"sums", Pointer{"flags", 8}}, {"ended", Pointer{"flags"}}, {"out", Pointer{"out"}}});
  plan.scratch = {Scratch{"flags", 8 + 40 * 8, true}};
  for (const std::uint32_t resident : {0, 1, 3}) {
    SimtDevice device({"tests/simt/kernels/grids.cu", {}}, {.seed = resident, .resident_blocks = resident});
    for (int run = 0; run < 3; ++run) {
      Words out(std::vector<std::uint32_t>(40));
      device.run(plan, {{"out", out.bytes()}});
      for (std::uint32_t block = 0; block < 40; ++block) CHECK(out[block] == (block + 1) * (block + 2) / 2);
    }
    CHECK(device.scratch("flags") == std::vector<std::uint8_t>(8 + 40 * 8));
  }
}
