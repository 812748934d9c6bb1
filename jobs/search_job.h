// The search job: the fastest configuration of a kernel for a workload, found, verified and stored.
#pragma once

#include <cstdint>

#include "jobs/propose/command.h"
#include "jobs/propose/variants.h"
#include "jobs/session/documents.h"
#include "jobs/session/job.h"
#include "jobs/session/subject.h"
#include "tuner/tune.h"

namespace moetune {

struct SearchRequest {
  JobTarget target;
  TuneSettings settings;
  bool cold = false;          // take no hints from the cache's other workloads
  bool no_compile = false;    // recordings only: do not compile what is replayed
  std::uint64_t threads = 0;  // of the compiler; 0: all cores
  // A program that suggests configurations. No job of a service brings one: it would run there.
  std::optional<ProposerCommand> proposer = std::nullopt;
};

struct SearchResult {
  Subject subject;
  std::size_t legal = 0;               // configurations
  std::size_t histories = 0;           // other workloads that gave hints
  bool compiled = false;               // false for a replay without compiling
  Timing timing = Timing::overlapped;  // that the winner answers; a recording's is always this
  TuneResult tune;
  std::optional<ProposerReport> proposer = std::nullopt;
  std::optional<VariantDuel> variant = std::nullopt;  // of the proposer
};

// Errors and threads as in job.h.
SearchResult search(const SearchRequest& request, const JobContext& context);

// The experience of the cache's other workloads for a search of the session's.
class Session;
std::vector<History> search_hints(Session& session, const JobContext& context);

// The result as programs read it.
Document search_document(const SearchRequest& request, const SearchResult& result);

}  // namespace moetune
