#include <limits>
#include <optional>
#include <unordered_set>

#include "search/strategies/strategies.h"
#include "search/untried.h"

namespace moetune {
namespace {

constexpr std::size_t kStarts = 16;         // random points before the first descent
constexpr int kKickSteps = 3;               // parameters that a kick changes, at most
constexpr std::uint64_t kRestartOneIn = 5;  // of the points asked beside a descent, the share drawn anywhere

struct Point {
  ConfigId id = 0;
  double time = std::numeric_limits<double>::infinity();
};

// Iterated local search with first-improvement descent. The neighbours of `base_` are asked in random order;
// the first better one becomes the base. While the last of them are being measured, and so that as many
// configurations as the caller wants are open, kicks of the best point and random points are asked too; the
// best of those is where the next descent begins once the base turns out to be a local optimum. A failure is
// a time of infinity.
class LocalSearch : public Searcher {
 public:
  LocalSearch(const LegalSpace& space, std::uint64_t seed) : space_(space), untried_(space.size()), random_(seed) {}

  std::vector<ConfigId> ask(std::size_t n) override {
    std::vector<ConfigId> ids;
    while (ids.size() < n) {
      const std::optional<ConfigId> id = next();
      if (!id) break;
      ids.push_back(*id);
    }
    return ids;
  }

  void tell(const Observation& observation) override {
    if (observation.id >= space_.size()) return;
    untried_.take(observation.id);
    const bool was_neighbour = open_neighbours_.erase(observation.id) > 0;
    if (has_usable_time(observation)) {
      const Point told{observation.id, observation.time_us};
      if (told.time < best_.time) best_ = told;
      if (told.time < base_.time) {
        descend_from(told);
      } else if (!was_neighbour && told.id != base_.id && told.time < next_start_.time) {
        next_start_ = told;
      }
    }
    if (at_local_optimum() && next_start_.time < kNever) {
      const Point start = next_start_;
      next_start_ = {};
      descend_from(start);
    }
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  std::optional<ConfigId> next() {
    if (starts_ < kStarts) {
      ++starts_;
      return untried_.draw(random_);
    }
    while (!queue_.empty()) {
      const ConfigId id = queue_.back();
      queue_.pop_back();
      if (untried_.take(id)) {
        open_neighbours_.insert(id);
        return id;
      }
    }
    if (best_.time < kNever && random_.below(kRestartOneIn) != 0) {
      if (const std::optional<ConfigId> id = kick(best_.id)) return id;
    }
    return untried_.draw(random_);
  }

  bool at_local_optimum() const { return base_.time < kNever && queue_.empty() && open_neighbours_.empty(); }

  void descend_from(const Point& point) {
    base_ = point;
    open_neighbours_.clear();
    queue_.clear();
    for (const ConfigId id : space_.neighbours(point.id)) {
      if (untried_.contains(id)) queue_.push_back(id);
    }
    random_.shuffle(queue_);
  }

  // A walk of a few random steps that ends on a point not tried; a walk that does not is tried again a few
  // times.
  std::optional<ConfigId> kick(ConfigId from) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      ConfigId at = from;
      for (int step = 0; step < kKickSteps; ++step) {
        const std::vector<ConfigId> around = space_.neighbours(at);
        if (around.empty()) return std::nullopt;
        at = around[random_.below(around.size())];
      }
      if (untried_.take(at)) return at;
    }
    return std::nullopt;
  }

  const LegalSpace& space_;
  Untried untried_;
  Random random_;
  std::size_t starts_ = 0;
  Point best_;
  Point base_;                                    // whose neighbours are being tried
  Point next_start_;                              // the best point told since that is no neighbour of the base
  std::vector<ConfigId> queue_;                   // neighbours of the base, not asked yet
  std::unordered_set<ConfigId> open_neighbours_;  // asked, not told
};

}  // namespace

std::unique_ptr<Searcher> make_local(const LegalSpace& space, std::uint64_t seed) {
  return std::make_unique<LocalSearch>(space, seed);
}

}  // namespace moetune
