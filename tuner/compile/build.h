// The result of compiling one unit: a cubin with its static facts, or the reason there is none. A plain value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "search/outcome.h"
#include "tuner/compile/ptxas_log.h"

namespace moetune {

struct Build {
  Outcome outcome = Outcome::compile_failed;  // ok or compile_failed
  std::string digest;
  std::vector<std::uint8_t> cubin;
  std::map<std::string, EntryFacts> entries;
  std::string message;     // one line, where it failed
  std::string log;         // the whole compiler output
  double seconds = 0;      // 0 where it came from a store
  bool repeatable = true;  // false where another try may end otherwise (time limit, compiler breakdown): not stored
};

using BuildPtr = std::shared_ptr<const Build>;

}  // namespace moetune
