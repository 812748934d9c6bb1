// Suggestions from outside of the tune loop, as a user's program makes them. The strategy fills in for a proposer that
// thinks.
//
// Belongs to the tuning thread; must outlive the search. Implementations bound what waiting for one costs, and never
// throw for what it says: it is `gone` then.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "search/legal_space.h"
#include "tuner/compile/build.h"

namespace moetune {

struct Trial;

class Proposer {
 public:
  enum class State {
    suggests,
    done,  // it has nothing more to suggest, and the search may end
    gone,  // it failed: the search goes on without it
  };

  virtual ~Proposer() = default;

  // Up to n configurations to try next, none of them told or among those that are open. Takes what is at hand, or waits
  // for an answer until `is_over` holds; an empty `is_over` is not waited for. None if it thinks, wants to see a result
  // first, or suggests no more.
  virtual std::vector<ConfigId> ask(std::size_t n, std::span<const ConfigId> open,
                                    const std::function<bool()>& is_over) = 0;

  // A result, whoever suggested it; `build` is null if nothing was compiled. A result that was told already is not told
  // again, unless it has changed: it was measured again.
  virtual void tell(const Trial& trial, const Build* build) = 0;

  // The search asks no more.
  virtual void end() = 0;

  virtual State state() const = 0;
};

}  // namespace moetune
