// The candidates that a search compiles without measuring them: for the facts that the compiler states of
// them (search/scouting.h), and so that what is asked next need not wait. Where results come from a
// recording, so do the facts, and nothing is compiled.
//
// Belongs to the tuning thread. What it is made from must outlive it.
#pragma once

#include <future>
#include <unordered_map>
#include <unordered_set>

#include "search/scouting.h"
#include "tuner/tune.h"

namespace moetune {

class Scouts {
 public:
  Scouts(const TuneRequest& request, const TuneTools& tools, Searcher& searcher);

  // Tells the strategy the facts that are due after so many tells; waits for those that are not there yet,
  // or, where what is compiled first is measured first, leaves them and what was sent after them to a later
  // call.
  void learn_due(std::size_t told);
  // Lets the strategy send out new ones, with at most `most_out` out at a time.
  void send(std::size_t most_out, std::size_t told);
  // Compiles what the strategy may well ask next on threads that would be idle.
  void compile_foreseen();
  // It is to be measured after all.
  void asked(ConfigId id);

  // Compiled, and not asked so far.
  std::size_t unmeasured() const { return unmeasured_.size(); }

 private:
  struct Sent {
    Plan plan;
    std::shared_future<BuildPtr> build;
  };
  bool is_compiled(ConfigId id) const;
  Facts facts_of(ConfigId id);
  Plan plan_of(ConfigId id) const;

  const TuneRequest& request_;
  const TuneTools& tools_;
  Searcher& searcher_;
  Scouting scouting_;
  std::unordered_map<ConfigId, Sent> sent_;
  std::unordered_set<ConfigId> asked_;
  std::unordered_set<ConfigId> unmeasured_;
  std::unordered_set<ConfigId> foreseen_;
};

}  // namespace moetune
