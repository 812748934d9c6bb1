// From the text of an expression to its tree: recursive descent, one function a precedence level.
// Throws BadInput with the column. Stateless outside one call.
#pragma once

#include <string_view>
#include <vector>

#include "search/expression.h"

namespace moetune {

std::vector<Expression::Node> parse_expression(std::string_view text, std::string_view where, Vocabulary& vocabulary);

}  // namespace moetune
