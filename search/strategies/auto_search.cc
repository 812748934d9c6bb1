#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>

#include "search/strategies/strategies.h"
#include "search/strategies/surrogate.h"
#include "search/untried.h"

namespace moetune {
namespace {

constexpr std::size_t kRandomStarts = 5;  // random configurations before the model is asked
constexpr std::size_t kMostSeeds = 4;     // winners from histories that are tried first
constexpr std::size_t kLedUntil = 60;     // asks; so long winners from elsewhere may bind the model to the best

// The first asks of a search that knows winners from elsewhere: four of them, from the third on by turns with
// the choices of the model, and a start drawn anywhere, by which to judge them.
enum class Turn { winner, model, anywhere };
constexpr std::array<Turn, 8> kWarmTurns = {Turn::winner, Turn::winner, Turn::model, Turn::winner,
                                            Turn::model,  Turn::winner, Turn::model, Turn::anywhere};
// The same where none of them is told yet: a model has nothing to go by.
constexpr std::array<Turn, 5> kBlindTurns = {Turn::winner, Turn::winner, Turn::anywhere, Turn::winner, Turn::winner};
constexpr std::size_t kFewestToDoubt = 4;  // told, before winners can be seen to be beaten
constexpr std::size_t kPatience = 6;       // told without a new best, before a warm model leaves the last one

// The most open at a time: a configuration that is asked before its predecessors' results is chosen half blind. Five
// at first, so that compiling and measuring overlap, and one more for every sixteen told.
constexpr std::size_t kOpenAtFirst = 5;
constexpr std::size_t kToldAnOpen = 16;

// The model chooses globally. Where it has nothing to go by, or the search has outgrown it, a local search that is
// told everything goes on alone.
//
// With winners from elsewhere that the model still trusts, the optimum is mostly a few parameters away. So for a
// while the model chooses among the neighbours of the best, and anywhere else once these stop improving it (a trust
// region of Hamming distance one, after Wan et al. 2021, Think Global and Act Local).
class AutoSearch : public Searcher {
 public:
  AutoSearch(const LegalSpace& space, std::uint64_t seed)
      : space_(space), untried_(space.size()), random_(seed), surrogate_(space), descent_(make_local(space, ~seed)) {}

  std::vector<ConfigId> ask(std::size_t n) override {
    std::vector<ConfigId> ids;
    while (ids.size() < n && open_.size() < most_open() && !untried_.empty()) {
      const ConfigId id = next();
      surrogate_.open(id);
      open_.insert(id);
      ++asked_;
      ids.push_back(id);
    }
    return ids;
  }

  void tell(const Observation& observation) override {
    untried_.take(observation.id);
    if (open_.erase(observation.id) == 0 && surrogate_.log().find(observation.id) == nullptr) {
      ++resumed_;
      if (std::erase(seeds_, observation.id) > 0) tried_seeds_.insert(observation.id);
    }
    surrogate_.tell(observation);
    descent_->tell(observation);
  }

  std::vector<ConfigId> likely_next(std::size_t n) const override {
    std::vector<ConfigId> ids;
    const auto add = [&](ConfigId id) {
      if (ids.size() < n && untried_.contains(id) && std::find(ids.begin(), ids.end(), id) == ids.end())
        ids.push_back(id);
    };
    if (begun() < kWarmTurns.size()) std::for_each(seeds_.rbegin(), seeds_.rend(), add);
    if (!surrogate_.usable()) return ids;
    for (const std::optional<ConfigId> beside : {centre(), std::optional<ConfigId>()}) {
      for (const ConfigId id : surrogate_.leaders(untried_, beside, n)) add(id);
    }
    return ids;
  }

  void end_when(std::function<bool()> is_over) override { surrogate_.end_when(std::move(is_over)); }

  void warm(std::span<const History> histories) override {
    surrogate_.set_history(histories);
    choose_seeds(histories);
    warm_ = !seeds_.empty();
  }

 private:
  // Asked, or told by a search that resumes; a tuner may tell its default unasked.
  std::size_t begun() const { return asked_ + resumed_ - std::min<std::size_t>(resumed_, 1); }

  std::size_t most_open() const { return kOpenAtFirst + surrogate_.log().size() / kToldAnOpen; }

  // The winner of each history, then the second of each, and so on, each as near as this space comes to it;
  // last first.
  void choose_seeds(std::span<const History> histories) {
    std::vector<std::vector<ConfigId>> ranked;
    for (const History& history : histories) ranked.push_back(nearest_to_winners(history));
    seeds_.clear();
    std::unordered_set<ConfigId> chosen;
    for (std::size_t rank = 0; rank < kMostSeeds; ++rank) {
      for (const std::vector<ConfigId>& ids : ranked) {
        if (rank < ids.size() && seeds_.size() < kMostSeeds && chosen.insert(ids[rank]).second)
          seeds_.push_back(ids[rank]);
      }
    }
    std::reverse(seeds_.begin(), seeds_.end());
  }

  std::vector<ConfigId> nearest_to_winners(const History& history) {
    TrialLog log;  // by position in the history
    for (std::size_t i = 0; i < history.trials.size() && !space_.empty(); ++i) {
      const PastTrial& trial = history.trials[i];
      if (is_point_of(space_, trial.point)) log.add({static_cast<ConfigId>(i), trial.outcome, trial.time_us});
    }
    std::vector<ConfigId> ids;
    for (const Observation& winner : log.fastest(kMostSeeds))
      ids.push_back(space_.nearest(history.trials[winner.id].point, random_));
    return ids;
  }

  ConfigId next() {
    if (const std::optional<ConfigId> id = next_seed()) return *id;
    if (starts()) {
      ++random_starts_;
      return *untried_.draw(random_);
    }
    if (surrogate_.usable()) {
      surrogate_.fit_if_due(random_);
      std::optional<ConfigId> pick = surrogate_.pick(untried_, centre(), random_);
      if (!pick) pick = surrogate_.pick(untried_, std::nullopt, random_);
      if (pick) {
        untried_.take(*pick);
        return *pick;
      }
    }
    if (const std::optional<ConfigId> id = next_descent_step()) return *id;
    return *untried_.draw(random_);
  }

  Turn turn() const {
    if (surrogate_.log().size() == 0 && begun() < kBlindTurns.size()) return kBlindTurns[begun()];
    return begun() < kWarmTurns.size() ? kWarmTurns[begun()] : Turn::model;
  }

  // Winners from elsewhere stand for random starts as long as they are worth something.
  bool starts() const {
    if (surrogate_.log().successes() == 0) return true;
    if (!warm_) return begun() < kRandomStarts;
    return turn() == Turn::anywhere || (!surrogate_.trusts_history() && random_starts_ < kRandomStarts);
  }

  // The configuration whose neighbours the model is to choose among; nullopt for all.
  std::optional<ConfigId> centre() const {
    const Observation* best = surrogate_.log().best();
    const bool led = warm_ && surrogate_.trusts_history() && begun() < kLedUntil;
    return led && best != nullptr && surrogate_.log().since_best() < kPatience ? std::optional(best->id) : std::nullopt;
  }

  // None where there is no seed left, or where it is not the turn of one.
  std::optional<ConfigId> next_seed() {
    if (seeds_disappoint()) seeds_.clear();
    if (!warm_ || turn() != Turn::winner) return std::nullopt;
    while (!seeds_.empty()) {
      const ConfigId id = seeds_.back();
      seeds_.pop_back();
      if (!untried_.take(id)) continue;
      tried_seeds_.insert(id);
      return id;
    }
    return std::nullopt;
  }

  // Whether something else beats every winner from elsewhere that was tried.
  bool seeds_disappoint() const {
    if (seeds_.empty() || surrogate_.log().size() < kFewestToDoubt) return false;
    const Observation* best = surrogate_.log().best();
    return best == nullptr || !tried_seeds_.contains(best->id);
  }

  std::optional<ConfigId> next_descent_step() {
    for (;;) {
      const std::vector<ConfigId> ids = descent_->ask(1);
      if (ids.empty()) return std::nullopt;
      if (untried_.take(ids[0])) return ids[0];
    }
  }

  const LegalSpace& space_;
  Untried untried_;
  Random random_;
  Surrogate surrogate_;
  std::unique_ptr<Searcher> descent_;
  std::unordered_set<ConfigId> open_;  // asked, not told
  std::vector<ConfigId> seeds_;        // the next one last
  std::unordered_set<ConfigId> tried_seeds_;
  std::size_t asked_ = 0;
  std::size_t resumed_ = 0;  // told, not asked
  std::size_t random_starts_ = 0;
  bool warm_ = false;  // winners from elsewhere are known
};

}  // namespace

std::unique_ptr<Searcher> make_auto(const LegalSpace& space, std::uint64_t seed) {
  return std::make_unique<AutoSearch>(space, seed);
}

}  // namespace moetune
