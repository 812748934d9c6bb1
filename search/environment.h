// The problem and device that a space file's expressions are evaluated for. Throws BadInput where an expression names
// something that the environment lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/assignment.h"
#include "search/expression.h"
#include "search/space_file.h"

namespace moetune {

// The numbers of names: those that expressions quote have one in the vocabulary; others come after these, as they are
// met.
class EnvironmentNames {
 public:
  explicit EnvironmentNames(const SpaceFile& file) : file_(file) {}
  std::int64_t number(const std::string& name);

 private:
  const SpaceFile& file_;
  std::vector<std::string> others_;
};

// The value of each slot of the file's vocabulary in `environment`; parameters and lets are unknown.
std::vector<Binding> environment_bindings(const SpaceFile& file, const Assignment& environment,
                                          EnvironmentNames& names);
std::vector<Binding> environment_bindings(const SpaceFile& file, const Assignment& environment);

// `bindings` are the environment's.
void require_known(const Expression& expression, const SpaceFile& file, const Assignment& environment,
                   const std::vector<Binding>& bindings);

}  // namespace moetune
