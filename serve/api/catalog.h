// The tuned contents of a cache as clients of a service see them. Opens the cache for each call; thread-safe. Errors
// as Cache.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "jobs/session/documents.h"
#include "jobs/session/stores.h"

namespace moetune {

Document winners_document(const CacheChoice& cache);  // {"winners": [...]}

// Kernel and problem of every winner that is sound and undisturbed, with the names of the hardware that has one.
using TunedProblems = std::map<std::pair<std::string, std::string>, std::set<std::string>>;
TunedProblems tuned_problems(const CacheChoice& cache);

}  // namespace moetune
