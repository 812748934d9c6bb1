#include "base/format.h"

#include <doctest/doctest.h>

using namespace moetune;

TEST_CASE("letters of ASCII become small ones, and no other byte changes") {
  CHECK(lower_case("Content-TYPE 1[]@Z") == "content-type 1[]@z");
  CHECK(lower_case("\xC3\x84\xFF") == "\xC3\x84\xFF");
  CHECK(lower_case("").empty());
}
