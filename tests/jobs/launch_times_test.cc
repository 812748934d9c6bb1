// Times of launches fitted to a made-up GPU's, and expected at problems that it never ran.
#include "jobs/launch_times.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace moetune;

namespace {

constexpr std::int64_t kSms = 100;
constexpr double kBytesPerUs = 36e3;  // of an SM's share of the bandwidth
const std::vector<int> kSplits = {1, 2, 3, 4, 6, 8};

struct Cubin {
  double saturating, block_bytes, overhead_us;
};
const std::vector<Cubin> kCubins = {{0.3, 8 << 10, 2.5}, {1, 20 << 10, 3}};

// Each cubin with each number of parts; more than one are combined, which is a name of its own.
std::vector<TimeModel::Config> configs() {
  std::vector<TimeModel::Config> configs;
  for (std::size_t cubin = 0; cubin < kCubins.size(); ++cubin) {
    for (const int splits : kSplits)
      configs.push_back({cubin, {std::log2(1 + splits)}, {splits > 1 ? std::size_t{1} : std::size_t{0}}});
  }
  return configs;
}

int splits_of(std::size_t config) { return kSplits[config % kSplits.size()]; }

LaunchTimes::Launch launch(std::size_t config, std::int64_t rows, double bytes, SharedLoads& shared) {
  const int splits = splits_of(config);
  BlockLoads loads{.runs = {{rows * splits, bytes / splits}}, .resident = 4};
  return {config, static_cast<double>(rows * splits) / kSms, shared.share({loads})};
}

double time_of(const LaunchTimes::Launch& launch) {
  const Cubin& cubin = kCubins[launch.config / kSplits.size()];
  const double block_bytes = cubin.block_bytes / cubin.saturating;
  const double work =
      cubin.saturating * mean_makespan(*launch.loads, kSms, {cubin.saturating, block_bytes, block_bytes / 6});
  const int splits = splits_of(launch.config);
  return work / kBytesPerUs + cubin.overhead_us + (splits > 1 ? 1.2 + 0.3 * std::log2(1 + splits) : 0);
}

// The times of all configurations at some sizes.
template <typename Take>
void run(const Take& take) {
  for (std::int64_t rows = 3; rows < 900; rows = rows * 5 / 3 + 1) {
    for (double bytes = 32 << 10; bytes < 40e6; bytes *= 3.7) {
      SharedLoads shared;
      for (std::size_t config = 0; config < configs().size(); ++config)
        take(launch(config, rows, bytes, shared));
    }
  }
}

// The largest relative error at other sizes.
double worst_error(const CubinTimes& times) {
  double worst = 0;
  for (const std::int64_t rows : {5, 37, 120, 333, 701}) {
    for (const double bytes : {60e3, 400e3, 9e6}) {
      SharedLoads shared;
      CubinTimes::AtProblem at(times);
      for (std::size_t config = 0; config < configs().size(); ++config) {
        const LaunchTimes::Launch asked = launch(config, rows, bytes, shared);
        worst = std::max(worst, std::abs(at.mean_of(asked) - std::log(time_of(asked))));
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("times that follow from blocks are found again at sizes that nobody measured") {
  const std::vector<TimeModel::Config> known = configs();
  for (const bool is_even : {true, false}) {
    CubinTimes times(known, kSms, is_even);
    run([&](const LaunchTimes::Launch& one) { times.add({one, time_of(one)}); });
    times.fit(2);
    CAPTURE(is_even);
    CHECK(worst_error(times) < 0.02);
  }
}

TEST_CASE("what is lost where some SMs hold a block more is learned of even work alone") {
  const std::vector<TimeModel::Config> known = configs();
  const auto slowed = [](const LaunchTimes::Launch& one) {
    const double last = std::ceil(one.waves - 1e-9);
    return time_of(one) * (last > 1 && last <= 4 ? 1 + 0.5 * (last - one.waves) / one.waves : 1);
  };
  double errors[2];
  for (const bool is_even : {false, true}) {
    CubinTimes times(known, kSms, is_even);
    run([&](const LaunchTimes::Launch& one) { times.add({one, slowed(one)}); });
    times.fit(1);
    SharedLoads shared;
    const LaunchTimes::Launch asked = launch(0, 110, 9e6, shared);  // 90 SMs have one block, ten have two
    errors[is_even ? 1 : 0] = std::abs(CubinTimes::AtProblem(times).mean_of(asked) - std::log(slowed(asked)));
  }
  CAPTURE(errors[0]);
  CAPTURE(errors[1]);
  CHECK(errors[1] < 0.1);
  CHECK(errors[0] > 2 * errors[1]);
}

TEST_CASE("a cubin with few times takes what all have in common") {
  const std::vector<TimeModel::Config> known = configs();
  CubinTimes times(known, kSms, true);
  std::size_t of_second = 0;
  run([&](const LaunchTimes::Launch& one) {
    if (one.config < kSplits.size() || ++of_second < LaunchTimes::kLeastTimes / 2)
      times.add({one, time_of(one)});
  });
  times.fit(1);
  SharedLoads shared;
  CubinTimes::AtProblem at(times);
  const LaunchTimes::Launch asked = launch(kSplits.size(), 300, 9e6, shared);
  CHECK(at.mean_of(asked) == doctest::Approx(std::log(time_of(asked))).epsilon(0.05));
}

TEST_CASE("without loads, or without times, nothing is expected; no time is less than the blocks need") {
  const std::vector<TimeModel::Config> known = configs();
  CubinTimes times(known, kSms, true);
  SharedLoads shared;
  const LaunchTimes::Launch asked = launch(0, 10, 1e5, shared);
  times.fit(1);
  CHECK(CubinTimes::AtProblem(times).mean_of(asked) == 0);
  CHECK(shared.share({}) == nullptr);
  run([&](const LaunchTimes::Launch& one) { times.add({one, time_of(one)}); });
  times.fit(1);
  CHECK(CubinTimes::AtProblem(times).mean_of({0, 0.1, nullptr}) == 0);
  std::vector<LaunchTimes::Timed> two = {{asked, 7}, {launch(1, 10, 1e5, shared), 6}};
  const LaunchTimes model(known, two, kSms, true);
  for (const std::size_t config : {0, 5, 7}) {
    const LaunchTimes::Launch one = launch(config, 4000, 3e6, shared);
    const double work_us = model.work_us(*one.loads);
    CHECK(work_us > 0);
    CHECK(model.time_us(one, work_us) >= work_us);
  }
}

TEST_CASE("equal loads are kept once") {
  SharedLoads shared;
  const BlockLoads loads{.runs = {{3, 100}}, .resident = 2}, other{.runs = {{3, 100}}, .resident = 1};
  const LaunchTimes::Loads first = shared.share({loads});
  CHECK(shared.share({loads}) == first);
  CHECK(shared.share({other}) != first);
  CHECK(shared.share({loads, loads}) != first);
}
