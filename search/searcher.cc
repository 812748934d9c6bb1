#include "search/searcher.h"

#include <array>
#include <cmath>

#include "base/lists.h"
#include "base/suggest.h"
#include "search/strategies/strategies.h"

namespace moetune {
namespace {

struct Registered {
  StrategyInfo info;
  std::unique_ptr<Searcher> (*make)(const LegalSpace&, std::uint64_t seed);
};

const std::vector<Registered>& registry() {
  static const std::vector<Registered> entries = {
      {{"auto", "the default: model, warm starts from the cache, and local search past 500 trials (docs/search.md)"},
       make_auto},
      {{"model", "Bayesian optimization: Gaussian process, expected improvement (Jones, Schonlau, Welch 1998)"},
       make_model},
      {{"local",
        "iterated local search: descent from random starts and from kicks of the best (Lourenco, Martin, "
        "Stutzle 2003)"},
       make_local},
      {{"random", "uniform without replacement (Bergstra, Bengio 2012)"}, make_random},
      {{"exhaustive", "every configuration, in the order of the space"}, make_exhaustive},
  };
  return entries;
}

}  // namespace

bool has_usable_time(const Observation& observation) {
  return has_time(observation.outcome) && std::isfinite(observation.time_us) && observation.time_us > 0;
}

const std::vector<StrategyInfo>& strategies() {
  static const std::vector<StrategyInfo> infos = gathered(registry(), &Registered::info);
  return infos;
}

std::unique_ptr<Searcher> make_searcher(std::string_view strategy, const LegalSpace& space, std::uint64_t seed) {
  const auto name = [](const Registered& entry) { return entry.info.name; };
  return find_by_name("strategy", strategy, registry(), name).make(space, seed);
}

}  // namespace moetune
