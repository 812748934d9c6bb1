// The runtime's host time: opening, picking, launching. Needs a cache or pack with a winner of the problem's
// family, and a GPU (or the scripted driver, whose launches are no measure of anything).
//
//   runtime_bench CACHE PROBLEM [opening]
//   runtime_bench tuned.db batch=8,q_heads=32,kv_heads=4,context=4096,page=16
//
// Two things that are compared are measured in turns, and each figure is a median of such turns.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/integers.h"
#include "bench/bench_main.h"
#include "bench/runtime_bench_files.h"
#include "bench/runtime_bench_launch.h"
#include "bench/runtime_bench_opening.h"
#include "include/moetune.h"
#include "runtime/workspace_turn.h"

namespace {

using namespace moetune;
using bench::check;
using bench::median;
using bench::seconds;

constexpr int kTurns = 101, kPicks = 10'000, kLaunches = 100;  // fewer than 256 launches are queued

void pick_many(moetune_family* family, const Extents& most, int picks) {
  Extents extents = most;
  moetune_choice choice;
  for (std::int64_t i = 0; i < picks; ++i) {
    extents[2] = 1 + (most[2] + i * 7919) % most[2];  // contexts grow, and differ from call to call
    check(moetune_pick(family, extents.begin(), extents.size(), 0, &choice));
  }
}

double pick_ns(moetune_family* family, const Extents& extents) {
  std::vector<double> turns;
  for (int i = 0; i < kTurns; ++i) turns.push_back(seconds([&] { pick_many(family, extents, kPicks); }) / kPicks * 1e9);
  return median(turns);
}

// The throughput of `threads` threads over that of one.
double scaling(const std::function<void()>& work, unsigned threads) {
  const double one = seconds(work);
  const double all = seconds([&] {
    std::vector<std::jthread> running;
    for (unsigned t = 0; t < threads; ++t) running.emplace_back(work);
  });
  return one * threads / all;
}

// Arithmetic that shares nothing: what the machine's cores, which may be halves of cores, can give.
void count_primes() {
  static std::atomic<int> sink;
  int primes = 0;
  for (int n = 2; n < 300'000; ++n) {
    int divisor = 2;
    while (divisor * divisor <= n && n % divisor != 0) ++divisor;
    primes += divisor * divisor > n;
  }
  sink = primes;
}

// In turns, because what a machine's cores give changes with what else it does.
void print_scaling(moetune_family* family, const Extents& extents) {
  const unsigned threads = std::min(16U, std::thread::hardware_concurrency());
  std::vector<double> picks, arithmetic, over;
  for (int i = 0; i < 7; ++i) {
    picks.push_back(scaling([&] { pick_many(family, extents, 1'000'000); }, threads));
    arithmetic.push_back(scaling([] { count_primes(); }, threads));
    over.push_back(picks.back() / arithmetic.back());
  }
  std::printf("  %2u threads over one        %9.1f x    (bar 12 of 16)\n", threads, median(picks));
  std::printf("  the same of arithmetic     %9.1f x    picking over it, a turn: %.2f\n", median(arithmetic),
              median(over));
}

void print_launches(bench::LaunchPair& pair) {
  std::vector<double> bare, whole, over;
  for (int i = 0; i < kTurns; ++i) {
    const double direct = seconds([&] { pair.launch_bare(kLaunches); }) / kLaunches * 1e9;
    pair.wait();
    const double through = seconds([&] { pair.launch(kLaunches); }) / kLaunches * 1e9;
    pair.wait();
    bare.push_back(direct);
    whole.push_back(through);
    over.push_back((through - direct) / pair.kernels());
  }
  std::printf("bare cuLaunchKernelEx        %9.0f ns a choice of %d kernels\n", median(bare), pair.kernels());
  std::printf("moetune_launch               %9.0f ns\n", median(whole));
  std::printf("  over bare, a kernel        %9.0f ns   (bar 300)\n", median(over));
}

// Prints the extra cost of a launch with scratch while no other thread launches with its workspace.
void print_turn() {
  constexpr std::uint64_t kWorkspace = std::uint64_t{1} << 40;
  std::vector<double> turns;
  for (int i = 0; i < kTurns; ++i) {
    turns.push_back(seconds([] {
                      for (int turn = 0; turn < kPicks; ++turn) const WorkspaceTurn taken(kWorkspace);
                    }) /
                    kPicks * 1e9);
  }
  std::printf("  a free workspace's turn    %9.0f ns   (bar 30)\n", median(turns));
}

void run(int argc, char** argv) {
  const bool opening_alone = argc == 4 && argv[3] == std::string_view("opening");
  if (argc != 3 && !opening_alone) throw BadInput("usage: runtime_bench CACHE PROBLEM [opening]");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // Else the driver would put off most of cuModuleLoadData until a function is asked for.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  const bench::Family family(argv[2]);
  if (opening_alone) {
    cuda::initialize();
    const cuda::Context context(0);
    return bench::print_openings(argv[1], family);
  }
  const bench::Opened opened(argv[1], family.text);
  std::printf("pick, warm                   %9.0f ns   (bar 150)\n", pick_ns(opened.family(), family.extents));
  print_scaling(opened.family(), family.extents);
  bench::LaunchPair pair(argv[1], family);
  print_launches(pair);
  print_turn();
  bench::print_openings(argv[1], family);
}

}  // namespace

int main(int argc, char** argv) {
  return moetune::bench::run_main("runtime_bench", [&] { run(argc, argv); });
}
