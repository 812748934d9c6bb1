// Conditions that a stored record must meet, whatever its digest says: a digest finds damage, not authors. Everybody
// who checks, shows, exports, merges, installs or launches records asks these functions, so that all give one answer;
// lists for a terminal ask of the figures alone.
//
// A record is judged by itself: by its own key and numbers, not by what else its file holds. So it is as sound in a
// pack as in the cache that the pack was made of. Pure functions; thread-safe. Each returns what is wrong, as the end
// of a sentence, and "" for nothing.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "kernels/kernel.h"
#include "ranges/range_table.h"
#include "soundness/stored_key.h"

namespace moetune {

// A known kernel, a problem that it has, of the family that it is stored for, hardware that can be.
std::string why_unsound(const Workload& workload, const KnownWorkload& known);

// Texts of a kernel's trials that have been found sound, and need not be read again: trials share them.
struct SoundTexts {
  std::unordered_set<std::string> configs, provenances;
};

// An outcome that there is, times that can be, a configuration of the space. `seen` belongs to `known`.
std::string why_unsound(const TrialRecord& trial, const KnownKernel& known, SoundTexts& seen);

// All that the workload must be; times that can be, within their interval and no faster than its GPU; configurations of
// the space; launch plans that GPU can hold, which for today's sources and version the kernel makes of them. Without
// cubins nothing is said of these; of `figures` nothing of plans, times by timing and provenance either.
std::string why_unsound(const Workload& workload, const WinnerRecord& winner, WinnerParts parts,
                        const KnownWorkload& known);

// The same of what a server reads of a winner: neither plan nor cubin. `problem` is that of its key.
std::string why_unsound(const FamilyWinner& winner, const Kernel& kernel, const Problem& problem);

// A range table with the problems of its cells.
struct SoundRange {
  RangeTable table;
  // In the order of the cells; none for a kernel that is not moetune's, or if it does not take one of them today.
  std::vector<Problem> problems;
  // The part of a table of other sources that today's kernel does not know; "" for nothing. Such a table serves
  // nowhere.
  std::string outdated;
};

// Reads a table whose numbers can be (ranges/range_table.h), whose cells are of its family, each at a problem of its
// own, with a configuration that runs there and that one of its cubins serves. Throws BadInput with what is wrong.
SoundRange read_sound_range(const FamilyRange& range, const KnownKernel& known);

}  // namespace moetune
