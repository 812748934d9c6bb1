// Turns valid inputs into almost valid ones. Deterministic in the random numbers; one owner.
#pragma once

#include <string>
#include <vector>

#include "search/random.h"

namespace moetune::fuzz {

class Mutator {
 public:
  // `words` are put into inputs as they are.
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words);

  // One of the seeds with one to eight changes: flipped, replaced, inserted, removed and doubled bytes, numbers at the
  // ends of their ranges, words, pieces of another seed. At most 1 MiB.
  std::string make(Random& random) const;

  const std::vector<std::string>& seeds() const { return seeds_; }

 private:
  void change(std::string& input, Random& random) const;

  std::vector<std::string> seeds_, words_;
};

}  // namespace moetune::fuzz
