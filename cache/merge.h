// The result of merging cache files. Plain data; Cache::merge does the work.
//
// A record of the destination that breaks the rules gives way to any. Of the winners that the destination and the files
// have for one key a quiet one stays before a contended one, then the one whose 95% interval ends lowest; but of all
// whose intervals reach into that one's, the one that was stored last: which of them is faster is not known, and the
// later was chosen beside the newer driver. Of the same second the one whose interval ends lower stays, then the one
// with the smaller digest. So the order of the files makes no difference, and merging the same files again changes
// nothing. Recordings never meet results of a GPU, because the origin of a time is part of its key.
//
// With MergeOrder::later the one that was stored last stays, of those that are equally quiet, whatever its interval. So
// a night's result on a node replaces what the fleet had when the night began, also if it is slower than the old record
// claims: a newer driver may have made that record untrue. It holds only between files of which the later one began
// with the records of the other, and needs clocks that agree. It is a total order: grouping makes no difference.
//
// Chooses between two range tables of one key: quiet before contended, then the one with clearly more cells, then the
// one that loses less at worst, as far as it was seen (RangeMerit), then the one with the smaller digest.
// MergeOrder::later puts the later one first among the equally quiet. The progress of a search at the destination
// stays there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace moetune {

struct MergeResult {
  std::int64_t files = 0;
  std::int64_t winners_added = 0;     // their keys had none, or a damaged one
  std::int64_t winners_replaced = 0;  // they were better
  std::int64_t winners_kept = 0;      // another stays, of the destination or of another file
  std::int64_t winners_equal = 0;     // the same record on both sides
  std::int64_t trials_taken = 0;      // new, or better than the one of their configuration
  std::int64_t ranges_taken = 0;      // range tables, new or better than the one of their key
};

}  // namespace moetune
