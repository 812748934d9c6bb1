// Experience for a new search out of the cache: trials of the same kernel on other problems, on other
// hardware, or with earlier sources. Reads the cache and keeps nothing: free
// functions for the thread that owns the cache.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "kernels/kernel.h"
#include "search/searcher.h"
#include "search/space.h"

namespace moetune {

inline constexpr std::size_t kMostHistories = 6;

// The context that carries configurations from one problem to another (search/transfer.h).
struct TransferContext {
  const Kernel* kernel = nullptr;
  const Space* space = nullptr;
  DeviceLimits limits;  // of the device that is searched for
};

// The nearest workloads' trials whose values are of the domains of `space`, legal in it or not, nearest
// first, at most kMostHistories, each carried over to the problem of `key` if `context` is given. The
// workload of `key` itself is left out. Deterministic in the cache's content.
//
// A workload whose records are not as moetune writes them is left out; `left_out` gets a sentence that names
// it and says why.
std::vector<History> histories_for(const Cache& cache, const WorkloadKey& key, const LegalSpace& space,
                                   const TransferContext* context = nullptr,
                                   const std::function<void(const std::string&)>& left_out = {});

// The trials of one workload, as experience for another search of it.
History history_of_workload(const Cache& cache, std::int64_t workload, const LegalSpace& space, double distance);

// How configurations of the workload `there` are carried over to `here`, whose legal ones are `space`;
// nullopt where they stand as they are: for a problem that the kernel no longer takes, or for other domains
// than the kernel's space has now.
std::optional<Transfer> transfer_between(const TransferContext& context, const WorkloadKey& there,
                                         const WorkloadKey& here, const LegalSpace& space);

// How far the experience of `other` is from `key`: 0 for the same problem and hardware with other sources;
// each dimension adds the binary logarithm of its ratio, other hardware two.
double workload_distance(const WorkloadKey& key, const WorkloadKey& other);

}  // namespace moetune
