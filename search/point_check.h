// Whether single configurations are legal under an environment. Nothing is compiled: a few configurations are judged in
// less time than a BoundSpace takes to make. Immutable; refers to the SpaceFile, which must outlive it. Throws BadInput
// where an expression names something the environment lacks, or uses it as the wrong type.
#pragma once

#include <cstdint>
#include <vector>

#include "search/assignment.h"
#include "search/rules.h"
#include "search/space_file.h"

namespace moetune {

class PointCheck {
 public:
  PointCheck(const SpaceFile& file, const Assignment& environment);

  // Evaluates an expression of the environment alone; kUndefined if it has no value.
  std::int64_t evaluate(const Expression& expression) const;
  // Whether a condition on the environment alone holds.
  bool holds(const Expression& condition) const { return holds(condition, bindings_); }

  // `config` gives every parameter a value of its domain.
  bool is_legal(const Config& config, Rules rules) const;

 private:
  std::int64_t evaluate(const Expression& expression, const std::vector<Binding>& bindings) const;
  bool holds(const Expression& condition, const std::vector<Binding>& bindings) const;

  const SpaceFile& file_;
  const Assignment& environment_;
  std::vector<Binding> bindings_;  // of the environment, and of the lets that it decides
};

}  // namespace moetune
