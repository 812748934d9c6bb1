// The ask/tell interface every strategy implements.
//
//   auto searcher = make_searcher("local", space, seed);
//   while (budget left) for (id : searcher->ask(n)) searcher->tell({id, measure(id)});
//
// A strategy is deterministic in (space, seed, the sequence of calls and values) until end_when()'s condition holds. It
// keeps its own random state and reads no clock. Not thread-safe; one owner calls it. The space must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/legal_space.h"
#include "search/outcome.h"

namespace moetune {

struct Observation {
  ConfigId id = 0;
  Outcome outcome = Outcome::ok;
  double time_us = 0;  // meaningful where has_time(outcome)
};

// A trial of another problem, or of another GPU: a position in the domain of each parameter of this space,
// where that point need not be legal.
struct PastTrial {
  std::vector<Position> point;
  Outcome outcome = Outcome::ok;
  double time_us = 0;  // meaningful where has_time(outcome)
};

// Trials of one other problem on one GPU. Their times compare with each other only.
struct History {
  std::vector<PastTrial> trials;
  double distance = 1;  // from this problem, 0 or more: a doubled dimension is 1
};

// Whether the observation carries a time to learn from: has_time, and finite and positive.
bool has_usable_time(const Observation& observation);

class Searcher {
 public:
  virtual ~Searcher() = default;

  // Up to n configurations to try next, none of which was asked or told before. Fewer than n, possibly none,
  // where the strategy waits for tells; none with nothing outstanding means that the space is exhausted.
  virtual std::vector<ConfigId> ask(std::size_t n) = 0;

  // Reports one result. Configurations that were never asked (a warm start) and repeated tells are allowed;
  // a time that is not finite and positive counts as a failure.
  virtual void tell(const Observation& observation) = 0;

  // Up to n configurations that may well be asked next, the likeliest first: a hint what to compile while
  // there is nothing better to do. Changes nothing, so that no trajectory depends on whether or when it is
  // called.
  virtual std::vector<ConfigId> likely_next(std::size_t n) const {
    static_cast<void>(n);
    return {};
  }

  // Sets the condition that a long ask() checks: once it returns true nobody waits for a good answer, and a rough one
  // will do. Call before the first ask. A strategy that answers at once ignores it.
  virtual void end_when(std::function<bool()> is_over) { static_cast<void>(is_over); }

  // Experience from elsewhere: a hint where to begin and what to expect, never a result of this search, so
  // that what it names may still be asked. Once, before the first ask, the nearest first. A strategy without
  // use for it ignores it.
  virtual void warm(std::span<const History> histories) { static_cast<void>(histories); }
};

struct StrategyInfo {
  std::string name;
  std::string summary;  // one line, with the source of the method
};

const std::vector<StrategyInfo>& strategies();

// Throws BadInput for an unknown name, suggesting the nearest.
std::unique_ptr<Searcher> make_searcher(std::string_view strategy, const LegalSpace& space, std::uint64_t seed);

}  // namespace moetune
