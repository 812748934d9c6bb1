#include "search/simulation.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace moetune {

SimulatedRun simulate(Searcher& searcher, std::span<const Observation> outcomes, std::size_t budget,
                      std::size_t in_flight) {
  SimulatedRun run;
  std::deque<ConfigId> open;
  std::vector<bool> seen(outcomes.size(), false);
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    const std::size_t room =
        std::min(std::max<std::size_t>(in_flight, 1) - open.size(), budget - run.asked.size());
    if (room > 0) {
      for (const ConfigId id : searcher.ask(room)) {
        if (id >= outcomes.size() || seen[id]) {
          run.repeated = true;
          return run;
        }
        seen[id] = true;
        run.asked.push_back(id);
        open.push_back(id);
      }
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
