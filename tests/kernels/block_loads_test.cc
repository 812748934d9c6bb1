#include "kernels/block_loads.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>

using namespace moetune;

namespace {

constexpr double kMiB = 1 << 20;
constexpr std::int64_t kSms = 100;  // whose bandwidth 70 blocks take

const BlockPace kPace{.saturating = 0.7, .block_bytes = 128 << 10, .idle_block_bytes = 20 << 10};

double makespan_of(const std::vector<BlockLoads::Run>& runs, std::int64_t resident = 1) {
  return makespan({runs, resident}, kSms, kPace);
}

// The same block by block.
double simulated(const BlockLoads& loads, std::int64_t sms, const BlockPace& pace) {
  std::vector<double> blocks;
  for (const BlockLoads::Run& run : loads.runs) {
    const double bytes = run.bytes > 0 ? run.bytes + pace.block_bytes : pace.idle_block_bytes;
    blocks.insert(blocks.end(), static_cast<std::size_t>(run.blocks), bytes);
  }
  std::priority_queue<double, std::vector<double>, std::greater<>> ends;
  const auto places = static_cast<std::size_t>(sms * loads.resident);
  std::size_t next = 0;
  while (next < blocks.size() && ends.size() < places) ends.push(blocks[next++]);
  double time = 0, before = 0;
  while (!ends.empty()) {
    const double end = ends.top();
    const double full = pace.saturating * static_cast<double>(sms);
    time += (end - before) * std::max(1.0, static_cast<double>(ends.size()) / full);
    before = end;
    ends.pop();
    if (next < blocks.size()) ends.push(before + blocks[next++]);
  }
  return time;
}

}  // namespace

TEST_CASE("equal blocks that run at once take as long as one, until they share the bandwidth") {
  const double alone = kMiB + kPace.block_bytes;
  CHECK(makespan_of({}) == 0);
  CHECK(makespan_of({{1, kMiB}}) == doctest::Approx(alone));
  CHECK(makespan_of({{70, kMiB}}) == doctest::Approx(alone));
  CHECK(makespan_of({{100, kMiB}}) == doctest::Approx(alone / 0.7));
  CHECK(makespan_of({{140, kMiB}}, 2) == doctest::Approx(2 * alone));
  CHECK(makespan_of({{60, 0}}) == doctest::Approx(kPace.idle_block_bytes));
}

TEST_CASE("blocks that find no place come in waves, and the last wave has the bandwidth to itself") {
  const double alone = kMiB + kPace.block_bytes;
  CHECK(makespan_of({{300, kMiB}}) == doctest::Approx(3 * alone / 0.7));
  CHECK(makespan_of({{350, kMiB}}) == doctest::Approx(3 * alone / 0.7 + alone));
  CHECK(makespan_of({{400, kMiB}}, 4) == doctest::Approx(4 * alone / 0.7));
}

TEST_CASE("a long block that starts last is waited for, and one that starts first is not") {
  const double first = makespan_of({{1, 10 * kMiB}, {900, kMiB}});
  const double last = makespan_of({{900, kMiB}, {1, 10 * kMiB}});
  CHECK(last > first + 8 * kMiB);
  const BlockLoads orders[] = {{{{1, 10 * kMiB}, {900, kMiB}}, 1}, {{{900, kMiB}, {1, 10 * kMiB}}, 1}};
  CHECK(mean_makespan({orders[0], orders[1]}, kSms, kPace) == doctest::Approx((first + last) / 2));
  CHECK(mean_makespan({orders[0]}, kSms, kPace) == doctest::Approx(first));
  CHECK(mean_makespan({}, kSms, kPace) == 0);
}

TEST_CASE("runs of blocks take as long as their blocks one by one") {
  std::mt19937 random(5);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    BlockLoads loads{.runs = {}, .resident = draw(1, 5)};
    const std::int64_t runs = draw(1, 60), longest = draw(1, 40), sms = draw(1, 150);
    for (std::int64_t i = 0; i < runs; ++i)
      loads.runs.push_back({draw(0, 200), static_cast<double>(draw(0, longest) * 32768)});
    const BlockPace pace{0.1 * static_cast<double>(draw(1, 20)), static_cast<double>(draw(1, 9) * 16384),
                         4096};
    CAPTURE(round);
    CHECK(makespan(loads, sms, pace) == doctest::Approx(simulated(loads, sms, pace)).epsilon(1e-12));
  }
}

TEST_CASE("a run grows while its blocks read as many bytes") {
  BlockLoads loads;
  loads.add(3, 10);
  loads.add(0, 20);
  loads.add(2, 10);
  loads.add(1, 20);
  CHECK(loads.runs == std::vector<BlockLoads::Run>{{5, 10}, {1, 20}});
}
