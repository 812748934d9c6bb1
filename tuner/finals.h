// The end of a search: the best few meet again in interleaved rounds, and the winner is checked on fresh
// inputs. No state; like the device, for one thread.
#pragma once

#include <optional>
#include <vector>

#include "tuner/tune.h"

namespace moetune {

struct Finalist {
  Trial trial;
  Candidate candidate;
};

struct Verdict {
  std::optional<std::size_t>
      winner;  // position among the finalists; none where none stood the duel and the verification
  std::vector<Trial> trials;  // the finalists with their duel results, in the order given
};

// Two medians closer than this count as a tie, and the lower ConfigId wins: noise must not choose between
// equals.
inline constexpr double kTie = 0.003;

// Positions of `trials` ordered as the duel ranks them: ok before the rest, then by median, ties by ConfigId.
std::vector<std::size_t> rank_duel(const std::vector<Trial>& trials);

// `verify_seed` must differ from the seed that the search's inputs came from.
Verdict run_finals(Device& device, const std::vector<Finalist>& finalists, int rounds,
                   std::uint64_t verify_seed);

}  // namespace moetune
