// Files of misses that are read, and the place that is named in those that are not.
#include "jobs/stored/misses.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

// What a file of `text` is refused for, from its line on; "" if it is read.
std::string refusal_of_misses(const std::string& text) {
  const TemporaryFolder folder;
  const std::string file = folder.file("m.json");
  std::ofstream(file) << text;
  try {
    read_misses(file);
  } catch (const BadInput& error) {
    CHECK(std::string(error.what()).starts_with(file));
    return std::string(error.what()).substr(file.size());
  }
  return "";
}

std::string miss(const std::string& members) {
  return "{\"moetune_misses\": 1,\n\"misses\": [\n{\"kernel\": \"a\", \"problem\": \"\", \"count\": 1},\n{" + members +
         "}]}";
}

}  // namespace

TEST_CASE("a damaged file of misses is refused with its line and key") {
  CHECK(refusal_of_misses(R"({"moetune_misses": 1, "hardware": "x", "misses": []})") == "");
  CHECK(refusal_of_misses("[1]") == ":1: the document must be an object (got [1])");
  CHECK(refusal_of_misses(R"({"moetune_misses": 1})") == ":1: the document lacks the key 'misses'");
  CHECK(refusal_of_misses(R"({"moetune_misses": 1.5, "misses": []})") == ":1: moetune_misses must be 1 (got 1.5)");
  CHECK(refusal_of_misses(R"({"moetune_misses": 2, "misses": []})") == ":1: moetune_misses must be 1 (got 2)");
  CHECK(refusal_of_misses(R"({"moetune_misses": 1, "misses": [1]})") == ":1: misses[0] must be an object (got 1)");
  CHECK(refusal_of_misses(miss(R"("kernel": 1, "problem": "x", "count": 1)")) ==
        ":4: misses[1].kernel must be a text (got 1)");
  CHECK(refusal_of_misses(miss(R"("kernel": "a", "count": 1)")) == ":4: misses[1] lacks the key 'problem'");
  CHECK(refusal_of_misses(miss(R"("kernel": "a", "problem": "x", "count": "3")")) ==
        ":4: misses[1].count must be a whole number of at least 0 (got \"3\")");
  CHECK(refusal_of_misses(R"({"moetune_misses": 1, "misses": [],
"misses": []})") == ": the key 'misses' occurs twice in one object, at line 2");
}

TEST_CASE("a damaged file of misses is never repeated at length") {
  const std::string text(100'000, 'a');
  CHECK(refusal_of_misses(miss(R"("kernel": "router", "problem": ")" + text + R"(", "count": 1)")) ==
        ":4: misses[1].problem is longer than 4096 bytes");
  for (const std::string& hostile : {"{\"" + text + "\": 1, \"" + text + "\": 2}", "[\"" + text, "[\"" + text + "\"]",
                                     "{\"moetune_misses\": 1, \"misses\": \"" + text + "\"}",
                                     "[1" + std::string(100'000, '0') + "]", miss("\"kernel\": [\"" + text + "\"]")}) {
    const std::string why = refusal_of_misses(hostile);
    CHECK_FALSE(why.empty());
    CHECK(why.size() < 500);
  }
}
