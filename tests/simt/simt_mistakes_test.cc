// Mistakes of kernels and of plans that the emulator reports, and what it says.
#include <doctest/doctest.h>

#include "tests/refusal.h"
#include "tests/simt/simt_device.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

SimtDevice& mistakes() {
  static SimtDevice device({"tests/simt/kernels/mistakes.cu", {}}, {.patience_seconds = 1});
  return device;
}

constexpr std::size_t kBytes = 4 * 128;

// What is said of one launch with `out` (128 words) and one more argument or none.
std::string complaint(const char* entry, std::vector<Argument> more = {}, std::uint32_t shared = 0,
                      std::uint32_t threads = 64, bool with_out = true, bool begins_early = false) {
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = entry;
  launch.grid[0] = 2;
  launch.block[0] = threads;
  launch.dynamic_shared = shared;
  launch.programmatic_dependent = begins_early;
  if (with_out) launch.arguments.push_back({"out", Pointer{"out"}});
  for (const Argument& argument : more) launch.arguments.push_back(argument);
  std::vector<std::uint8_t> out(kBytes);
  return refusal_of<SimtError>([&] { mistakes().run(plan, {{"out", out}}); });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("simt reports a deadlock with who waits for what") {
  const std::string text = complaint("deadlock");
  CAPTURE(text);
  CHECK(has(text, "deadlock: deadlock, no thread can go on"));
  CHECK(has(text, "block (1,0,0), threads 0-47: wait for 5 at byte 0 of buffer 'out', which has 512, where 0 is"));
  CHECK(has(text, "threads 48-63: wait in __syncthreads"));
}

TEST_CASE("simt reports threads that spin, whether or not they let others run") {
  const std::string polite = complaint("spins", {}, 0, 4), silent = complaint("spins_silently", {}, 0, 1);
  CAPTURE(polite);
  CAPTURE(silent);
  CHECK(has(polite, "threads spin, and none gets any further"));
  CHECK(has(silent, "thread (0,0,0) of block (0,0,0): has run for too long"));
}

TEST_CASE("simt reports accesses outside of buffers and of shared memory") {
  const std::string past = complaint("writes_past", {{"position", std::int64_t{128}}});
  CAPTURE(past);
  CHECK(has(past, "writes_past: thread (3,0,0) of block (1,0,0): writes to byte 512 of buffer 'out', which has 512"));
  CHECK(has(complaint("writes_past", {{"position", std::int64_t{-1024}}}), "byte -4096 of buffer 'out'"));
  CHECK(complaint("writes_past", {{"position", std::int64_t{-1}}}) ==
        "bytes before the begin or just past the end of buffer 'out' were written");
  CHECK(complaint("writes_past", {{"position", std::int64_t{127}}}) == "");
  const std::string far = complaint("writes_shared", {{"position", std::int64_t{128}}}, 100, 64, false);
  CAPTURE(far);
  CHECK(has(far, "thread (2,0,0) of block (0,0,0): writes to byte 128 of the dynamic shared memory of block (0,0,0)"));
  CHECK(has(complaint("writes_shared", {{"position", std::int64_t{100}}}, 100, 64, false),
            "wrote before or past its 100 bytes of dynamic shared memory"));
  CHECK(complaint("writes_shared", {{"position", std::int64_t{99}}}, 100, 64, false) == "");
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "writes_past";
  launch.grid[0] = 2;
  launch.block[0] = 32;
  launch.arguments = {{"out", Pointer{"out"}}, {"position", std::int64_t{0}}};
  const std::vector<std::uint8_t> input(64);
  CHECK_THROWS_WITH_AS(mistakes().run(plan, {{"out", input}}),
                       "writes_past: thread (3,0,0) of block (1,0,0): writes to byte 0 of buffer 'out', which has 64",
                       SimtError);
}

TEST_CASE("simt reports collectives that lanes do not reach together") {
  const std::string early = complaint("leaves_early", {}, 0, 32);
  CAPTURE(early);
  CHECK(has(early, "thread (20,0,0) of block (0,0,0): ends where thread (0,0,0) of block (0,0,0) waits for it in"));
  CHECK(has(complaint("leaves_early", {}, 0, 16), "waits for lane 16 of its warp, which has ended"));
  CHECK(has(complaint("disagrees", {}, 0, 32), "with the same mask calls"));
  CHECK(has(complaint("unnamed", {}, 0, 32), "does not name the lane that calls it"));
}

TEST_CASE("simt reports traps, alignment, local arrays and stacks that are too small") {
  CHECK(complaint("traps") == "traps: thread (6,0,0) of block (0,0,0): __trap");
  CHECK(has(complaint("misaligned", {{"offset", 4}}), "not aligned"));
  CHECK(complaint("misaligned", {{"offset", 8}}) == "");
#ifndef __clang__  // which does not check copies of structs
  CHECK(has(complaint("misaligned_vector", {{"offset", 8}}), "not aligned"));
#endif
  CHECK(complaint("misaligned_vector", {{"offset", 16}}) == "");
  CHECK(has(complaint("past_local_array", {{"position", 4}}), "past the end of a local array"));
  CHECK(complaint("past_local_array", {{"position", 3}}) == "");
  SimtDevice small({"tests/simt/kernels/mistakes.cu", {}}, {.stack_bytes = 12 << 10});
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "deep";
  launch.arguments = {{"out", Pointer{"out"}}, {"levels", 3}};
  std::vector<std::uint8_t> out(4);
  CHECK_THROWS_WITH_AS(small.run(plan, {{"out", out}}),
                       "deep: thread (0,0,0) of block (0,0,0): needs more stack than 12288 bytes", SimtError);
}

TEST_CASE("simt reports what a kernel does before it waits for the launch in front") {
  const auto complaint_of = [](const char* entry) { return complaint(entry, {}, 0, 64, true, true); };
  CHECK(complaint_of("writes_early") ==
        "writes_early: thread (40,0,0) of block (0,0,0): writes to byte 28 of buffer 'out', which has 512, before it "
        "has waited for the launch in front");
  CHECK(has(complaint_of("reads_early"), "reads from byte 0 of buffer 'out', which has 512, before it has waited"));
  CHECK(complaint_of("never_waits") ==
        "never_waits: block (1,0,0) has ended without waiting for the launch in front; what follows relies on that");
  CHECK(complaint_of("writes_in_time") == "");
  for (const char* entry : {"writes_early", "reads_early", "never_waits"}) CHECK(complaint(entry) == "");
}

TEST_CASE("simt shows a race under some of its schedules") {
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "races";
  launch.block[0] = 32;
  launch.dynamic_shared = 128;
  launch.arguments = {{"out", Pointer{"out"}}};
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<std::uint8_t> out(128);
    mistakes().set_seed(seed);
    mistakes().run(plan, {{"out", out}});
    for (std::size_t i = 0; i < 32; ++i) wrong += out[4 * i] != (i + 31) % 32;
  }
  CHECK(wrong > 4);
}

TEST_CASE("simt reports plans that do not fit the kernel") {
  CHECK(complaint("traps", {{"more", 1}}) == "traps: takes 1 arguments, the plan has 2");
  CHECK(complaint("writes_past", {{"position", 1}}) ==
        "writes_past: argument 'position' does not fit its parameter's type");
  CHECK(has(complaint("no_such_entry"), "does not compile for the CPU"));
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "traps";
  launch.arguments = {{"out", Pointer{"nowhere"}}};
  CHECK_THROWS_WITH_AS(mistakes().run(plan, {}), "the plan names a buffer 'nowhere', which nobody gave", SimtError);
}
