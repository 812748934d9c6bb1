#include "tests/search/simulation.h"

#include <doctest/doctest.h>

#include <limits>

using namespace moetune;

namespace {

// Asks what it is given to ask, and remembers what it is told.
class Scripted : public Searcher {
 public:
  explicit Scripted(std::vector<ConfigId> script) : script_(std::move(script)) {}

  std::vector<ConfigId> ask(std::size_t n) override {
    std::vector<ConfigId> ids;
    while (ids.size() < n && next_ < script_.size()) ids.push_back(script_[next_++]);
    most_open = std::max(most_open, next_ - told.size());
    return ids;
  }
  void tell(const Observation& observation) override { told.push_back(observation.id); }

  std::vector<ConfigId> told;
  std::size_t most_open = 0;

 private:
  std::vector<ConfigId> script_;
  std::size_t next_ = 0;
};

const std::vector<Observation> kOutcomesById = {
    {0, Outcome::ok, 5}, {1, Outcome::crashed, 0}, {2, Outcome::ok, 3}, {3, Outcome::ok, 4}};

}  // namespace

TEST_CASE("a simulated search tells in the order of the asks, and failures cost a trial") {
  for (const std::size_t in_flight : {1, 3, 10}) {
    Scripted searcher({1, 0, 2, 3});
    const SimulatedRun run = simulate(searcher, kOutcomesById, 3, in_flight);
    CHECK(run.asked == std::vector<ConfigId>{1, 0, 2});
    CHECK(searcher.told == run.asked);
    CHECK(run.best_us == std::vector<double>{std::numeric_limits<double>::infinity(), 5, 3});
    CHECK_FALSE(run.repeated);
    CHECK(searcher.most_open == std::min<std::size_t>(in_flight, 3));
  }
}

TEST_CASE("asking twice or outside the space is found") {
  Scripted twice({2, 2});
  CHECK(simulate(twice, kOutcomesById, 4, 1).repeated);
  Scripted outside({4});
  CHECK(simulate(outside, kOutcomesById, 4, 1).repeated);
}
