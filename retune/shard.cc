#include "retune/shard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <tuple>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

// A GPU of fixed ceilings, near an H100's. Another one is faster or slower at all points alike.
constexpr double kBytesPerUs = 3e6, kFlopsPerUs = 5e8;  // of bf16; fp8 twice as fast, CUDA cores an eighth
constexpr double kLaunches = 200;                       // of a trial: validation, warm-up and samples
constexpr double kTrial_ms = 40;                        // what a trial takes beside its launches
constexpr double kSlower = 2;                           // a trial's time over the floor, on average
constexpr double kLongest_ms = 1e12;

struct Place {
  std::size_t position = 0;
  std::string digest;
};

}  // namespace

Shard parse_shard(const std::string& text) {
  unsigned long number = 0, count = 0;
  int read = 0;
  const bool matches = std::sscanf(text.c_str(), "%4lu/%4lu%n", &number, &count, &read) == 2 &&
                       read == static_cast<int>(text.size()) &&
                       text.find_first_not_of("0123456789/") == std::string::npos;
  if (!matches || number < 1 || count < 1 || number > count)
    throw BadInput("must be K/N with K from 1 to N, such as 1/4 (got '" + text + "')");
  return {number, count};
}

std::uint64_t search_length_ms(const TuningPoint& point, std::size_t budget) {
  const Kernel& kernel = find_kernel(point.kernel);
  const Cost cost = kernel.cost(kernel.parse(point.problem));
  const double flops = cost.flops.bf16 + cost.flops.fp16 + cost.flops.e4m3 / 2 + cost.flops.fp32 * 8;
  const double launch_us = std::max(cost.bytes() / kBytesPerUs, flops / kFlopsPerUs) * kSlower;
  const double trial_ms = kTrial_ms + kLaunches * launch_us * 1e-3;
  return static_cast<std::uint64_t>(std::llround(std::min(kLongest_ms, static_cast<double>(budget) * trial_ms)));
}

std::vector<std::vector<TuningPoint>> deal(const std::vector<DealtPoint>& points, std::uint64_t shards) {
  std::vector<Place> order;
  for (std::size_t i = 0; i < points.size(); ++i)
    order.push_back({i, DigestBuilder().add(points[i].point.kernel).add(points[i].point.problem).finish()});
  std::ranges::sort(order, [&](const Place& a, const Place& b) {
    const std::uint64_t longer = points[a.position].length_ms, other = points[b.position].length_ms;
    return std::tie(other, a.digest) < std::tie(longer, b.digest);
  });
  std::vector<std::uint64_t> work(shards), owner(points.size());
  for (const Place& place : order) {
    const auto least = std::min_element(work.begin(), work.end());
    *least += std::max<std::uint64_t>(1, points[place.position].length_ms);
    owner[place.position] = static_cast<std::uint64_t>(least - work.begin());
  }
  std::vector<std::vector<TuningPoint>> dealt(shards);
  for (std::size_t i = 0; i < points.size(); ++i) dealt[owner[i]].push_back(points[i].point);
  return dealt;
}

TuningWork work_of_shard(TuningWork work, const Shard& shard, std::size_t budget) {
  if (shard.count <= 1) return work;
  const auto range_name = [](const TuningRange& range) { return range.problem + " over " + range.over; };
  std::vector<DealtPoint> all;
  for (const TuningPoint& point : work.points) all.push_back({point, search_length_ms(point, budget)});
  for (const TuningRange& range : work.ranges)
    all.push_back({{range.kernel, range_name(range), range.weight},
                   kSearchesOfARange * search_length_ms({range.kernel, range.problem, range.weight}, budget)});
  std::set<std::pair<std::string, std::string>> mine;
  const std::vector<std::vector<TuningPoint>> dealt = deal(all, shard.count);
  for (const TuningPoint& point : dealt[shard.number - 1]) mine.emplace(point.kernel, point.problem);
  std::erase_if(work.points, [&](const TuningPoint& point) { return !mine.contains({point.kernel, point.problem}); });
  std::erase_if(work.ranges, [&](const TuningRange& range) {
    return !mine.contains({range.kernel, range_name(range)});
  });
  return work;
}

}  // namespace moetune
