// A million picks from 16 threads, and launches between them, while a tuner writes and the runtime refreshes.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::threads_test {
using namespace testing;

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";
constexpr int kThreads = 16, kPicks = 1'000'000 / kThreads, kLaunchEvery = 2048;

// What one thread of a server does; returns how many calls failed.
int serve(moetune_family* family, int thread) {
  int failures = 0;
  DecodeTensors tensors(kProblem);
  moetune_arguments arguments;
  std::int64_t extents[MOETUNE_MAX_EXTENTS];
  std::size_t count = 0;
  failures += moetune_bind(family, tensors.tensors().data(), tensors.tensors().size(), nullptr, &arguments, extents,
                           &count) != MOETUNE_OK;
  for (int i = 0; i < kPicks; ++i) {
    const std::int64_t wanted[] = {2, 1, 1 + (i * 37 + thread) % 64};
    moetune_choice choice;
    failures += moetune_pick(family, wanted, 3, 0, &choice) != MOETUNE_OK;
    if (i % kLaunchEvery == 0)
      failures += moetune_launch(family, &choice, &arguments, nullptr, 0, nullptr) != MOETUNE_OK;
  }
  return failures;
}

}  // namespace

TEST_CASE("a million picks from 16 threads while a tuner writes and the runtime refreshes") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family("group=4,head_dim=64,page=16");
  std::atomic<int> failures{0}, serving{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      failures += serve(family, t);
      --serving;
    });
  }
  for (int round = 0; round < 10 || serving > 0; ++round) {
    const int context = 64 << (round % 10);
    store(folder / "cache.db", {{"batch=2,q_heads=4,kv_heads=1,head_dim=64,page=16,context=" + std::to_string(context),
                                 plain_config(round % 2 == 0 ? 32 : 64)}});
    CHECK_OK(moetune_refresh(opened.runtime(), nullptr));
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  moetune_counts counts{};
  counts.size = sizeof counts;
  CHECK_OK(moetune_count(opened.runtime(), &counts));
  CHECK(counts.exact + counts.nearest + counts.defaults == std::uint64_t{kThreads} * kPicks);
}

}  // namespace moetune::threads_test
