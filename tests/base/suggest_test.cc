#include "base/suggest.h"

#include <doctest/doctest.h>

using moetune::nearest_names;
using moetune::unknown_name;

TEST_CASE("the nearest names come first and far ones not at all") {
  const std::vector<std::string> names = {"decode_attention", "decode_kernel", "router"};
  CHECK(nearest_names("decode_atention", names) == std::vector<std::string>{"decode_attention"});
  CHECK(nearest_names("rooter", names) == std::vector<std::string>{"router"});
  CHECK(nearest_names("xyzzy", names).empty());
}

TEST_CASE("a prefix is near however much is missing") {
  CHECK(nearest_names("decode", {"decode_attention", "decode_kernel", "router"}).size() == 2);
}

TEST_CASE("an unknown name is one sentence with a way out") {
  CHECK(unknown_name("kernel", "rooter", {"router", "prefill"}) == "unknown kernel 'rooter'; did you mean 'router'?");
  CHECK(unknown_name("kernel", "zzzzzz", {"router", "prefill"}) == "unknown kernel 'zzzzzz'; known: router, prefill");
}
