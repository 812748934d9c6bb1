#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "search/strategies/strategies.h"
#include "search/untried.h"

namespace moetune {
namespace {

constexpr std::size_t kVectors = 20;
constexpr double kWeight = 0.7;
constexpr double kCrossover = 0.6;
constexpr int kMutations = 30;
constexpr double kNoTime = std::numeric_limits<double>::infinity();

struct Member {
  ConfigId id = 0;
  double time = kNoTime;
};

// Differential evolution (best/1/bin) on the positions of the domains. A trial vector that is illegal or
// tried after rounding is drawn again from other members; where that fails, the slot gets a random
// configuration.
class DifferentialEvolution : public Searcher {
 public:
  DifferentialEvolution(const LegalSpace& space, std::uint64_t seed)
      : space_(space), untried_(space.size()), random_(seed) {}

  std::vector<ConfigId> ask(std::size_t n) override {
    std::vector<ConfigId> ids;
    while (ids.size() < n && !untried_.empty()) {
      const ConfigId id = next();
      slot_of_[id] = slot_;
      slot_ = (slot_ + 1) % kVectors;
      ids.push_back(id);
    }
    return ids;
  }

  void tell(const Observation& observation) override {
    if (observation.id >= space_.size()) return;
    untried_.take(observation.id);
    const auto asked = slot_of_.find(observation.id);
    const std::size_t slot = asked != slot_of_.end() ? asked->second : observation.id % kVectors;
    if (asked != slot_of_.end()) slot_of_.erase(asked);
    if (!has_usable_time(observation)) return;
    if (slot >= members_.size()) members_.resize(slot + 1);
    if (observation.time_us < members_[slot].time) members_[slot] = {observation.id, observation.time_us};
  }

 private:
  ConfigId next() {
    std::vector<Member> alive = members_;
    std::erase_if(alive, [](const Member& member) { return member.time == kNoTime; });
    if (starts_ < kVectors || alive.size() < 4) {
      ++starts_;
      return *untried_.draw(random_);
    }
    for (int attempt = 0; attempt < kMutations; ++attempt) {
      const std::optional<ConfigId> id = space_.find(trial_vector(alive));
      if (id && untried_.take(*id)) return *id;
    }
    return *untried_.draw(random_);
  }

  std::vector<Position> trial_vector(const std::vector<Member>& alive) {
    const Member& best = *std::min_element(alive.begin(), alive.end(),
                                           [](const Member& a, const Member& b) { return a.time < b.time; });
    const auto any = [&] { return space_.point(alive[random_.below(alive.size())].id); };
    const bool has_target = slot_ < members_.size() && members_[slot_].time < kNoTime;
    const std::span<const Position> target = has_target ? space_.point(members_[slot_].id) : any();
    const std::span<const Position> base = space_.point(best.id);
    const std::span<const Position> plus = any();
    const std::span<const Position> minus = any();
    std::vector<Position> point(target.begin(), target.end());
    const std::size_t forced = random_.below(point.size());
    for (std::size_t p = 0; p < point.size(); ++p) {
      if (p != forced && random_.unit() >= kCrossover) continue;
      const auto last = static_cast<double>(space_.parameters()[p].values.size() - 1);
      const double difference = static_cast<double>(plus[p]) - static_cast<double>(minus[p]);
      const double moved = static_cast<double>(base[p]) + kWeight * difference + random_.unit() - 0.5;
      point[p] = static_cast<Position>(std::clamp(std::round(moved), 0.0, last));
    }
    return point;
  }

  const LegalSpace& space_;
  Untried untried_;
  Random random_;
  std::size_t starts_ = 0;
  std::size_t slot_ = 0;  // whose turn it is
  std::vector<Member> members_;
  std::unordered_map<ConfigId, std::size_t> slot_of_;  // of what is open
};

}  // namespace

std::unique_ptr<Searcher> make_differential_evolution(const LegalSpace& space, std::uint64_t seed) {
  return std::make_unique<DifferentialEvolution>(space, seed);
}

}  // namespace moetune
