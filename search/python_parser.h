// Restrictions as Kernel Tuner's users write them: Python's operators, precedence and numbers (docs/spaces.md has the
// list). Numbers are whole or exact fractions, so that `a / b` is what it is in Python. Stateless.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search/expression.h"

namespace moetune {

// Throws BadInput with the column.
std::vector<Expression::Node> parse_python(std::string_view text, std::string_view where, Vocabulary& vocabulary);

// The elements of a list such as "[1, 2] + [2**i for i in range(2, 6)]": integers or texts, at most 65,536. `names`
// stand for lists themselves. Throws BadInput with the column, also for what is no list of these.
struct PythonName {
  std::string_view name;
  std::vector<std::int64_t> values;
};
std::vector<std::variant<std::int64_t, std::string>> python_list(std::string_view text, std::string_view where,
                                                                 const std::vector<PythonName>& names = {});

}  // namespace moetune
