#include "base/digest.h"

#include <doctest/doctest.h>

#include <string>

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

TEST_CASE("a digest of fields is that of their text, each behind its length") {
  DigestBuilder builder;
  std::string text;
  for (const std::size_t size : {0, 1, 9, 16, 200, 255, 256, 257, 1023, 1025, 5000, 70000}) {
    const std::string field(size, static_cast<char>('a' + size % 26));
    builder.add(field);
    text += std::to_string(size) + ":" + field;
    CHECK(builder.finish() == digest(text));
  }
}
