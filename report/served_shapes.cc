#include "report/served_shapes.h"

#include <map>

#include "jobs/range/served_table.h"

namespace moetune {
namespace {

ServedShape shape_of(const ServedTable& table, const Problem& problem) {
  const RangePicks::Pick choice = *table.at(problem);
  ServedShape shape{.hardware = table.range().key.hardware, .config = choice.config, .table = table.name()};
  if (choice.cell == nullptr) return shape;
  shape.cell = choice.cell->problem;
  shape.time_us = choice.cell->time_us;
  shape.default_us = choice.cell->default_us;
  return shape;
}

ServedShape shape_of(const StoredResult& winner) {
  return {.hardware = winner.workload.key.hardware,
          .config = winner.best_config,
          .workload = winner.workload.id,
          .time_us = winner.best_us,
          .default_us = winner.default_us,
          .contended = winner.contended,
          .provisional = winner.is_provisional()};
}

}  // namespace

std::string ServedShape::note() const {
  std::string text;
  const auto add = [&](bool holds, const char* word) {
    if (holds) text += (text.empty() ? "" : ", ") + std::string(word);
  };
  add(provisional, "provisional");
  add(contended, "contended");
  add(stands_back, "not launched: the table goes before it");
  return text.empty() ? "its own search" : text;
}

std::vector<ServedShape> served_shapes(const Cache& cache, const Kernel& kernel, const Problem& problem) {
  const std::shared_ptr<const void> snapshot = cache.snapshot();
  StoredSpaces spaces;
  std::map<std::string, HardwareKey> known;
  for (const Workload& workload : cache.workloads.all())
    known.emplace(workload.key.hardware.text(), workload.key.hardware);
  for (const FamilyRange& range : cache.ranges.all()) known.emplace(range.key.hardware.text(), range.key.hardware);
  std::vector<ServedShape> shapes;
  for (const auto& [text, hardware] : known) {
    const auto table = find_served_table(cache, kernel, hardware, problem);
    std::optional<StoredResult> winner;
    try {
      winner = find_winner(cache, {.kernel = kernel.name(), .problem = problem.text(), .hardware = hardware}, spaces);
    } catch (const DamagedWinner&) {
    }
    if (table != nullptr) shapes.push_back(shape_of(*table, problem));
    if (!winner) continue;
    ServedShape own = shape_of(*winner);
    own.stands_back = table != nullptr &&
                      (winner->contended || table->supersedes(winner->workload.key.timing, winner->winner->stored_at));
    shapes.insert(table != nullptr && !own.stands_back ? shapes.end() - 1 : shapes.end(), std::move(own));
  }
  return shapes;
}

Document served_document(const ServedShape& shape) {
  return {{"hardware", shape.hardware.name},
          {"recorded", shape.hardware.origin != "gpu"},
          {"table", text_or_null(shape.table)},
          {"cell", text_or_null(shape.cell)},
          {"workload", shape.table.empty() ? Document(shape.workload) : Document(nullptr)},
          {"config", shape.config},
          {"time_us", number_or_null(shape.time_us)},
          {"default_us", number_or_null(shape.default_us)},
          {"contended", shape.contended},
          {"provisional", shape.provisional},
          {"launched", !shape.stands_back}};
}

}  // namespace moetune
