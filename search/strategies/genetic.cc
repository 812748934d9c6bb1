#include <algorithm>
#include <optional>

#include "search/strategies/one_by_one.h"
#include "search/strategies/strategies.h"

namespace moetune {
namespace {

constexpr std::size_t kPopulation = 20;
constexpr int kTournament = 3;
constexpr int kCrossings = 30;  // crossings before a random configuration takes the child's place

struct Individual {
  ConfigId id = 0;
  double time = 0;
};

// A steady-state genetic algorithm: each child of two tournament winners, by uniform crossover and mutation,
// replaces the slowest of the population where it is faster. Children that are illegal or tried are bred
// again, with more mutation each time.
class Genetic : public OneByOne {
 public:
  Genetic(const LegalSpace& space, std::uint64_t seed) : OneByOne(space, seed) {}

 private:
  void on_success(const Observation& observation) override {
    const auto place =
        std::upper_bound(population_.begin(), population_.end(), observation.time_us,
                         [](double time, const Individual& other) { return time < other.time; });
    population_.insert(place, {observation.id, observation.time_us});
    if (population_.size() > kPopulation) population_.pop_back();
  }

  ConfigId next() override {
    if (starts_ < kPopulation || population_.size() < 2) {
      ++starts_;
      return *untried_.draw(random_);
    }
    for (int attempt = 0; attempt < kCrossings; ++attempt) {
      const std::optional<ConfigId> child = space_.find(breed(1 + attempt / 5));
      if (child && untried_.take(*child)) return *child;
    }
    return *untried_.draw(random_);
  }

  std::span<const Position> tournament() {
    std::uint64_t winner = random_.below(population_.size());
    for (int i = 1; i < kTournament; ++i) winner = std::min(winner, random_.below(population_.size()));
    return space_.point(population_[winner].id);
  }

  // `mutations` is how many parameters change, on average.
  std::vector<Position> breed(int mutations) {
    const std::span<const Position> mother = tournament();
    const std::span<const Position> father = tournament();
    std::vector<Position> child(mother.begin(), mother.end());
    for (std::size_t p = 0; p < child.size(); ++p) {
      if (random_.below(2) == 0) child[p] = father[p];
      if (random_.below(child.size()) < static_cast<std::uint64_t>(mutations))
        child[p] = static_cast<Position>(random_.below(space_.parameters()[p].values.size()));
    }
    return child;
  }

  std::size_t starts_ = 0;
  std::vector<Individual> population_;  // fastest first
};

}  // namespace

std::unique_ptr<Searcher> make_genetic(const LegalSpace& space, std::uint64_t seed) {
  return std::make_unique<Genetic>(space, seed);
}

}  // namespace moetune
