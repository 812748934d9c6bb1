// What merging cache files did. Plain data; Cache::merge does the work.
//
// A record of the destination that breaks the rules gives way to any. Of two winners of one key the better one stays: a
// quiet one before a contended one, then the one whose 95% interval ends lower, then the one with the smaller digest.
// That is a total order, so any order and grouping of merges ends with the same winners, and repeating one changes
// nothing. Recordings never meet results of a GPU, because the origin of a time is part of its key.
//
// With MergeOrder::later, of two winners that are both quiet or both contended the one that was stored, or settled by a
// duel, last stays; of the same second the better one as above. So a night's result on a node replaces what the fleet
// had when the night began, also if it is slower than the old record claims: a newer driver may have made that record
// untrue. It holds only between files of which the later one began with the records of the other, and needs clocks that
// agree. It is a total order too. Rivals that are older than the winner are dropped: it was chosen beside them.
//
// Of two range tables of one key: quiet before contended, then the one with clearly more cells, then the one that loses
// less at worst, as far as it was seen (RangeMerit), then the one with the smaller digest. MergeOrder::later puts the
// later one first among the equally quiet. The progress of a search at the destination stays there.
//
// An interval says how sure a time is, so where the intervals of two configurations overlap the order above is only
// luck. Such a pair is kept for a duel: the winner stays, and the other is its rival until a duel has settled it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace moetune {

// A stored winner and another configuration that may be as fast, by the times of both.
struct Duel {
  Workload workload;
  std::string winner_config;
  double winner_us = 0, winner_low_us = 0, winner_high_us = 0;
  std::string rival_config;
  double rival_us = 0, rival_low_us = 0, rival_high_us = 0;
  std::string rival_provenance;  // JSON, as a winner's
  std::string rival_stored_at;
};

struct MergeResult {
  std::int64_t files = 0;
  std::int64_t winners_added = 0;     // their keys had none, or a damaged one
  std::int64_t winners_replaced = 0;  // they were better
  std::int64_t winners_kept = 0;      // of the destination, better than another of a file
  std::int64_t winners_equal = 0;     // the same record on both sides
  std::int64_t trials_taken = 0;      // new, or better than the one of their configuration
  std::int64_t ranges_taken = 0;      // range tables, new or better than the one of their key
  std::vector<Duel> duels;            // that were not pending before
};

}  // namespace moetune
