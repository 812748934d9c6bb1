#include "jobs/session/record_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cache/check.h"
#include "cache/ranges.h"
#include "jobs/session/stored_space.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "soundness/soundness.h"

namespace moetune {
namespace {

// The part of a workload with other sources that moetune no longer knows; "" for nothing.
std::string outdated(const Cache& cache, const Workload& workload, const Space& space) {
  try {
    stored_problem(find_kernel(workload.key.kernel), workload.key);
  } catch (const BadInput& error) {
    return std::string("is of a problem that is none today: ") + error.what();
  }
  const LegalSpace domains(space.parameters(), {});
  const auto is_strange = [&](const std::string& config) { return !domains.point_of(config); };
  const std::vector<std::string> trials = cache.trials.configs(workload.id);
  const auto strange = std::ranges::count_if(trials, is_strange);
  const std::optional<WinnerRecord> winner = cache.winners.read(workload.id, WinnerParts::without_cubins);
  const bool strange_winner = winner && is_strange(winner->config);
  if (strange == 0 && !strange_winner) return "";
  return format("has %lld of %zu trials%s with parameters or values that are none today",
                static_cast<long long>(strange), trials.size(), strange_winner ? ", and a winner," : "");
}

}  // namespace

RangeMerit merit_of_range(const std::string& text) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  constexpr double kSizesAnOctave = 8;  // two searches that come to their ends have nearly as many cells
  try {
    const RangeTable table = RangeTable::parse(text, "a range table");
    const double regret = std::max(table.worst_cell(), table.certificate.worst);
    return {.contended = table.contended,
            .coarseness = -static_cast<int>(kSizesAnOctave * std::log2(1 + table.cells.size())),
            .regret = table.certificate.shapes == 0 ? kUnknown : regret};
  } catch (const BadInput&) {  // of another version
    return {.contended = true, .regret = kUnknown};
  }
}

std::string why_unsound(const FamilyRange& range, const KnownKernel& known) {
  try {
    read_sound_range(range, known);
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

RecordRules record_rules() {
  const auto spaces = std::make_shared<StoredSpaces>();
  const auto known = [spaces](const auto& key) { return spaces->known_kernel(key.kernel, key.source_digest); };
  const auto seen = std::make_shared<std::map<std::pair<const Kernel*, bool>, SoundTexts>>();
  return {.workload = [spaces](const Workload& one) { return why_unsound(one, spaces->known(one.key)); },
          .trial =
              [known, seen](const WorkloadKey& key, const TrialRecord& one) {
                const KnownKernel of = known(key);
                return why_unsound(one, of, (*seen)[{of.kernel, of.is_current}]);
              },
          .winner = [spaces](const Workload& of, const WinnerRecord& one,
                             WinnerParts parts) { return why_unsound(of, one, parts, spaces->known(of.key)); },
          .range = [known](const FamilyRange& one) { return why_unsound(one, known(one.key)); },
          .range_merit = merit_of_range};
}

std::vector<CacheProblem> outdated_workloads(const Cache& cache) {
  std::vector<CacheProblem> found;
  StoredSpaces spaces;
  for (const Workload& workload : cache.workloads.all()) {
    const WorkloadKey& key = workload.key;
    const Space* const space = spaces.space(key);
    if (space == nullptr || spaces.is_current(key)) continue;
    const std::string what = outdated(cache, workload, *space);
    if (what.empty()) continue;
    found.push_back(
        {format("workload %lld (%s %s)", static_cast<long long>(workload.id), key.kernel.c_str(), key.problem.c_str()),
         "was tuned with other sources, and " + what});
  }
  for (const FamilyRange& range : cache.ranges.read()) {
    if (spaces.known_kernel(range.key.kernel, range.key.source_digest).is_current) continue;
    const SoundRange sound = read_sound_range(range, spaces.known_kernel(range.key.kernel, range.key.source_digest));
    if (!sound.outdated.empty())
      found.push_back({place_of(range), "was tuned with other sources, and serves nowhere: " + sound.outdated});
  }
  return found;
}

}  // namespace moetune
