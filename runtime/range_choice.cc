#include "runtime/range_choice.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace moetune {
namespace {

// A configuration of a cubin, and the crossed cells that hold it, in order.
struct Candidate {
  const FamilyEntry* entry = nullptr;
  std::vector<std::size_t> homes;
};

std::vector<Candidate> candidates_of(std::span<const CrossedCell> crossed, const FamilyEntries& entries) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < crossed.size(); ++i) {
    if (crossed[i].cell.entry == Cell::kNone) continue;
    const FamilyEntry& entry = entries[crossed[i].cell.entry];
    auto same = std::ranges::find_if(candidates, [&](const Candidate& one) {
      return one.entry->variant == entry.variant && one.entry->config == entry.config;
    });
    if (same == candidates.end()) same = candidates.insert(same, Candidate{&entry, {}});
    same->homes.push_back(i);
  }
  return candidates;
}

std::size_t greatest_distance(const std::vector<std::size_t>& homes, std::size_t cells) {
  std::size_t greatest = std::max(homes.front(), cells - 1 - homes.back());
  for (std::size_t i = 1; i < homes.size(); ++i) greatest = std::max(greatest, (homes[i] - homes[i - 1]) / 2);
  return greatest;
}

double worst_loss(const Candidate& candidate, std::span<const CrossedCell> crossed, const FamilyEntries& entries) {
  double worst = 0;
  for (const std::size_t home : candidate.homes) {
    if (const std::optional<RangeLoss>& loss = entries[crossed[home].cell.entry].source.loss)
      worst = std::max(worst, loss->cell);
  }
  return worst;
}

}  // namespace

RangeChoice choose_for_range(std::span<const CrossedCell> crossed, const FamilyEntries& entries) {
  const std::vector<Candidate> candidates = candidates_of(crossed, entries);
  if (candidates.empty()) return {{}, crossed.back().last};
  const Candidate& best = *std::ranges::min_element(candidates, {}, [&](const Candidate& one) {
    return std::pair(greatest_distance(one.homes, crossed.size()), worst_loss(one, crossed, entries));
  });
  // The cell that explains the choice best: measured there, before near a measurement, before the default.
  const std::size_t home =
      *std::ranges::min_element(best.homes, {}, [&](std::size_t i) { return crossed[i].cell.kind; });
  RangeChoice choice{crossed[home].cell, 0};
  for (std::size_t i = crossed.size(); i-- > 0;) {
    const bool is_home = std::ranges::binary_search(best.homes, i);
    if (is_home && crossed[i].cell.kind == ChoiceKind::exact) continue;
    choice.missed = crossed[i].last;
    if (choice.cell.kind == ChoiceKind::exact) choice.cell.kind = ChoiceKind::nearest;
    break;
  }
  return choice;
}

}  // namespace moetune
