#include "serve/catalog.h"

#include "base/json.h"
#include "cache/ranges.h"

namespace moetune {
namespace {

bool fits_filter(const CatalogFilter& filter, const std::string& kernel, const HardwareKey& hardware,
                 const std::string& family) {
  return (filter.kernel.empty() || filter.kernel == kernel) &&
         (filter.family.empty() || filter.family == family) &&
         (filter.hardware.empty() || filter.hardware == hardware.name);
}

// nullopt for one that is damaged: the others are still of use.
std::optional<WinnerRecord> sound_winner(const Cache& cache, const Workload& workload) {
  try {
    return cache.winner(workload.id, WinnerParts::without_cubins);
  } catch (const DamagedWinner&) {
    return std::nullopt;
  }
}

}  // namespace

Document winners_document(const CacheChoice& choice, const CatalogFilter& filter) {
  Document winners = Document::array();
  const std::unique_ptr<Cache> cache = open_existing_cache(choice);
  if (cache == nullptr) return {{"winners", std::move(winners)}};
  for (const Workload& workload : cache->workloads()) {
    const HardwareKey& hardware = workload.key.hardware;
    if (is_recording(workload.key) || !fits_filter(filter, workload.key.kernel, hardware, workload.family))
      continue;
    const std::optional<WinnerRecord> winner = sound_winner(*cache, workload);
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
                       {"stored_at", winner->stored_at}});
  }
  return {{"winners", std::move(winners)}};
}

Document tables_document(const CacheChoice& choice, const CatalogFilter& filter) {
  Document tables = Document::array();
  const std::unique_ptr<Cache> cache = open_existing_cache(choice);
  if (cache == nullptr) return {{"tables", std::move(tables)}};
  for (const FamilyRange& range : cache->ranges()) {
    if (!fits_filter(filter, range.key.kernel, range.key.hardware, range.key.family)) continue;
    const nlohmann::json table = parse_json_or_discard(range.table);
    Document configs = Document::array();
    for (const FamilyRange::Variant& variant : range.variants) configs.push_back(variant.config);
    tables.push_back({{"kernel", range.key.kernel},
                      {"family", range.key.family},
                      {"hardware", range.key.hardware.name},
                      {"recorded", range.key.hardware.origin != "gpu"},
                      {"table", table.is_discarded() ? Document(nullptr) : Document(table)},
                      {"cubins", std::move(configs)},
                      {"stored_at", range.stored_at}});
  }
  return {{"tables", std::move(tables)}};
}

TunedProblems tuned_problems(const CacheChoice& choice) {
  TunedProblems problems;
  const std::unique_ptr<Cache> cache = open_existing_cache(choice);
  if (cache == nullptr) return problems;
  for (const Workload& workload : cache->workloads()) {
    if (is_recording(workload.key)) continue;
    const std::optional<WinnerRecord> winner = sound_winner(*cache, workload);
    if (winner && !winner->contended)
      problems[{workload.key.kernel, workload.key.problem}].insert(workload.key.hardware.name);
  }
  return problems;
}

}  // namespace moetune
