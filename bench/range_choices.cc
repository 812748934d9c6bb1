// How far a winner of a range table may serve, and by how much it must have beaten the default: DispatchTable::kReach
// and kMargin. Each cell of each table is held out in turn and served by the others, for several values of both.
//
//   range_choices FILE [KERNEL]
//   range_choices packs/h200.pack decode_attention
//
// FILE is a cache or a pack. Nothing is measured: what a choice takes at the cell that was held out is known if it is
// the cell's own winner, or was tried there and the file has its trials, as caches of searches do. Prints a row for
// each pair of values: cells that other cells serve; the speed over the default if winners beat it there as they did at
// home (geometric mean); how many choices are known, and of these the loss to the best (median, p95, worst) and to the
// default (share beyond 1%, worst).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "bench/bench_main.h"
#include "cache/cache.h"
#include "cache/ranges.h"
#include "dispatch/dispatch_table.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "runtime/family_defaults.h"
#include "soundness/stored_key.h"

namespace {

using namespace moetune;

constexpr double kReaches[] = {0.25, 0.5, 0.75, 1, 1.5};
constexpr double kMargins[] = {0, 0.01, 0.02, 0.03, 0.05};

struct HeldOut {
  const RangeCell* cell;
  TablePoint point;
  std::uint32_t met;                         // number of the default that it met
  std::map<std::string, double> known = {};  // times there, in the scale of the cell's duel
};

// A table's cells that met a default.
std::vector<HeldOut> cells_of(const Cache& file, const FamilyRange& range, const RangeTable& table) {
  const Kernel& kernel = find_kernel(range.key.kernel);
  std::vector<HeldOut> cells;
  std::unique_ptr<const FamilyInterface> interface;
  std::optional<FamilyDefaults> defaults;
  for (const RangeCell& cell : table.cells) {
    if (cell.default_us <= 0) continue;
    const Problem problem = kernel.parse(cell.problem);
    if (!defaults) {
      interface = kernel.family_interface(problem);
      defaults.emplace(kernel, *interface, kernel.specialization(problem), stored_limits(range.key.hardware),
                       kernel.extents_of(problem));
    }
    const std::optional<std::uint32_t> met = defaults->number_met(cell.default_config);
    if (!met) continue;
    HeldOut& one = cells.emplace_back(HeldOut{&cell, interface->table_point_of(problem), *met});
    const std::string& space_default = defaults->texts()[*met];
    const auto workload = file.workloads.find({.kernel = kernel.name(),
                                               .problem = cell.problem,
                                               .hardware = range.key.hardware,
                                               .source_digest = range.key.source_digest,
                                               .toolchain = range.key.toolchain,
                                               .timing = range.key.timing});
    if (workload) {
      for (const TrialRecord& trial : file.trials.of(*workload)) {
        if (trial.outcome == "ok" && trial.time_us > 0) one.known[trial.config] = trial.time_us;
      }
    }
    const auto trial = one.known.find(space_default);
    const double scale = trial != one.known.end() ? cell.default_us / trial->second : 0;
    if (scale == 0) one.known.clear();
    for (auto& [config, time] : one.known) time *= scale;
    one.known[space_default] = cell.default_us;
    one.known[cell.config] = cell.time_us;
  }
  return cells;
}

// The nearest cell that met the same default decides: nullptr if it did not beat that by the margin.
const RangeCell* serving(const std::vector<HeldOut>& cells, const HeldOut& to, double reach, double margin) {
  const RangeCell* best = nullptr;
  double least = 0;
  for (const HeldOut& one : cells) {
    if (&one == &to || one.met != to.met || one.point.ragged != to.point.ragged) continue;
    double sum = 0, most = 0;
    for (std::size_t axis = 0; axis < to.point.position.size(); ++axis) {
      const double apart = std::abs(
          std::log2(static_cast<double>(one.point.position[axis]) / static_cast<double>(to.point.position[axis])));
      most = std::max(most, apart);
      sum += apart * apart;
    }
    if (most > reach || (best != nullptr && sum >= least)) continue;
    best = one.cell;
    least = sum;
  }
  return best != nullptr && best->time_us * (1 + margin) <= best->default_us ? best : nullptr;
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size() - 1)))];
}

void print_row(const std::vector<std::vector<HeldOut>>& tables, double reach, double margin) {
  std::size_t all = 0, served = 0, slower = 0;
  double logs = 0, worst_to_default = 0;
  std::vector<double> losses;
  for (const std::vector<HeldOut>& cells : tables) {
    for (const HeldOut& one : cells) {
      ++all;
      const RangeCell* const by = serving(cells, one, reach, margin);
      if (by == nullptr) continue;
      ++served;
      logs += std::log(by->default_us / by->time_us);
      const auto found = one.known.find(by->config);
      if (found == one.known.end()) continue;
      losses.push_back(found->second / one.cell->best_us - 1);
      const double to_default = found->second / one.cell->default_us - 1;
      slower += to_default > 0.01;
      worst_to_default = std::max(worst_to_default, to_default);
    }
  }
  if (losses.empty()) return;
  std::ranges::sort(losses);
  const auto count = static_cast<double>(losses.size());
  std::printf("| %g | %g%% | %zu | %zu | %.3f | %zu | %.1f%% | %.1f%% | %.1f%% | %.1f%% | %.1f%% |\n", reach,
              100 * margin, all, served, std::exp(logs / static_cast<double>(all)), losses.size(),
              100 * quantile(losses, 0.5), 100 * quantile(losses, 0.95), 100 * losses.back(),
              100 * static_cast<double>(slower) / count, 100 * worst_to_default);
}

void run(int argc, char** argv) {
  if (argc < 2 || argc > 3) throw BadInput("usage: range_choices FILE [KERNEL]");
  std::vector<RangeTable> read;
  std::vector<std::vector<HeldOut>> tables;
  const Cache file = Cache::open(argv[1], Cache::Mode::read_only);
  const std::vector<FamilyRange> ranges = file.ranges.all();
  read.reserve(ranges.size());
  for (const FamilyRange& range : ranges) {
    if (range.table.empty() || (argc > 2 && range.key.kernel != argv[2])) continue;
    read.push_back(RangeTable::parse(range.table, argv[1]));
    tables.push_back(cells_of(file, range, read.back()));
  }
  std::printf(
      "%zu tables\n| octaves | margin | held out | served by others | as at home | known | loss: median | "
      "p95 | worst | beyond 1%% of the default | at worst |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
      tables.size());
  for (const double reach : kReaches) {
    for (const double margin : kMargins) print_row(tables, reach, margin);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return moetune::bench::run_main("range_choices", [&] { run(argc, argv); });
}
