#include "search/expression.h"

#include <doctest/doctest.h>

#include <limits>

#include "base/error.h"
#include "search/value_range.h"
#include "tests/refusal.h"
#include "tests/search/computed.h"

using namespace moetune;

namespace {

Parameter integers(std::string name) { return {std::move(name), {Value::integer(1), Value::integer(2)}, ""}; }

Vocabulary vocabulary() {
  Vocabulary names;
  names.add_parameter(integers("a"));
  names.add_parameter(integers("b"));
  names.add_parameter({"loader", {Value::named("plain", 0), Value::named("tma", 1)}, ""});
  return names;
}

// The value of `text` with a and b as variables of the program, and again with them folded away: both must
// agree.
std::int64_t value(const std::string& text, std::int64_t a = 0, std::int64_t b = 0, const std::string& loader = "tma") {
  Vocabulary names = vocabulary();
  const Expression expression = Expression::parse(text, "test", names);
  return testing::computed(expression, names, {a, b, *names.interned(loader)});
}

std::string expression_error(const std::string& text) {
  Vocabulary names = vocabulary();
  return refusal_of([&] { Expression::parse(text, "x.json: constraints[0].expr", names); });
}

std::string error_at(const std::string& text, const std::string& what, int column) {
  return "x.json: constraints[0].expr: " + what + " (column " + std::to_string(column) + " of \"" + text + "\")";
}

}  // namespace

TEST_CASE("operators bind as in C") {
  CHECK(value("2 + 3 * 4") == 14);
  CHECK(value("(2 + 3) * 4") == 20);
  CHECK(value("10 - 4 - 3") == 3);
  CHECK(value("100 / 5 / 2") == 10);
  CHECK(value("17 % 5 * 2") == 4);
  CHECK(value("1 + 1 == 2 && 3 > 2") == 1);
  CHECK(value("1 || 0 && 0") == 1);
  CHECK(value("2 == 1 < 5") == 0);
  CHECK(value("-2 * -3") == 6);
  CHECK(value("- - 2") == 2);
  CHECK(value("!0 + !5") == 1);
  CHECK(value("!a == 1", 0) == 1);
  CHECK(value("0 ? 1 : 0 ? 2 : 3") == 3);
  CHECK(value("1 ? 0 ? 4 : 5 : 6") == 5);
  CHECK(value("a > 1 ? b : -b", 2, 7) == 7);
  CHECK(value("a>=b&&a<=b", 4, 4) == 1);
  CHECK(value("a!=b", 4, 4) == 0);
}

TEST_CASE("logic gives 0 or 1 whatever its operands are") {
  CHECK(value("a && b", 7, 9) == 1);
  CHECK(value("a || b", 7, 0) == 1);
  CHECK(value("a || b", 0, 9) == 1);
  CHECK(value("a || b", 0, 0) == 0);
  CHECK(value("(a && b) + (a || b)", 2, 4) == 2);
  CHECK(value("1 && b", 0, 5) == 1);
}

TEST_CASE("functions compute what they say") {
  CHECK(value("min(a, b)", 3, -4) == -4);
  CHECK(value("max(1, a, b)", 3, 8) == 8);
  CHECK(value("ceil_div(a, b)", 7, 2) == 4);
  CHECK(value("ceil_div(a, b)", -7, 2) == -3);
  CHECK(value("ceil_div(a, b)", 8, 2) == 4);
  CHECK(value("is_pow2(a)", 64) == 1);
  CHECK(value("is_pow2(a)", 96) == 0);
  CHECK(value("is_pow2(a)", 0) == 0);
  CHECK(value("is_pow2(a)", -4) == 0);
  CHECK(value("log2(a)", 1) == 0);
  CHECK(value("log2(a)", 1025) == 10);
}

TEST_CASE("what has no value is undefined, unless it is skipped") {
  CHECK(value("a / b", 1, 0) == kUndefined);
  CHECK(value("a % b", 1, 0) == kUndefined);
  CHECK(value("1 || a / b", 1, 0) == 1);
  CHECK(value("a / b || 1", 1, 0) == kUndefined);
  CHECK(value("b != 0 && a / b > 2", 9, 0) == 0);
  CHECK(value("b == 0 ? 5 : a / b", 9, 0) == 5);
  CHECK(value("!(a / b)", 1, 0) == kUndefined);
  CHECK(value("ceil_div(a, b)", 1, 0) == kUndefined);
  CHECK(value("log2(a)", 0) == kUndefined);
  CHECK(value("a * a", std::int64_t{1} << 40) == kUndefined);
  CHECK(value("a + b", std::numeric_limits<std::int64_t>::max(), 1) == kUndefined);
  CHECK(value("-a - b", std::numeric_limits<std::int64_t>::max(), 1) == kUndefined);
  CHECK(value("a / b", -std::numeric_limits<std::int64_t>::max(), -1) == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("what an expression can be within ranges holds all that it is there, no value included") {
  for (const char* text : {"a > b ? a / (b - 2) : a", "a > b ? a : a % (b - 2)", "a > 2 ? b : a", "a && b / a > 1",
                           "a || 6 / b", "min(a, b) * 3 - a", "ceil_div(a, b + 1)", "!(a / b)", "a == b ? 7 : a - b"}) {
    CAPTURE(text);
    Vocabulary names = vocabulary();
    const std::vector<Binding> bindings(names.size());
    const Program program = Expression::parse(text, "test", names).compile(names, bindings);
    for (std::int64_t low = 0; low < 5; ++low) {
      for (std::int64_t high = low; high < 5; ++high) {
        const ValueRange slots[] = {{low, high}, {0, 4}, {0, 1}};
        const ValueRange range = run_within(program, slots);
        for (std::int64_t a = low; a <= high; ++a) {
          for (std::int64_t b = 0; b < 5; ++b) {
            const std::int64_t values[] = {a, b, 0};
            const std::int64_t value_here = program.run(values);
            const bool is_held =
                value_here == kUndefined ? range.undefined : range.low <= value_here && value_here <= range.high;
            CHECK(is_held);
          }
        }
      }
    }
  }
}

TEST_CASE("names compare with names") {
  CHECK(value("loader == 'tma'", 0, 0, "tma") == 1);
  CHECK(value("loader != 'tma'", 0, 0, "tma") == 0);
  CHECK(value("'plain' == loader", 0, 0, "plain") == 1);
  CHECK(value("loader == 'tma' ? a : b", 3, 4, "plain") == 4);
}

TEST_CASE("known names are folded away, and with them the variables they switch off") {
  Vocabulary names = vocabulary();
  const Expression expression = Expression::parse("problem.x > 4 || a * problem.x == b", "test", names);
  std::vector<Binding> bindings(names.size());
  bindings[*names.find("problem.x")] = {true, false, 5};
  CHECK(expression.compile(names, bindings).is_constant());
  bindings[*names.find("problem.x")] = {true, false, 3};
  CHECK(expression.compile(names, bindings).loads() == std::vector<Slot>{0, 1});
}

TEST_CASE("errors give the column and what would be right") {
  CHECK(expression_error("a + lodaer") == error_at("a + lodaer", "unknown name 'lodaer'; did you mean 'loader'?", 5));
  CHECK(expression_error("a +") == error_at("a +", "the expression ends where a value is expected", 4));
  CHECK(expression_error("  ") == error_at("  ", "the expression is empty", 3));
  CHECK(expression_error("a = 1") == error_at("a = 1", "'=' assigns nothing here; compare with '=='", 3));
  CHECK(expression_error("1 < a < 3") == error_at("1 < a < 3", "comparisons do not chain; write 'a < b && b < c'", 7));
  CHECK(expression_error("(a") == error_at("(a", "expected ')', found the end", 3));
  CHECK(expression_error("a ? b") == error_at("a ? b", "expected ':', found the end", 6));
  CHECK(expression_error("a b") == error_at("a b", "unexpected 'b'", 3));
  CHECK(expression_error("a & b") == error_at("a & b", "unexpected '&'", 3));
  CHECK(expression_error("1.5") == error_at("1.5", "only whole decimal numbers are known here", 1));
  CHECK(expression_error("0x10") == error_at("0x10", "only whole decimal numbers are known here", 1));
  CHECK(expression_error("9223372036854775808") ==
        error_at("9223372036854775808", "the number does not fit 64 bits", 1));
  CHECK(expression_error("ceildiv(a, b)").find("did you mean 'ceil_div'?") != std::string::npos);
  CHECK(expression_error("min(a)") == error_at("min(a)", "min takes 2 or more arguments, not 1", 1));
  CHECK(expression_error("log2(a, b)") == error_at("log2(a, b)", "log2 takes 1 arguments, not 2", 1));
  CHECK(expression_error("gpu.sms > 1").find("unknown name 'gpu.'; known: problem., device.") != std::string::npos);
  CHECK(expression_error("problem. > 1") == error_at("problem. > 1", "'problem.' is not problem.NAME", 1));
}

TEST_CASE("names are kept out of arithmetic and out of domains they do not belong to") {
  CHECK(expression_error("loader + 1") ==
        error_at("loader + 1", "'loader' is a name: names compare with == and != only", 1));
  CHECK(expression_error("'tma'") == error_at("'tma'", "'tma' is a name: names compare with == and != only", 1));
  CHECK(expression_error("loader") == error_at("loader", "'loader' is a name: names compare with == and != only", 1));
  CHECK(expression_error("a == 'tma'") == error_at("a == 'tma'", "'tma' is a name and 'a' is a number", 3));
  CHECK(expression_error("loader == 1") ==
        error_at("loader == 1", "'loader' is a name and the other side is a number", 8));
  CHECK(expression_error("loader == 'tna'") ==
        error_at("loader == 'tna'", "unknown value of loader 'tna'; did you mean 'tma'?", 11));
  CHECK(expression_error("loader < 'tma'").find("names compare with == and != only") != std::string::npos);
  CHECK(expression_error("loader == 'tma") == error_at("loader == 'tma", "the quoted name has no closing quote", 11));
  CHECK(expression_error("loader == ''") == error_at("loader == ''", "the quoted name is empty", 11));
  CHECK(expression_error("problem.dtype == 'anything'").empty());
}

TEST_CASE("the type of an environment's name is checked once it is known") {
  Vocabulary names = vocabulary();
  const Expression sum = Expression::parse("problem.x + 1", "test", names);
  std::vector<Binding> bindings(names.size());
  bindings[*names.find("problem.x")] = {true, true, 0};
  CHECK_THROWS_WITH_AS(sum.compile(names, bindings),
                       "test: 'problem.x' is a name: names compare with == and != only (column 1 of \"problem.x + 1\")",
                       BadInput);
}

TEST_CASE("hostile nesting and length are refused, long flat expressions are not") {
  CHECK(expression_error(std::string(3000, '(') + "a").find("nested more than 64 deep") != std::string::npos);
  CHECK(expression_error(std::string(3000, '!') + "a").find("nested more than 64 deep") != std::string::npos);
  CHECK(expression_error(std::string(5000, ' ') + "a").find("longer than 4096 characters") != std::string::npos);
  std::string sum = "a";
  for (int i = 0; i < 2000; ++i) sum += "+a";
  CHECK(value(sum, 1) == 2001);
  std::string nested = "a";
  for (int i = 0; i < 31; ++i) nested = "1 + 2 * max(3, " + nested + ")";
  CHECK(value(nested, 1) > 0);
}
