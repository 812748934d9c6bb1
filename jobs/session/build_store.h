// Compiled cubins in the cache, as CompilePool wants them: the hook between tuner and cache.
#pragma once

#include "cache/cache.h"
#include "tuner/compile/compile_pool.h"

namespace moetune {

BuildRecord to_record(const Build& build);
// nullopt where the record is not one that this version understands: it is compiled again.
std::optional<Build> from_record(const std::string& digest, const BuildRecord& record);

// Keeps a reference to `cache`, which must outlive the pool; used on the thread that owns the cache.
CompilePool::Store build_store(Cache& cache);

}  // namespace moetune
