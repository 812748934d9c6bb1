// What strategies have in common that choose each configuration by itself and learn from times alone. One
// owner; not thread-safe.
#pragma once

#include "search/random.h"
#include "search/searcher.h"
#include "search/untried.h"

namespace moetune {

class OneByOne : public Searcher {
 public:
  std::vector<ConfigId> ask(std::size_t n) final {
    std::vector<ConfigId> ids;
    while (ids.size() < n && !untried_.empty()) ids.push_back(next());
    return ids;
  }

  void tell(const Observation& observation) final {
    if (observation.id >= space_.size()) return;
    untried_.take(observation.id);
    if (has_usable_time(observation)) on_success(observation);
  }

 protected:
  OneByOne(const LegalSpace& space, std::uint64_t seed)
      : space_(space), untried_(space.size()), random_(seed) {}

  // Takes one out of untried_, which is not empty.
  virtual ConfigId next() = 0;
  // A configuration of the space was told, with a usable time.
  virtual void on_success(const Observation& observation) = 0;

  const LegalSpace& space_;
  Untried untried_;
  Random random_;
};

}  // namespace moetune
