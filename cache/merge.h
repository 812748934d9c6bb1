// Merging cache files.
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
#include <filesystem>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace moetune {

// The order by which a merge chooses between two equally sound records of one key.
enum class MergeOrder {
  faster,  // by the time, for files whose searches knew nothing of each other
  later,   // by the date, for a file that began with the records of the other and has settled some of them anew
};

struct MergeResult {
  std::int64_t files = 0;
  std::int64_t winners_added = 0;     // their keys had none, or a damaged one
  std::int64_t winners_replaced = 0;  // they were better
  std::int64_t winners_kept = 0;      // another stays, of the destination or of another file
  std::int64_t winners_equal = 0;     // the same record on both sides
  std::int64_t trials_taken = 0;      // new, or better than the one of their configuration
  std::int64_t ranges_taken = 0;      // range tables, new or better than the one of their key
};

// Takes the winners and trials of other caches and packs into the cache at `into`, which is made if it is new, as
// said above. Every file is checked whole, against `rules` too, before `into` is touched; then one
// transaction takes all of them or, whatever happens, none. Builds and calibrations stay where they are. Throws
// BadInput for a file that is `into` itself, that does not exist or is past 16 GiB; BrokenEnvironment, naming file
// and record, for one that is unsound.
MergeResult merge_caches(const std::filesystem::path& into, const std::vector<std::filesystem::path>& files,
                         const RecordRules& rules, MergeOrder order = MergeOrder::faster,
                         const CacheOptions& options = {});

}  // namespace moetune
