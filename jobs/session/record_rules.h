// The rules of soundness/soundness.h for a cache's records beyond their digests, as a Cache takes them.
#pragma once

#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/check.h"
#include "soundness/stored_key.h"

namespace moetune {

// For one thread. Throw BadInput where a space file is broken.
RecordRules record_rules();

// The objection of read_sound_range() to a table; "" for nothing.
std::string why_unsound(const FamilyRange& range, const KnownKernel& known);

// How good a stored range table is, for merges: its loss at worst over its cells and the unseen shapes of its
// certificate. A table that cannot be read counts as the worst.
RangeMerit merit_of_range(const std::string& table);

// The workloads of other sources (an earlier moetune's) whose problem, trials or winner today's kernel or
// space does not know: nothing is wrong with them, and no search takes them up. For a cache that is sound;
// throws BrokenEnvironment where it is not.
std::vector<CacheProblem> outdated_workloads(const Cache& cache);

}  // namespace moetune
