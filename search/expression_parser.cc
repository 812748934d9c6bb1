#include "search/expression_parser.h"

#include <array>
#include <cctype>
#include <optional>

#include "base/suggest.h"

namespace moetune {
namespace {

using Node = Expression::Node;

constexpr std::size_t kMaxExpression = 4096;
constexpr int kMaxNesting = 64;

struct Function {
  std::string_view name;
  Op op;
  std::size_t least, most;  // arguments
};

constexpr std::array kFunctions = {Function{"min", Op::minimum, 2, 16}, Function{"max", Op::maximum, 2, 16},
                                   Function{"ceil_div", Op::ceil_div, 2, 2},
                                   Function{"is_pow2", Op::is_pow2, 1, 1}, Function{"log2", Op::log2, 1, 1}};

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

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Parser {
 public:
  Parser(std::string_view text, std::string_view where, Vocabulary& vocabulary)
      : text_(text), where_(where), vocabulary_(vocabulary) {}

  std::vector<Node> parse() {
    if (text_.size() > kMaxExpression) fail(0, "the expression is longer than 4096 characters");
    skip_blanks();
    if (at_ == text_.size()) fail(at_, "the expression is empty");
    conditional();
    if (at_ != text_.size()) {
      if (text_[at_] == '=') fail(at_, "'=' assigns nothing here; compare with '=='");
      fail(at_, "unexpected '" + std::string(1, text_[at_]) + "'");
    }
    return std::move(nodes_);
  }

 private:
  [[noreturn]] void fail(std::size_t position, const std::string& what) const {
    throw_at(where_, text_, static_cast<std::uint32_t>(position + 1), what);
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool accept(std::string_view symbol) {
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    skip_blanks();
    return true;
  }

  void expect(std::string_view symbol) {
    if (!accept(symbol)) {
      const std::string found = at_ < text_.size() ? "'" + std::string(1, text_[at_]) + "'" : "the end";
      fail(at_, "expected '" + std::string(symbol) + "', found " + found);
    }
  }

  int add(Node node) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }

  int add(Op op, std::size_t position, int a, int b = -1, int c = -1) {
    Node node;
    node.op = op;
    node.column = static_cast<std::uint32_t>(position + 1);
    node.a = a;
    node.b = b;
    node.c = c;
    return add(node);
  }

  int conditional() {
    if (++nesting_ > kMaxNesting) fail(at_, "the expression is nested more than 64 deep");
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
    if (++nesting_ > kMaxNesting) fail(position, "the expression is nested more than 64 deep");
    const int operand = unary();
    --nesting_;
    return add(op, position, operand);
  }

  int primary() {
    if (at_ == text_.size()) fail(at_, "the expression ends where a value is expected");
    const char c = text_[at_];
    if (is_digit(c)) return number();
    if (c == '\'') return quoted();
    if (is_name_start(c)) return name();
    if (accept("(")) {
      const int inner = conditional();
      expect(")");
      return inner;
    }
    fail(at_, "expected a value, found '" + std::string(1, c) + "'");
  }

  int number() {
    Node node;
    node.column = static_cast<std::uint32_t>(at_ + 1);
    const std::size_t begin = at_;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(node.value, std::int64_t{10}, &node.value) ||
          __builtin_add_overflow(node.value, std::int64_t{text_[at_] - '0'}, &node.value)) {
        fail(begin, "the number does not fit 64 bits");
      }
    }
    if (at_ < text_.size() && (is_name_part(text_[at_]) || text_[at_] == '.')) {
      fail(begin, "only whole decimal numbers are known here");
    }
    skip_blanks();
    return add(node);
  }

  int quoted() {
    const std::size_t begin = at_;
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) fail(begin, "the quoted name has no closing quote");
    if (end == begin + 1) fail(begin, "the quoted name is empty");
    Node node;
    node.quoted = true;
    node.column = static_cast<std::uint32_t>(begin + 1);
    node.value = vocabulary_.intern(text_.substr(begin + 1, end - begin - 1));
    at_ = end + 1;
    skip_blanks();
    return add(node);
  }

  int name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_name_part(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    skip_blanks();
    if (accept("(")) return call(word, begin);
    Node node;
    node.op = Op::load;
    node.column = static_cast<std::uint32_t>(begin + 1);
    node.slot = resolve(word, begin);
    return add(node);
  }

  Slot resolve(std::string_view word, std::size_t position) {
    const std::size_t dot = word.find('.');
    if (const std::optional<Slot> slot = vocabulary_.find(word)) return *slot;
    if (dot == std::string_view::npos) {
      std::vector<std::string> known;
      for (const std::string& known_name : vocabulary_.names()) {
        if (known_name.find('.') == std::string::npos) known.push_back(known_name);
      }
      fail(position, unknown_name("name", word, known));
    }
    const std::string_view group = word.substr(0, dot);
    const std::string_view member = word.substr(dot + 1);
    if (group != "problem" && group != "device") {
      fail(position, unknown_name("name", word.substr(0, dot + 1), {"problem.", "device."}));
    }
    if (member.empty() || !is_name_start(member[0]) || member.find('.') != std::string_view::npos) {
      fail(position, "'" + std::string(word) + "' is not " + std::string(group) + ".NAME");
    }
    return vocabulary_.add_environment(word);
  }

  int call(std::string_view word, std::size_t position) {
    const Function* function = nullptr;
    std::vector<std::string> known;
    for (const Function& candidate : kFunctions) {
      known.emplace_back(candidate.name);
      if (candidate.name == word) function = &candidate;
    }
    if (function == nullptr) fail(position, unknown_name("function", word, known));
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
    for (std::size_t i = 1; i < arguments.size(); ++i)
      result = add(function->op, position, result, arguments[i]);
    return result;
  }

  std::string_view text_;
  std::string_view where_;
  Vocabulary& vocabulary_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace

std::vector<Node> parse_expression(std::string_view text, std::string_view where, Vocabulary& vocabulary) {
  return Parser(text, where, vocabulary).parse();
}

}  // namespace moetune
