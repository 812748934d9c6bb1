#include "search/expression_parser.h"

#include <algorithm>
#include <array>

#include "base/suggest.h"
#include "search/expression_scanner.h"
#include "search/python_parser.h"

namespace moetune {
namespace {

struct Function {
  std::string_view name;
  Op op;
  std::size_t least, most;  // arguments
};

constexpr std::array kFunctions = {Function{"min", Op::minimum, 2, 16}, Function{"max", Op::maximum, 2, 16},
                                   Function{"ceil_div", Op::ceil_div, 2, 2}, Function{"is_pow2", Op::is_pow2, 1, 1},
                                   Function{"log2", Op::log2, 1, 1}};

struct BinaryOperator {
  std::string_view symbol;
  Op op;
};

// The binary operators by precedence, loosest first. Longer symbols stand before their prefixes.
const std::array<std::vector<BinaryOperator>, 6> kLevels = {{
    {{"||", Op::logical_or}},
    {{"&&", Op::logical_and}},
    {{"==", Op::equal}, {"!=", Op::not_equal}},
    {{"<=", Op::less_equal}, {">=", Op::greater_equal}, {"<", Op::less}, {">", Op::greater}},
    {{"+", Op::add}, {"-", Op::subtract}},
    {{"*", Op::multiply}, {"/", Op::divide}, {"%", Op::remainder}},
}};
constexpr std::size_t kEquality = 2;
constexpr std::size_t kOrder = 3;

class Parser : ExpressionScanner {
 public:
  Parser(std::string_view text, std::string_view where, Vocabulary& vocabulary)
      : ExpressionScanner(text, where, vocabulary) {}

  std::vector<Node> parse() {
    begin();
    conditional();
    expect_end();
    return std::move(nodes_);
  }

 private:
  int conditional() {
    deeper(at_);
    int result = binary(0);
    const std::size_t position = at_;
    if (accept("?")) {
      const int yes = conditional();
      expect(":");
      result = add(Op::choose, position, result, yes, conditional());
    }
    --nesting_;
    return result;
  }

  const BinaryOperator* accept_operator(std::size_t level) {
    for (const BinaryOperator& candidate : kLevels[level]) {
      if (accept(candidate.symbol)) return &candidate;
    }
    return nullptr;
  }

  int binary(std::size_t level) {
    if (level == kLevels.size()) return unary();
    int left = binary(level + 1);
    for (bool chained = false;; chained = true) {
      const std::size_t position = at_;
      const BinaryOperator* found = accept_operator(level);
      if (found == nullptr) return left;
      if (chained && (level == kEquality || level == kOrder)) {
        fail(position, "comparisons do not chain; write 'a < b && b < c'");
      }
      left = add(found->op, position, left, binary(level + 1));
    }
  }

  int unary() {
    const std::size_t position = at_;
    if (accept("-")) return nested_unary(Op::negate, position);
    if (!text_.substr(at_).starts_with("!=") && accept("!")) return nested_unary(Op::logical_not, position);
    return primary();
  }

  int nested_unary(Op op, std::size_t position) {
    deeper(position);
    const int operand = unary();
    --nesting_;
    return add(op, position, operand);
  }

  int primary() {
    if (at_ == text_.size()) fail(at_, "the expression ends where a value is expected");
    const char c = text_[at_];
    if (is_digit(c)) return number();
    if (c == '\'') return quoted('\'');
    if (is_name_start(c)) return name();
    if (accept("(")) {
      const int inner = conditional();
      expect(")");
      return inner;
    }
    fail(at_, "expected a value, found '" + std::string(1, c) + "'");
  }

  int number() {
    const std::size_t begin = at_;
    const std::int64_t value = digits();
    if (at_ < text_.size() && (is_name_part(text_[at_]) || text_[at_] == '.')) {
      fail(begin, "only whole decimal numbers are known here");
    }
    skip_blanks();
    return add_constant(begin, value);
  }

  int name() {
    const std::size_t begin = at_;
    const std::string_view found = word();
    return accept("(") ? call(found, begin) : load(found, begin);
  }

  int call(std::string_view word, std::size_t position) {
    const auto function = std::ranges::find(kFunctions, word, &Function::name);
    if (function == kFunctions.end()) fail(position, unknown_name("function", word, kFunctions, &Function::name));
    std::vector<int> arguments = {conditional()};
    while (accept(",")) arguments.push_back(conditional());
    expect(")");
    if (arguments.size() < function->least || arguments.size() > function->most) {
      fail(position, std::string(word) + " takes " + std::to_string(function->least) +
                         (function->most > function->least ? " or more" : "") + " arguments, not " +
                         std::to_string(arguments.size()));
    }
    if (arguments.size() == 1) return add(function->op, position, arguments[0]);
    int result = arguments[0];
    for (std::size_t i = 1; i < arguments.size(); ++i) result = add(function->op, position, result, arguments[i]);
    return result;
  }
};

}  // namespace

std::vector<Expression::Node> parse_expression(std::string_view text, std::string_view where, Vocabulary& vocabulary) {
  if (vocabulary.syntax() == Syntax::python) return parse_python(text, where, vocabulary);
  return Parser(text, where, vocabulary).parse();
}

}  // namespace moetune
