#include "kernels/moe/routing.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/integers.h"

namespace moetune {
namespace {

// Shares of the load added up, expert after expert.
std::vector<double> routing_shares(std::int64_t experts, std::string_view skew) {
  std::vector<double> shares;
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto rank = static_cast<double>(e * 37 % experts);  // the busy ones lie apart
    shares.push_back(sum += skew == "zipf" ? 1 / (1 + rank) : 1);
  }
  return shares;
}

}  // namespace

std::int64_t RoutingSizes::places() const {
  if (segment > 0) return experts * segment;
  return ceil_div(slots() + std::min(experts, slots()) * (align - 1), align) * align;
}

std::int64_t RoutingSizes::slots_of_expert() const {
  const std::int64_t taken = capacity == 0 ? slots() : ceil_div(capacity * slots(), 100 * experts);
  return std::max<std::int64_t>(1, segment > 0 ? std::min(segment, taken) : taken);
}

RoutingPlan plan_routing(const RoutingSizes& sizes, std::span<const std::int32_t> ids) {
  const auto experts = static_cast<std::size_t>(sizes.experts);
  const auto room = static_cast<std::int32_t>(sizes.slots_of_expert());
  const auto align = static_cast<std::int32_t>(sizes.align);
  RoutingPlan plan;
  plan.counts.resize(experts, 0);
  for (const std::int32_t id : ids) {
    if (id >= 0) ++plan.counts[static_cast<std::size_t>(id)];
  }
  plan.offsets = {0};
  for (std::int32_t& count : plan.counts) {
    count = std::min(count, room);
    const auto segment = static_cast<std::int32_t>(sizes.segment);
    plan.offsets.push_back(plan.offsets.back() + (segment > 0 ? segment : (count + align - 1) / align * align));
  }
  plan.sorted.resize(static_cast<std::size_t>(sizes.places()), static_cast<std::int32_t>(sizes.slots()));
  plan.row_experts.resize(plan.sorted.size(), -1);
  std::vector<std::int32_t> taken(experts, 0);
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    if (ids[slot] < 0) {
      plan.inverse.push_back(-1);
      continue;
    }
    const auto e = static_cast<std::size_t>(ids[slot]);
    const bool fits = taken[e] < room;
    plan.inverse.push_back(fits ? plan.offsets[e] + taken[e] : -1);
    if (fits) {
      const auto place = static_cast<std::size_t>(plan.inverse.back());
      plan.sorted[place] = static_cast<std::int32_t>(slot);
      plan.row_experts[place] = ids[slot];
    }
    ++taken[e];
  }
  if (sizes.segment > 0) return plan;
  plan.block_experts.resize(plan.sorted.size() / static_cast<std::size_t>(align), -1);
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::int32_t row = plan.offsets[e]; row < plan.offsets[e + 1]; row += align)
      plan.block_experts[static_cast<std::size_t>(row / align)] = static_cast<std::int32_t>(e);
  }
  return plan;
}

std::vector<std::int32_t> draw_experts(const RoutingSizes& sizes, std::string_view skew, std::uint64_t seed) {
  const std::vector<double> shares = routing_shares(sizes.experts, skew);
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(sizes.slots()));
  for (std::int64_t token = 0; token < sizes.tokens; ++token) {
    const auto own = static_cast<std::ptrdiff_t>(ids.size());
    if (skew == "one") ids.push_back(0);
    while (static_cast<std::int64_t>(ids.size()) - own < sizes.top_k) {
      const double drawn = static_cast<double>(random() >> 11) * 0x1p-53 * shares.back();
      const auto above = std::upper_bound(shares.begin(), shares.end() - 1, drawn);
      const auto id = static_cast<std::int32_t>(above - shares.begin());
      if (std::find(ids.begin() + own, ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

double expected_experts(const RoutingSizes& sizes, std::string_view skew) {
  const auto experts = static_cast<double>(sizes.experts), top_k = static_cast<double>(sizes.top_k);
  const auto tokens = static_cast<double>(sizes.tokens);
  const auto evenly = [&](double among, double chosen) {
    return among <= chosen ? among : among * (1 - std::pow(1 - chosen / among, tokens));
  };
  if (skew == "one") return 1 + evenly(experts - 1, top_k - 1);
  if (skew != "zipf") return evenly(experts, top_k);
  const std::vector<double> sums = routing_shares(sizes.experts, skew);
  double expected = 0, before = 0;
  for (const double sum : sums) {
    expected += 1 - std::pow(1 - (sum - before) / sums.back(), tokens * top_k);
    before = sum;
  }
  return std::max(expected, std::min(experts, top_k));
}

}  // namespace moetune
