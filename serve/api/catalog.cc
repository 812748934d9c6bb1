#include "serve/api/catalog.h"

namespace moetune {

Document winners_document(const CacheChoice& choice) {
  Document winners = Document::array();
  const std::unique_ptr<Cache> cache = open_existing_cache(choice);
  if (cache == nullptr) return {{"winners", std::move(winners)}};
  for (const Workload& workload : cache->workloads.all()) {
    const HardwareKey& hardware = workload.key.hardware;
    if (is_recording(workload.key)) continue;
    const std::optional<WinnerRecord> winner = cache->winners.find_sound(workload.id);
    if (!winner) continue;
    winners.push_back({{"kernel", workload.key.kernel},
                       {"problem", workload.key.problem},
                       {"family", workload.family},
                       {"hardware", hardware.name},
                       {"recorded", hardware.origin != "gpu"},
                       {"config", winner->config},
                       {"time_us", number_or_null(winner->time_us)},
                       {"default_us", number_or_null(winner->default_time_us)},
                       {"roofline", number_or_null(winner->roofline)},
                       {"contended", winner->contended},
                       {"provisional", is_provisional(winner->provenance)},
                       {"stored_at", winner->stored_at}});
  }
  return {{"winners", std::move(winners)}};
}

TunedProblems tuned_problems(const CacheChoice& choice) {
  TunedProblems problems;
  const std::unique_ptr<Cache> cache = open_existing_cache(choice);
  if (cache == nullptr) return problems;
  for (const Workload& workload : cache->workloads.all()) {
    if (is_recording(workload.key)) continue;
    const std::optional<WinnerRecord> winner = cache->winners.find_sound(workload.id);
    if (winner && !winner->contended && !is_provisional(winner->provenance))
      problems[{workload.key.kernel, workload.key.problem}].insert(workload.key.hardware.name);
  }
  return problems;
}

}  // namespace moetune
