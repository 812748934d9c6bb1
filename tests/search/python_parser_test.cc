#include "search/python_parser.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "search/space.h"
#include "tests/refusal.h"
#include "tests/search/computed.h"

namespace moetune::python_parser_test {
namespace {

Vocabulary vocabulary() {
  const auto integers = [](std::string name) {
    return Parameter{std::move(name), {Value::integer(1), Value::integer(2)}, ""};
  };
  Vocabulary names;
  names.set_syntax(Syntax::python);
  names.add_parameter(integers("a"));
  names.add_parameter(integers("b"));
  names.add_parameter({"loader", {Value::named("plain", 0), Value::named("tma", 1)}, ""});
  return names;
}

std::int64_t value(const std::string& text, std::int64_t a = 0, std::int64_t b = 0, const std::string& loader = "tma") {
  Vocabulary names = vocabulary();
  names.intern(loader);
  const Expression expression = Expression::parse(text, "test", names);
  return testing::computed(expression, names, {a, b, *names.interned(loader)});
}

std::string error_of(const std::string& text) {
  Vocabulary names = vocabulary();
  return refusal_of([&] { Expression::parse(text, "x.json: constraints[0].expr", names); });
}

bool is_refused(const std::string& text, const std::string& what) {
  const std::string said = error_of(text);
  CAPTURE(said);
  return said.find(what) != std::string::npos && said.find("(column ") != std::string::npos;
}

std::string listed(const std::string& text, const std::vector<PythonName>& names = {}) {
  std::string all;
  for (const auto& one : python_list(text, "x.json", names))
    all += (all.empty() ? "" : " ") + (one.index() == 0 ? std::to_string(std::get<0>(one)) : std::get<1>(one));
  return all;
}

}  // namespace

TEST_CASE("Python: operators bind and compute as they do there") {
  CHECK(value("2 + 3 * 4 ** 2") == 50);
  CHECK(value("-2 ** 2") == -4);
  CHECK(value("2 ** 3 ** 2") == 512);
  CHECK(value("7 // 2 + 7 % 4 - -1") == 7);
  CHECK(value("a // b", -7, 2) == -4);
  CHECK(value("a % b", -7, 2) == 1);
  CHECK(value("a % b", 7, -2) == -1);
  CHECK(value("a // b", 7, -1) == -7);
  CHECK(value("a // b", 1, 0) == kUndefined);
  CHECK(value("not a == 1 or b == 2 and a == 3", 3, 2) == 1);
  CHECK(value("not a == 1 or b == 2 and a == 3", 1, 2) == 0);
  CHECK(value("1 < a <= b != 5", 2, 3) == 1);
  CHECK(value("1 < a <= b != 5", 2, 5) == 0);
  CHECK(value("10 if a > b else 20", 1, 2) == 20);
  CHECK(value("1 if a else 2 if b else 3", 0, 0) == 3);
  CHECK(value("a in [1, 2, 4] and b not in (3, 5)", 4, 4) == 1);
  CHECK(value("a in [1, 2, 4] and b not in (3, 5)", 3, 4) == 0);
  CHECK(value("loader == \"tma\" and loader != 'plain'") == 1);
  CHECK(value("loader in ['plain']", 0, 0, "tma") == 0);
  CHECK(value("True and not False") == 1);
  CHECK(value("a == 0 or 4 % a == 0", 0) == 1);
}

TEST_CASE("Python: a quotient is exact, and has a value as a number only if it is whole") {
  CHECK(value("32 % (a / b) == 0", 5, 2) == 0);  // 32 % 2.5 == 2.0
  CHECK(value("30 % (a / b) == 0", 5, 2) == 1);
  CHECK(value("a / b == 2.5", 5, 2) == 1);
  CHECK(value("a / b > 2 and a / b < 3", 5, 2) == 1);
  CHECK(value("a / b * b == a", 5, 3) == 1);
  CHECK(value("a / b + a / b == 5", 5, 2) == 1);
  CHECK(value("(a - 1) / b - 0.5 * 2 == 1", 5, 2) == 1);
  CHECK(value("a / b", 6, 2) == 3);
  CHECK(value("a / b", 5, 2) == kUndefined);
  CHECK(value("a / b == 0", 5, 0) == kUndefined);
  CHECK(value("(a / b) // 2", 13, 3) == 2);
  CHECK(value("ceil(a / b) + math.floor(a / b) + int(a / b)", 7, 2) == 10);
  CHECK(value("max(a / b, 1) == 3.5", 7, 2) == 1);
  CHECK(value("abs(a - b)", 2, 7) == 5);
}

TEST_CASE("Python: functions over lists and comprehensions") {
  CHECK(value("max(a, b, 3) + min([a, b])", 7, 2) == 9);
  CHECK(value("all(a % i != 0 for i in range(2, 5))", 7) == 1);
  CHECK(value("all(a % i != 0 for i in range(2, 5))", 9) == 0);
  CHECK(value("any(any([a == i * j for j in (3, 5)]) for i in range(1, 3))", 10) == 1);
  CHECK(value("any(any([a == i * j for j in (3, 5)]) for i in range(1, 3))", 9) == 0);
  CHECK(value("sum(a * i for i in range(4) if i % 2 == 1)", 5) == 20);
  CHECK(value("len([i for i in range(10, 0, -3)])") == 4);
  CHECK(value("a == max(x for x in [3, 9, 4])", 9) == 1);
  CHECK(value("sum(sum(i * j for i in range(3)) for j in range(3))") == 9);
  CHECK(value("ceil_div(a, 4) + log2(b) + is_pow2(b)", 9, 8) == 7);
}

TEST_CASE("Python: lists of values") {
  CHECK(listed("[16, 32, 48]") == "16 32 48");
  CHECK(listed("[1, 2, 4] + list(range(32, 64+1, 32))") == "1 2 4 32 64");
  CHECK(listed("[2**i for i in range(0, 6)]") == "1 2 4 8 16 32");
  CHECK(listed("['float', \"double\"]") == "float double");
  CHECK(listed("(1, )") == "1");
  CHECK(listed("[max(size) * 2, len(size)] + size", {{"size", {7, 9}}}) == "18 2 7 9");
  CHECK(listed("[size[0] * size[1] // 2]", {{"size", {7, 9}}}) == "31");
  CHECK_THROWS_AS(python_list("[size[2]]", "x", {{"size", {7, 9}}}), BadInput);
  CHECK_THROWS_AS(python_list("[size[-1]]", "x", {{"size", {7, 9}}}), BadInput);
}

TEST_CASE("Python: what it is not is refused with its column") {
  CHECK(is_refused("a && b", "unexpected '&'"));
  CHECK(is_refused("a = b", "compare with '=='"));
  CHECK(is_refused("c < 1", "unknown name 'c'"));
  CHECK(is_refused("a ** b", "an exponent must be a constant"));
  CHECK(is_refused("open(1)", "unknown function 'open'"));
  CHECK(is_refused("range(a) == 1", "a range must be of constants"));
  CHECK(is_refused("1e3 < a", "without an exponent"));
  CHECK(is_refused("a < [1]", "a list stands where a number is expected"));
  CHECK(is_refused("a in b", "a number stands where a list is expected"));
  CHECK(is_refused("max([]) < a", "does not take 0 arguments"));
  CHECK(is_refused("all(a < i for i in range(3)", "expected ')'"));
  CHECK(is_refused("[a for a in [1]", "expected ']'"));
  CHECK(is_refused("loader + 1 == 2", "is a name"));
  CHECK(is_refused("range(1, 5, 0) == 1", "a step that is not 0"));
  CHECK_THROWS_AS(python_list("[a]", "x"), BadInput);
  CHECK_THROWS_AS(python_list("7", "x"), BadInput);
}

TEST_CASE("Python: an expression that would be too much work is refused") {
  CHECK(is_refused("all(a < i for i in range(60000))", "too much work"));
  CHECK(
      is_refused("sum(sum(sum(1 for i in range(999)) for j in range(999)) for k in range(999)) < a", "too much work"));
  CHECK(is_refused("sum(len(r) for r in [[i for i in range(9999)] for k in range(999)]) < a", "too much work"));
  std::string nested = "a";
  for (int i = 0; i < 60; ++i) nested = "abs(" + nested + ")";
  CHECK(is_refused(nested + " < 3", "too much work"));
  CHECK(is_refused(std::string(100, '(') + "a" + std::string(100, ')'), "nested more than 64 deep"));
  CHECK(is_refused(std::string(100, '-') + "a", "nested more than 64 deep"));
  CHECK(is_refused("range(70000) == 1", "more than 65536 elements"));
}

TEST_CASE("Python: a space file says that it is written so") {
  const auto count = [](const std::string& syntax, const std::string& rule) {
    const std::string text = R"({"kernel": "toy", )" + syntax +
                             R"("parameters": [{"name": "a", "values": [1, 2, 3, 4]},
                                               {"name": "b", "values": [1, 2, 3, 4]}],
                               "constraints": [{"expr": ")" +
                             rule + R"(", "why": "x"}], "defaults": [{"config": {"a": 1, "b": 1}}]})";
    return Space::parse(text, "toy.json").enumerate({}).size();
  };
  CHECK(count(R"("syntax": "python", )", "1 < a <= 3 and not b == 2") == 6);
  CHECK_THROWS_AS(count("", "1 < a <= 3 and not b == 2"), BadInput);
  CHECK_THROWS_AS(count(R"("syntax": "ruby", )", "a < b"), BadInput);
}

}  // namespace moetune::python_parser_test
