#include "search/strategies/strategies.h"
#include "search/strategies/surrogate.h"
#include "search/untried.h"

namespace moetune {
namespace {

constexpr std::size_t kStartsOfModel = 5;  // random configurations before the model is asked

// Bayesian optimization and nothing else: the candidate with the largest expected improvement under the
// Gaussian process, random ones where there is no model yet or no more.
class ModelSearch : public Searcher {
 public:
  ModelSearch(const LegalSpace& space, std::uint64_t seed) : untried_(space.size()), random_(seed), surrogate_(space) {}

  std::vector<ConfigId> ask(std::size_t n) override {
    std::vector<ConfigId> ids;
    while (ids.size() < n && !untried_.empty()) ids.push_back(next());
    return ids;
  }

  void tell(const Observation& observation) override {
    untried_.take(observation.id);
    surrogate_.tell(observation);
  }

  void end_when(std::function<bool()> is_over) override { surrogate_.end_when(std::move(is_over)); }

  void warm(std::span<const History> histories) override { surrogate_.set_history(histories); }

 private:
  ConfigId next() {
    if (asked_++ >= kStartsOfModel && surrogate_.usable()) {
      if (const auto pick = surrogate_.pick(untried_, std::nullopt, random_)) {
        untried_.take(*pick);
        surrogate_.open(*pick);
        return *pick;
      }
    }
    const ConfigId id = *untried_.draw(random_);
    surrogate_.open(id);
    return id;
  }

  Untried untried_;
  Random random_;
  Surrogate surrogate_;
  std::size_t asked_ = 0;
};

}  // namespace

std::unique_ptr<Searcher> make_model(const LegalSpace& space, std::uint64_t seed) {
  return std::make_unique<ModelSearch>(space, seed);
}

}  // namespace moetune
