#include "tests/search/simulation.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace moetune {

SimulatedRun simulate(Searcher& searcher, std::span<const Observation> outcomes, std::size_t budget,
                      std::size_t in_flight) {
  in_flight = std::max<std::size_t>(in_flight, 1);
  SimulatedRun run;
  std::vector<bool> asked(outcomes.size(), false);
  std::deque<ConfigId> open;
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    for (const ConfigId id : searcher.ask(std::min(in_flight - open.size(), budget - run.asked.size()))) {
      if (id >= outcomes.size() || asked[id]) {
        run.repeated = true;
        return run;
      }
      asked[id] = true;
      run.asked.push_back(id);
      open.push_back(id);
    }
    if (open.empty()) return run;
    const Observation& told = outcomes[open.front()];
    open.pop_front();
    searcher.tell(told);
    if (has_usable_time(told)) best = std::min(best, told.time_us);
    run.best_us.push_back(best);
  }
}

}  // namespace moetune
