#include "base/digest.h"

#include <doctest/doctest.h>

using moetune::digest;
using moetune::DigestBuilder;

TEST_CASE("a digest is 32 hexadecimal digits and follows the content") {
  CHECK(digest("").size() == 32);
  CHECK(digest("a") == digest("a"));
  CHECK(digest("a") != digest("b"));
  CHECK(digest("a").find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("fields do not run into each other") {
  CHECK(DigestBuilder().add("ab").add("c").finish() != DigestBuilder().add("a").add("bc").finish());
  CHECK(DigestBuilder().add("").add("a").finish() != DigestBuilder().add("a").add("").finish());
}
