// A summary of one workload in the cache, for reports: the winner or, if none was stored because nothing was compiled
// or the search was killed, the trial that its finals would choose if they measured what the trials did. Reads only;
// for the thread that owns the cache.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/session/documents.h"
#include "jobs/session/stored_space.h"

namespace moetune {

struct StoredResult {
  Workload workload;
  KnownWorkload known;  // of the StoredSpaces that it was read with
  std::optional<WinnerRecord> winner;
  std::string damage;       // what is wrong with the stored winner; "" where nothing is
  std::string best_config;  // the winner's, else the best trial's; "" where none is ok
  double best_us = 0;
  double default_us = 0;   // 0 where unknown
  double roofline = 0;     // the fraction, 0 if unknown; computed again if the device was calibrated since
  bool contended = false;  // the best was measured while somebody else used the device
  std::string bound;       // the ceiling that it is of; "" if that is unknown
  Cost cost;               // 0 if the kernel is not moetune's
  Work work;               // of one launch, likewise
  std::map<std::string, std::size_t> outcomes;  // of its trials, as the cache counts them
  std::size_t trials = 0;                       // without those that were pruned

  // True for an interrupted search: the best of its trials, which met no other in a duel.
  bool is_provisional() const;
  Rate rate() const { return work.rate(best_us); }
  double speedup() const { return best_us > 0 ? default_us / best_us : 0; }
};

// `damage` names a damaged winner, and one that cannot be true (soundness/soundness.h); whether a cubin is
// damaged only if it is read. Throws BrokenEnvironment where the file is.
StoredResult read_result(const Cache& cache, const Workload& workload, StoredSpaces& spaces,
                         WinnerParts parts = WinnerParts::without_cubins);
// A workload of this kernel, problem and hardware with a winner: the one of these sources and this compiler,
// else the one stored last; never a recording in progress. Throws DamagedWinner where the one of these
// sources and this compiler is damaged, or nothing but damaged ones is there.
std::optional<StoredResult> find_winner(const Cache& cache, const WorkloadKey& key, StoredSpaces& spaces);

Document result_document(const StoredResult& result);

// A text of a stored provenance by its name ("driver"); "" if it says nothing of that.
std::string source_of(const std::string& provenance, const char* name);

// Parses JSON that this or another version stored; null where it is not JSON.
Document parse_stored(const std::string& text);

}  // namespace moetune
