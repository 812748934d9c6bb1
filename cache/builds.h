// The compiled cubins of trials in a cache file, by content digest of (source, headers, options, compiler version).
//
// A part of an open Cache (cache/cache.h), which must outlive it; threads and errors as there.
#pragma once

#include <optional>
#include <string>

#include "cache/file/blob.h"

namespace moetune {

struct CacheFile;

struct BuildRecord {
  std::string outcome;  // outcome_name
  std::string facts;    // JSON
  std::string log;
  Blob cubin;  // empty where it failed
};

class Builds {
 public:
  explicit Builds(CacheFile& file) : file_(&file) {}

  // The builds unused for longest are dropped past CacheOptions::max_build_bytes.
  void put(const std::string& digest, const BuildRecord& build);
  std::optional<BuildRecord> find(const std::string& digest);  // a damaged one counts as absent

 private:
  CacheFile* file_;
};

}  // namespace moetune
