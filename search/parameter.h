// One tunable parameter and its domain.
#pragma once

#include <string>
#include <vector>

#include "search/value.h"

namespace moetune {

struct Parameter {
  std::string name;
  std::vector<Value> values;  // at least one, all integers or all named, no duplicates
  std::string doc;            // one phrase for `moetune space`

  bool is_named() const { return values.front().is_named(); }
};

}  // namespace moetune
