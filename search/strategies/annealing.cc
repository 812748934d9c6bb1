#include <cmath>
#include <limits>
#include <optional>

#include "search/strategies/one_by_one.h"
#include "search/strategies/strategies.h"

namespace moetune {
namespace {

constexpr double kHot = 0.5;  // temperatures are of the logarithm of the time: at this one, 1.65 times slower
                              // is accepted in one case of e
constexpr double kCold = 0.002;
constexpr double kCooling = 0.97;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Simulated annealing over Hamming neighbours. Once cold it starts again, hot, from a random configuration.
// With several open, all are neighbours of the point as it was when they were asked, and each is accepted or
// not against the point as it is when it is told.
class Annealing : public OneByOne {
 public:
  Annealing(const LegalSpace& space, std::uint64_t seed) : OneByOne(space, seed) {}

 private:
  void on_success(const Observation& observation) override {
    const double value = std::log(observation.time_us);
    if (value <= value_ || random_.unit() < std::exp((value_ - value) / temperature_)) {
      at_ = observation.id;
      value_ = value;
    }
    temperature_ *= kCooling;
    if (temperature_ < kCold) {
      temperature_ = kHot;
      value_ = kNever;
    }
  }

  ConfigId next() override {
    if (value_ < kNever) {
      std::vector<ConfigId> around = space_.neighbours(at_);
      std::erase_if(around, [&](ConfigId id) { return !untried_.contains(id); });
      if (!around.empty()) {
        const ConfigId id = around[random_.below(around.size())];
        untried_.take(id);
        return id;
      }
    }
    return *untried_.draw(random_);
  }

  ConfigId at_ = 0;
  double value_ = kNever;  // of at_; infinite where the next success is the start
  double temperature_ = kHot;
};

}  // namespace

std::unique_ptr<Searcher> make_annealing(const LegalSpace& space, std::uint64_t seed) {
  return std::make_unique<Annealing>(space, seed);
}

}  // namespace moetune
