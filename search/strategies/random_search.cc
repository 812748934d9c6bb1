#include "search/strategies/strategies.h"
#include "search/untried.h"

namespace moetune {
namespace {

class RandomSearch : public Searcher {
 public:
  RandomSearch(const LegalSpace& space, std::uint64_t seed) : untried_(space.size()), random_(seed) {}

  std::vector<ConfigId> ask(std::size_t n) override {
    std::vector<ConfigId> ids;
    while (ids.size() < n && !untried_.empty()) ids.push_back(*untried_.draw(random_));
    return ids;
  }

  void tell(const Observation& observation) override { untried_.take(observation.id); }

 private:
  Untried untried_;
  Random random_;
};

}  // namespace

std::unique_ptr<Searcher> make_random(const LegalSpace& space, std::uint64_t seed) {
  return std::make_unique<RandomSearch>(space, seed);
}

}  // namespace moetune
