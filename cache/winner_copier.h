// Copies sound winners from one cache file to another as they are stored: with their digests, which say the same there,
// and with the frames of their cubins, each looked at once. Both files outlive it; within a transaction of the
// destination. For cache/ alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cache/cache_file.h"

namespace moetune {

class WinnerCopier {
 public:
  WinnerCopier(CacheFile& from, CacheFile& into) : from_(from), into_(into) {}

  // To a workload of the same key that has no winner. Throws DamagedWinner if a cubin is damaged.
  void copy(std::int64_t theirs, std::int64_t ours);

 private:
  std::int64_t cubin(const std::string& digest);  // 0 for ""

  CacheFile& from_;
  CacheFile& into_;
  std::map<std::string, std::int64_t> cubins_;  // rows of the destination by digest
};

}  // namespace moetune
