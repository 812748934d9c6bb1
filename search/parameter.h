// One tunable parameter and its domain; and the two parts of a configuration.
#pragma once

#include <string>
#include <vector>

#include "search/assignment.h"
#include "search/value.h"

namespace moetune {

struct Parameter {
  std::string name;
  std::vector<Value> values;  // at least one, all integers or all named, no duplicates
  std::string doc;            // one phrase for `moetune space`
  bool at_launch = false;     // its value is passed at launch and changes nothing of what is compiled

  bool is_named() const { return values.front().is_named(); }
};

// `compiled` names a cubin; `launch` holds what each launch of it is given. Both in the order of the space.
struct ConfigParts {
  Config compiled;
  Config launch;
};

// Throws BadInput if `config` lacks a value or has one more.
ConfigParts split_config(const Config& config, const std::vector<Parameter>& parameters);

}  // namespace moetune
