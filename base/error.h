// The two ways moetune gives up. A kernel candidate that fails is neither: it is an Outcome.
#pragma once

#include <stdexcept>
#include <string>

namespace moetune {

// The user asked for something that cannot be done. what() is one sentence: what was wrong, where, and
// what would be right. The command line exits with 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The machine cannot do its part: no driver, no compiler, a full disk, a damaged cache. what() names the
// call, the reason and what to do. The command line exits with 3.
class BrokenEnvironment : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace moetune
