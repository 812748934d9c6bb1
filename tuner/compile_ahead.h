// Compiles what a search may well ask next, on compiler threads that would be idle: the strategy's likeliest
// candidates, none of them asked yet. A trajectory does not depend on it, nor on how many threads there are.
//
// Belongs to the tuning thread. Its arguments must outlive it. Nothing here throws for a candidate
// that does not compile.
#pragma once

#include <cstddef>
#include <unordered_set>

#include "search/searcher.h"
#include "tuner/tune.h"

namespace moetune {

class CompileAhead {
 public:
  CompileAhead(const TuneRequest& request, const TuneTools& tools) : request_(request), tools_(tools) {}

  // Submits as many of the likeliest as there are idle threads to spare. Nothing where nothing is compiled.
  void run(const Searcher& searcher);
  // `id` is to be measured.
  void asked(ConfigId id);

  // Compiled ahead, and not asked so far.
  std::size_t unmeasured() const { return unmeasured_.size(); }

 private:
  const TuneRequest& request_;
  const TuneTools& tools_;
  std::unordered_set<ConfigId> asked_;
  std::unordered_set<ConfigId> submitted_;
  std::unordered_set<ConfigId> unmeasured_;  // of those submitted
};

}  // namespace moetune
