// An expression's value, computed in both ways: with its names as variables of the program, and folded away.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "search/expression.h"

namespace moetune::testing {

// `slots` are the values of `names`' first names, the third of which is one of a list.
inline std::int64_t computed(const Expression& expression, const Vocabulary& names,
                             const std::vector<std::int64_t>& slots) {
  std::vector<Binding> bindings(names.size());
  const std::int64_t value = expression.compile(names, bindings).run(slots.data());
  for (std::size_t i = 0; i < slots.size(); ++i) bindings[i] = {true, i == 2, slots[i]};
  const Program folded = expression.compile(names, bindings);
  REQUIRE(folded.is_constant());
  CHECK(folded.constant_value() == value);
  return value;
}

}  // namespace moetune::testing
