// Which of equal GPUs are slow, and what a night's list of devices means, without a GPU.
#include <doctest/doctest.h>

#include "base/error.h"
#include "jobs/session/gpu_speed.h"
#include "retune/device_night.h"
#include "retune/host_devices.h"

using namespace moetune;

namespace {

using Rates = std::vector<std::optional<double>>;
using Positions = std::vector<std::size_t>;

std::vector<std::string> names_of(const std::vector<NightDevice>& devices) {
  std::vector<std::string> names;
  for (const NightDevice& device : devices) names.push_back(device.name);
  return names;
}

}  // namespace

TEST_CASE("a GPU at least 3% slower than its siblings is slow, and one alone never") {
  CHECK(slow_siblings({}).empty());
  CHECK(slow_siblings({1.0}).empty());
  CHECK(slow_siblings({1.0, 0.98}).empty());
  CHECK(slow_siblings({1.0, 0.97}) == Positions{1});
  CHECK(slow_siblings({0.9, 1.0}) == Positions{0});
  CHECK(slow_siblings({1.0, 1.001, 0.999, 0.96, 1.0, 1.0, 0.95, 1.0}) == Positions{3, 6});
  CHECK(slow_siblings({1.0, 1.1, 1.0, 1.0}).empty());  // one that is faster makes no other slow
  CHECK(slow_siblings(Rates{std::nullopt, 0.5, std::nullopt}).empty());
  CHECK(slow_siblings(Rates{std::nullopt, 0.5, 1.0}) == Positions{1});
}

TEST_CASE("a speed is of the middle of enough readings that are not the first and were not disturbed") {
  const auto speed_of = [](std::vector<double> speeds, std::size_t disturbed = 99) {
    speeds.insert(speeds.begin(), kSpeedWarmUp, 7);
    std::vector<CanaryReading> readings;
    for (const double speed : speeds) readings.push_back({.windows_per_us = speed});
    if (disturbed < speeds.size()) readings[disturbed].lost_us = 1e6;
    return typical_speed(readings);
  };
  CHECK_FALSE(speed_of({}));
  CHECK_FALSE(speed_of({1, 1, 1, 1}));
  CHECK_FALSE(speed_of({1, 1, 1, 1, 0}));
  CHECK(speed_of({5, 1, 1, 1, 1}) == 1.0);
  CHECK(speed_of({0.1, 1, 2, 3, 9}) == 2.0);
  CHECK_FALSE(speed_of({0.1, 1, 2, 3, 9}, kSpeedWarmUp + 2));
}

TEST_CASE("each GPU, and each of equal recordings, has files and a name of its own") {
  const DeviceInfo gpu{.id = "cuda:1", .uuid = "GPU-12"}, nameless{.id = "cuda:1"};
  CHECK(night_files("c.db", &gpu, 0) == "c.db-retune-GPU-12");
  CHECK(night_files("c.db", &nameless, 0) == "c.db-retune-cuda-1");
  CHECK(night_files("c.db", nullptr, 0) == "c.db-retune-recordings");
  CHECK(night_files("c.db", nullptr, 1) == "c.db-retune-recordings-2");
  CHECK(night_device_name("replay:r", nullptr, 1) == "replay:r (2)");
  CHECK(night_device_name("all", &gpu, 0) == "cuda:1");
}

TEST_CASE("recordings may be named several times, and are there") {
  const std::string name = "replay:router_h200_deepseek_v3_t64";
  CHECK(names_of(night_devices(name + "," + name)) == std::vector<std::string>{name, name});
  CHECK(names_of(night_devices(name)) == std::vector<std::string>{name});
  CHECK(names_of(night_devices("cuda:3")) == std::vector<std::string>{"cuda:3"});
  CHECK_THROWS_AS(night_devices(name + ","), BadField);
  CHECK_THROWS_AS(night_devices(name + ",all"), BadField);
  CHECK_THROWS_AS(night_devices(name + ",replay:nope"), BadField);
}
