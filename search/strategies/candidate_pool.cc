#include "search/strategies/candidate_pool.h"

#include <algorithm>
#include <numeric>

namespace moetune {
namespace {

constexpr std::size_t kSampled = 8'000;
constexpr std::size_t kWalks = 4'000;
constexpr std::uint64_t kLongestWalk = 4;

void add_walks(const LegalSpace& space, const std::vector<Observation>& starts, Random& random,
               std::vector<ConfigId>& pool) {
  std::vector<std::vector<ConfigId>> around;
  for (const Observation& start : starts) {
    around.push_back(space.neighbours(start.id));
    pool.insert(pool.end(), around.back().begin(), around.back().end());
  }
  // From the neighbours, whose list is at hand, one cheap step further at a time.
  for (std::size_t walk = 0; walk < kWalks; ++walk) {
    const std::vector<ConfigId>& first = around[random.below(random.below(around.size()) + 1)];
    if (first.empty()) continue;
    const std::span<const Position> start = space.point(first[random.below(first.size())]);
    std::vector<Position> point(start.begin(), start.end());
    for (std::uint64_t step = random.below(kLongestWalk) + 1; step > 0; --step) {
      const std::size_t parameter = random.below(point.size());
      const Position before = point[parameter];
      point[parameter] = static_cast<Position>(random.below(space.parameters()[parameter].values.size()));
      if (const std::optional<ConfigId> id = space.find(point)) {
        pool.push_back(*id);
      } else {
        point[parameter] = before;
      }
    }
  }
}

}  // namespace

std::vector<ConfigId> make_candidate_pool(const LegalSpace& space, const std::vector<Observation>& fastest,
                                          Random& random) {
  std::vector<ConfigId> pool;
  if (space.size() <= kWholeSpace) {
    pool.resize(space.size());
    std::iota(pool.begin(), pool.end(), ConfigId{0});
    return pool;
  }
  for (std::size_t i = 0; i < kSampled; ++i) pool.push_back(static_cast<ConfigId>(random.below(space.size())));
  if (!fastest.empty()) add_walks(space, fastest, random, pool);
  std::sort(pool.begin(), pool.end());
  pool.erase(std::unique(pool.begin(), pool.end()), pool.end());
  return pool;
}

}  // namespace moetune
