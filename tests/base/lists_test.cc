#include "base/lists.h"

#include <doctest/doctest.h>

#include <map>

using namespace moetune;

namespace {
using Words = std::vector<std::string>;
}

TEST_CASE("a list's items are joined, each by its text") {
  CHECK(joined(Words{}).empty());
  CHECK(joined(Words{"a"}) == "a");
  CHECK(joined(Words{"", "b", "c"}, ";") == ";b;c");
  CHECK(joined(std::map<std::string, int>{{"a", 1}, {"b", 2}}, ",",
               [](const auto& one) { return one.first + std::to_string(one.second); }) == "a1,b2");
}

TEST_CASE("the last word of an enumeration stands behind its own separator") {
  CHECK(enumerated(Words{}, " or ").empty());
  CHECK(enumerated(Words{"a"}, " or ") == "a");
  CHECK(enumerated(Words{"a", "b"}, " and ") == "a and b");
  CHECK(enumerated(Words{"a", "b", "c"}, " or ") == "a, b or c");
}

TEST_CASE("a text is split into one part more than it has separators") {
  using Parts = std::vector<std::string_view>;
  CHECK(split("", ',') == Parts{""});
  CHECK(split("a", ',') == Parts{"a"});
  CHECK(split(",a,,b", ',') == Parts{"", "a", "", "b"});
  CHECK(split("a,", ',') == Parts{"a", ""});
}

TEST_CASE("a list is gathered of what each item gives") {
  const std::vector<std::pair<int, std::string>> pairs = {{1, "a"}, {2, "b"}};
  CHECK(gathered(pairs, &std::pair<int, std::string>::first) == std::vector{1, 2});
  CHECK(gathered<std::string>(Words{"ab"}, [](const std::string& word) { return std::string_view(word).substr(1); }) ==
        Words{"b"});
}
