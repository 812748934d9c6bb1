#include "search/simulation.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "search/scouting.h"

namespace moetune {
namespace {

class Simulation {
 public:
  Simulation(Searcher& searcher, std::span<const Observation> outcomes, std::span<const Facts> facts,
             std::size_t in_flight)
      : searcher_(searcher),
        outcomes_(outcomes),
        facts_(facts),
        in_flight_(std::max<std::size_t>(in_flight, 1)),
        scouting_(searcher),
        asked_(outcomes.size(), false),
        learnt_(outcomes.size(), false) {}

  SimulatedRun run(std::size_t budget) {
    while (refill(budget) && !open_.empty()) tell();
    for (const ConfigId id : scouted_) run_.pruned += learnt_[id] && !asked_[id];
    return std::move(run_);
  }

 private:
  // False where the searcher has a defect.
  bool refill(std::size_t budget) {
    const std::size_t told = run_.best_us.size();
    while (const auto id = scouting_.take_due(told)) learn(*id);
    for (const ConfigId id : searcher_.ask(std::min(in_flight_ - open_.size(), budget - run_.asked.size()))) {
      if (id >= outcomes_.size() || asked_[id]) {
        run_.repeated = true;
        return false;
      }
      asked_[id] = true;
      run_.asked.push_back(id);
      open_.push_back(id);
    }
    if (facts_.empty()) return true;
    for (const ConfigId id : scouting_.send(in_flight_ - open_.size(), told)) scouted_.push_back(id);
    return true;
  }

  void tell() {
    const Observation& told = outcomes_[open_.front()];
    open_.pop_front();
    if (!facts_.empty()) learn(told.id);
    searcher_.tell(told);
    if (has_usable_time(told)) best_ = std::min(best_, told.time_us);
    run_.best_us.push_back(best_);
  }

  void learn(ConfigId id) {
    searcher_.learn(id, facts_[id]);
    learnt_[id] = true;
  }

  Searcher& searcher_;
  std::span<const Observation> outcomes_;
  std::span<const Facts> facts_;
  std::size_t in_flight_;
  Scouting scouting_;
  std::vector<bool> asked_, learnt_;
  std::deque<ConfigId> open_;
  std::vector<ConfigId> scouted_;
  double best_ = std::numeric_limits<double>::infinity();
  SimulatedRun run_;
};

}  // namespace

SimulatedRun simulate(Searcher& searcher, std::span<const Observation> outcomes, std::size_t budget,
                      std::size_t in_flight, std::span<const Facts> facts) {
  return Simulation(searcher, outcomes, facts, in_flight).run(budget);
}

}  // namespace moetune
