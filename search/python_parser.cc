#include "search/python_parser.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "search/expression_scanner.h"

namespace moetune {
namespace {

constexpr std::size_t kMostElements = 65536;
constexpr std::size_t kMostParsed = std::size_t{1} << 20;
constexpr std::size_t kMostSize = 8192;  // of a tree in which a node counts as often as it is an operand
constexpr std::int64_t kMostExponent = 64;

// A number, which is `over` / `under` if it has a divisor, a quoted name, or a list.
struct Term {
  int over = -1, under = -1;  // nodes
  bool is_list = false;
  std::vector<Term> elements;

  bool is_fraction() const { return under >= 0; }
};

class PythonParser : ExpressionScanner {
 public:
  PythonParser(std::string_view text, std::string_view where, Vocabulary& vocabulary)
      : ExpressionScanner(text, where, vocabulary) {}

  std::vector<Node> parse() {
    begin();
    const Term result = expression();
    expect_end();
    const int root = whole(result, 0);
    if (root + 1 != static_cast<int>(nodes_.size())) {
      const Node copy = nodes_[static_cast<std::size_t>(root)];
      nodes_.push_back(copy);
    }
    return std::move(nodes_);
  }

  std::vector<std::variant<std::int64_t, std::string>> parse_list(const std::vector<PythonName>& names) {
    for (const PythonName& one : names) {
      Term list{.is_list = true};
      for (const std::int64_t value : one.values) list.elements.push_back({constant(0, value)});
      locals_[std::string(one.name)] = std::move(list);
    }
    begin();
    const Term result = expression();
    expect_end();
    std::vector<std::variant<std::int64_t, std::string>> values;
    for (const Term& element : elements_of(result, 0)) {
      const Node& node = nodes_[static_cast<std::size_t>(whole(element, 0))];
      if (node.op != Op::constant) fail(0, "an element is no constant");
      if (node.quoted) {
        values.emplace_back(vocabulary_.interned_names()[static_cast<std::size_t>(node.value)]);
      } else {
        values.emplace_back(node.value);
      }
    }
    return values;
  }

 private:
  // ---- nodes ----

  std::optional<std::int64_t> known(int index) const {
    if (index < 0) return std::nullopt;
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    return node.op == Op::constant && !node.quoted ? std::optional(node.value) : std::nullopt;
  }

  void work(std::size_t position, std::size_t steps = 1) {
    if ((steps_ += steps) > kMostParsed) fail(position, "the expression is too much work");
  }

  int constant(std::size_t position, std::int64_t value) {
    work(position);
    return add_constant(position, value);
  }

  std::size_t size_of(int node) const {
    return node < 0 || static_cast<std::size_t>(node) >= sizes_.size() ? 1 : sizes_[static_cast<std::size_t>(node)];
  }

  int grow(Op op, std::size_t position, int a, int b = -1, int c = -1) {
    work(position);
    const std::size_t size = 1 + size_of(a) + size_of(b) + size_of(c);
    if (size > kMostSize) fail(position, "the expression is too much work");
    const int node = add(op, position, a, b, c);
    sizes_.resize(nodes_.size(), 1);
    sizes_.back() = size;
    return node;
  }

  int make(Op op, std::size_t position, int a, int b = -1) {
    const auto x = known(a), y = b < 0 ? std::optional<std::int64_t>(0) : known(b);
    const bool is_lazy = op == Op::logical_and || op == Op::logical_or;
    if (is_lazy && x && (*x != 0) == (op == Op::logical_or)) return constant(position, *x != 0);
    if (is_lazy && x && y) return constant(position, *y != 0);
    if (op == Op::multiply && (x == 1 || y == 1)) return x == 1 ? b : a;
    if (x && y) {
      const std::int64_t value = apply(op, *x, *y);
      if (value != kUndefined) return constant(position, value);
    }
    return grow(op, position, a, b);
  }

  int choose(std::size_t position, int condition, int yes, int no) {
    if (const auto value = known(condition)) return *value != 0 ? yes : no;
    return grow(Op::choose, position, condition, yes, no);
  }

  int product(std::size_t position, int a, int b) {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return make(Op::multiply, position, a, b);
  }

  int no_value(std::size_t position) {
    const int zero = constant(position, 0);
    return grow(Op::divide, position, zero, zero);
  }

  // `value` if `condition` holds, else an expression without a value.
  int only_if(std::size_t position, int condition, int value) {
    if (const auto is_known = known(condition); is_known && *is_known != 0) return value;
    return choose(position, condition, value, no_value(position));
  }

  int is_positive(std::size_t position, int node) { return make(Op::greater, position, node, constant(position, 0)); }

  // An integer; a fraction has no value unless it is one.
  int whole(const Term& term, std::size_t position) {
    require_number(term, position);
    if (!term.is_fraction()) return term.over;
    const int left = make(Op::modulo, position, term.over, term.under);
    const int is_whole = make(Op::equal, position, left, constant(position, 0));
    return only_if(position, is_whole, make(Op::floor_div, position, term.over, term.under));
  }

  int truth(const Term& term, std::size_t position) {
    if (term.is_list) return constant(position, term.elements.empty() ? 0 : 1);
    return term.over;
  }

  void require_number(const Term& term, std::size_t position) const {
    if (term.is_list) fail(position, "a list stands where a number is expected");
  }

  const std::vector<Term>& elements_of(const Term& term, std::size_t position) const {
    if (!term.is_list) fail(position, "a number stands where a list is expected");
    return term.elements;
  }

  Term join(Term left, const Term& right, std::size_t position) {
    work(position, left.elements.size() + right.elements.size());
    left.elements.insert(left.elements.end(), right.elements.begin(), right.elements.end());
    if (left.elements.size() > kMostElements) fail(position, "a list has more than 65536 elements");
    return left;
  }

  // Both over one divisor.
  struct Common {
    int a, b, under;
  };
  Common common(const Term& a, const Term& b, std::size_t position) {
    require_number(a, position);
    require_number(b, position);
    return {product(position, a.over, b.under), product(position, b.over, a.under),
            product(position, a.under, b.under)};
  }

  Term arithmetic(Op op, const Term& a, const Term& b, std::size_t position) {
    if (op == Op::add && a.is_list && b.is_list) return join(a, b, position);
    const Common both = common(a, b, position);
    switch (op) {
      case Op::multiply:
        return {product(position, a.over, b.over), both.under};
      case Op::divide: {
        const auto by = known(both.b);
        // Nothing is a fraction that need not be one.
        if (const auto value = known(both.a); value && by && *by != 0 && *value % *by == 0)
          return {constant(position, *value / *by)};
        return {both.a, both.b};
      }
      case Op::floor_div:
        return {make(op, position, both.a, both.b)};
      default:  // sums, differences, remainders, the smaller and the larger
        return {make(op, position, both.a, both.b), both.under};
    }
  }

  // By products, for which the divisors must be above zero.
  int compare(Op op, const Term& a, const Term& b, std::size_t position) {
    const Common both = common(a, b, position);
    const int result = make(op, position, both.a, both.b);
    return both.under < 0 ? result : only_if(position, is_positive(position, both.under), result);
  }

  // ---- tokens ----

  bool accept_word(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    const std::size_t end = at_ + wanted.size();
    if (end < text_.size() && (is_name_part(text_[end]) || text_[end] == '.')) return false;
    at_ = end;
    skip_blanks();
    return true;
  }

  void expect_word(std::string_view wanted) {
    if (!accept_word(wanted)) fail(at_, "expected '" + std::string(wanted) + "'");
  }

  // ---- the grammar, loosest first ----

  Term expression() {
    deeper(at_);
    Term result = disjunction();
    const std::size_t position = at_;
    if (accept_word("if")) {
      const int condition = truth(disjunction(), position);
      expect_word("else");
      result = {choose(position, condition, whole(result, position), whole(expression(), position))};
    }
    --nesting_;
    return result;
  }

  Term disjunction() {
    Term left = conjunction();
    for (std::size_t position = at_; accept_word("or"); position = at_) {
      const int first = truth(left, position);
      left = {make(Op::logical_or, position, first, truth(conjunction(), position))};
    }
    return left;
  }

  Term conjunction() {
    Term left = negation();
    for (std::size_t position = at_; accept_word("and"); position = at_) {
      const int first = truth(left, position);
      left = {make(Op::logical_and, position, first, truth(negation(), position))};
    }
    return left;
  }

  Term negation() {
    const std::size_t position = at_;
    if (!accept_word("not")) return comparison();
    deeper(position);
    const int operand = truth(negation(), position);
    --nesting_;
    return {make(Op::logical_not, position, operand)};
  }

  std::optional<Op> accept_comparison() {
    static constexpr std::array<std::pair<std::string_view, Op>, 6> kComparisons = {{{"==", Op::equal},
                                                                                     {"!=", Op::not_equal},
                                                                                     {"<=", Op::less_equal},
                                                                                     {">=", Op::greater_equal},
                                                                                     {"<", Op::less},
                                                                                     {">", Op::greater}}};
    for (const auto& [symbol, op] : kComparisons)
      if (accept(symbol)) return op;
    return std::nullopt;
  }

  Term comparison() {
    Term left = sum();
    int all = -1;
    for (;;) {
      const std::size_t position = at_;
      int one = -1;
      if (const auto op = accept_comparison()) {
        Term right = sum();
        one = compare(*op, left, right, position);
        left = std::move(right);
      } else if (const bool is_not = accept_word("not"); is_not || accept_word("in")) {
        if (is_not) expect_word("in");
        const Term list = sum();
        one = is_in(left, list, position);
        if (is_not) one = make(Op::logical_not, position, one);
        left = list;
      } else {
        return all < 0 ? left : Term{all};
      }
      all = all < 0 ? one : make(Op::logical_and, position, all, one);
    }
  }

  int is_in(const Term& value, const Term& list, std::size_t position) {
    int any = constant(position, 0);
    for (const Term& element : elements_of(list, position))
      any = make(Op::logical_or, position, any, compare(Op::equal, value, element, position));
    return any;
  }

  Term sum() {
    Term left = term();
    for (std::size_t position = at_;; position = at_) {
      if (accept("+")) {
        left = arithmetic(Op::add, left, term(), position);
      } else if (accept("-")) {
        left = arithmetic(Op::subtract, left, term(), position);
      } else {
        return left;
      }
    }
  }

  Term term() {
    Term left = factor();
    for (std::size_t position = at_;; position = at_) {
      const Op op = accept("//")  ? Op::floor_div
                    : accept("/") ? Op::divide
                    : accept("%") ? Op::modulo
                    : accept("*") ? Op::multiply
                                  : Op::constant;
      if (op == Op::constant) return left;
      left = arithmetic(op, left, factor(), position);
    }
  }

  Term factor() {
    const std::size_t position = at_;
    const bool is_minus = accept("-");
    if (!is_minus && !accept("+")) return power();
    deeper(position);
    Term operand = factor();
    --nesting_;
    require_number(operand, position);
    if (is_minus) operand.over = make(Op::negate, position, operand.over);
    return operand;
  }

  Term power() {
    const Term base = atom();
    const std::size_t position = at_;
    if (!accept("**")) return base;
    deeper(position);
    const auto exponent = known(whole(factor(), position));
    --nesting_;
    if (!exponent || *exponent < 0 || *exponent > kMostExponent)
      fail(position, "an exponent must be a constant from 0 to 64");
    Term result{constant(position, 1)};
    for (std::int64_t i = 0; i < *exponent; ++i) result = arithmetic(Op::multiply, result, base, position);
    return result;
  }

  Term atom() {
    if (at_ == text_.size()) fail(at_, "the expression ends where a value is expected");
    work(at_);
    const char c = text_[at_];
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return {quoted(c)};
    if (is_name_start(c)) return name();
    const std::size_t position = at_;
    if (accept("[")) return list("]");
    if (!accept("(")) fail(at_, "expected a value, found '" + std::string(1, c) + "'");
    Term inner = expression();
    if (accept(")")) return inner;
    if (at_ < text_.size() && text_[at_] == ',') {
      at_ = position + 1;
      skip_blanks();
      return list(")");
    }
    expect(")");
    return inner;
  }

  // "0.5" is 5 / 10.
  Term number() {
    const std::size_t begin = at_;
    Term result{constant(begin, digits())};
    if (at_ < text_.size() && text_[at_] == '.') {
      const std::size_t point = at_++;
      const std::int64_t behind = digits();
      if (at_ - point > 16) fail(begin, "the number has too many digits");
      std::int64_t scale = 1;
      for (std::size_t i = point + 1; i < at_; ++i) scale *= 10;
      const Term fraction = arithmetic(Op::divide, {constant(begin, behind)}, {constant(begin, scale)}, begin);
      result = arithmetic(Op::add, result, fraction, begin);
    }
    if (at_ < text_.size() && (is_name_part(text_[at_]) || text_[at_] == '.'))
      fail(begin, "only decimal numbers without an exponent are known here");
    skip_blanks();
    return result;
  }

  // The elements of a list, or one element for each value of "for NAME in LIST".
  Term list(std::string_view end) {
    Term result{.is_list = true};
    if (const auto loop = find_for()) return comprehension(*loop, end);
    while (!accept(end)) {
      if (!result.elements.empty()) {
        expect(",");
        if (accept(end)) break;
      }
      result.elements.push_back(expression());
      if (result.elements.size() > kMostElements) fail(at_, "a list has more than 65536 elements");
    }
    return result;
  }

  // The place of a "for" before the bracket that is open here ends.
  std::optional<std::size_t> find_for() const {
    int depth = 0;
    for (std::size_t i = at_; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\'' || c == '"') {
        i = text_.find(c, i + 1);
        if (i == std::string_view::npos) return std::nullopt;
      } else if (c == '(' || c == '[') {
        ++depth;
      } else if (c == ')' || c == ']') {
        if (--depth < 0) return std::nullopt;
      } else if (is_name_start(c)) {
        const std::size_t begin = i;
        while (i + 1 < text_.size() && is_name_part(text_[i + 1])) ++i;
        if (depth == 0 && text_.substr(begin, i + 1 - begin) == "for") return begin;
      }
    }
    return std::nullopt;
  }

  Term comprehension(std::size_t loop, std::string_view end) {
    deeper(at_);
    const std::size_t body = at_;
    at_ = loop;
    expect_word("for");
    const std::size_t name_at = at_;
    const std::string name(word());
    if (name.empty() || !is_name_start(name[0]) || name.find('.') != std::string::npos)
      fail(name_at, "expected a name behind 'for'");
    expect_word("in");
    const Term values = disjunction();
    const std::size_t condition = at_;
    const auto outer = locals_.find(name);
    const std::optional<Term> hidden = outer == locals_.end() ? std::nullopt : std::optional(outer->second);
    Term result{.is_list = true};
    for (const Term& value : elements_of(values, loop)) {
      locals_[name] = value;
      at_ = condition;
      if (accept_word("if")) {
        const auto holds = known(truth(disjunction(), condition));
        if (!holds) fail(condition, "the condition of a list must be a constant");
        if (*holds == 0) continue;
      }
      at_ = body;
      result.elements.push_back(expression());
      if (at_ != loop) fail(at_, "expected 'for'");
    }
    at_ = condition;
    locals_[name] = {constant(condition, 0)};
    if (accept_word("if")) disjunction();
    locals_.erase(name);
    if (hidden) locals_[name] = *hidden;
    expect(end);
    --nesting_;
    return result;
  }

  Term name() {
    const std::size_t begin = at_;
    std::string_view found = word();
    if (found == "True" || found == "False") return {constant(begin, found == "True")};
    if (accept("(")) return call(found.starts_with("math.") ? found.substr(5) : found, begin);
    const auto local = locals_.find(std::string(found));
    if (local == locals_.end()) return {load(found, begin)};
    if (accept("[")) {
      const auto index = known(whole(expression(), begin));
      expect("]");
      const std::vector<Term>& elements = elements_of(local->second, begin);
      if (!index || *index < 0 || *index >= static_cast<std::int64_t>(elements.size()))
        fail(begin, "a list has no such element");
      return elements[static_cast<std::size_t>(*index)];
    }
    work(begin, local->second.elements.size());
    return local->second;
  }

  Term call(std::string_view function, std::size_t position) {
    static const std::vector<std::string> kKnown = {"min", "max", "abs",   "int",  "ceil",     "floor",   "all", "any",
                                                    "sum", "len", "range", "list", "ceil_div", "is_pow2", "log2"};
    if (std::find(kKnown.begin(), kKnown.end(), function) == kKnown.end())
      fail(position, unknown_name("function", function, kKnown));
    const std::vector<Term> arguments = list(")").elements;
    const auto takes = [&](std::size_t least, std::size_t most) {
      if (arguments.size() < least || arguments.size() > most)
        fail(position, std::string(function) + " does not take " + std::to_string(arguments.size()) + " arguments");
    };
    // all(x for x in ...) and all([...]) are the same.
    const bool one_list = arguments.size() == 1 && arguments[0].is_list;
    const std::vector<Term>& items = one_list ? arguments[0].elements : arguments;
    if (function == "range") {
      takes(1, 3);
      return range(arguments, position);
    }
    if (function == "ceil_div") {
      takes(2, 2);
      const Common both = common(arguments[0], arguments[1], position);
      return {make(Op::ceil_div, position, both.a, both.b)};
    }
    if (function == "min" || function == "max" || function == "all" || function == "any" || function == "sum" ||
        function == "len" || function == "list")
      return of_items(function, items, position);
    takes(1, 1);
    return of_one(function, arguments[0], position);
  }

  Term range(const std::vector<Term>& arguments, std::size_t position) {
    std::array<std::int64_t, 3> numbers = {0, 0, 1};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto value = known(whole(arguments[i], position));
      if (!value) fail(position, "a range must be of constants");
      numbers[arguments.size() == 1 ? 1 : i] = *value;
    }
    const auto [first, last, step] = numbers;
    if (step == 0) fail(position, "a range must have a step that is not 0");
    Term result{.is_list = true};
    std::int64_t i = first;
    while (step > 0 ? i < last : i > last) {
      if (result.elements.size() == kMostElements) fail(position, "a range has more than 65536 elements");
      result.elements.push_back({constant(position, i)});
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return result;
  }

  Term of_items(std::string_view function, const std::vector<Term>& items, std::size_t position) {
    if (function == "len") return {constant(position, static_cast<std::int64_t>(items.size()))};
    if (function == "list") return {.is_list = true, .elements = items};
    const bool all = function == "all", any = function == "any", sum = function == "sum";
    if (!all && !any && !sum && items.empty()) fail(position, std::string(function) + " does not take 0 arguments");
    Term result{all || any || sum ? constant(position, all ? 1 : 0) : -1};
    for (const Term& item : items) {
      if (all || any) {
        result = {make(all ? Op::logical_and : Op::logical_or, position, result.over, truth(item, position))};
      } else if (result.over < 0) {
        require_number(item, position);
        result = item;
      } else {
        const Op op = sum ? Op::add : function == "min" ? Op::minimum : Op::maximum;
        result = arithmetic(op, result, item, position);
      }
    }
    return result;
  }

  Term of_one(std::string_view function, const Term& value, std::size_t position) {
    require_number(value, position);
    const int over = value.over, under = value.is_fraction() ? value.under : constant(position, 1);
    if (function == "floor") return {make(Op::floor_div, position, over, under)};
    if (function == "int") return {make(Op::divide, position, over, under)};
    if (function == "ceil") return {make(Op::ceil_div, position, over, under)};
    if (function == "abs") return {make(Op::maximum, position, over, make(Op::negate, position, over)), value.under};
    return {make(function == "log2" ? Op::log2 : Op::is_pow2, position, whole(value, position))};
  }

  std::map<std::string, Term> locals_;  // names of comprehensions
  std::vector<std::size_t> sizes_;      // of the trees, by node
  std::size_t steps_ = 0;
};

}  // namespace

std::vector<Expression::Node> parse_python(std::string_view text, std::string_view where, Vocabulary& vocabulary) {
  return PythonParser(text, where, vocabulary).parse();
}

std::vector<std::variant<std::int64_t, std::string>> python_list(std::string_view text, std::string_view where,
                                                                 const std::vector<PythonName>& names) {
  Vocabulary vocabulary;
  return PythonParser(text, where, vocabulary).parse_list(names);
}

}  // namespace moetune
