#include "base/utf8.h"

#include <doctest/doctest.h>

using moetune::is_utf8;
using moetune::to_utf8;

TEST_CASE("text in UTF-8 is told from other bytes") {
  for (const char* text : {"", "tile=64", "12 \xC2\xB5s", "\xE2\x80\xA6", "\xF0\x9F\x98\x80", "\xED\x9F\xBF"})
    CHECK(is_utf8(text));
  for (const char* text : {"\xB5s", "12 \xC2", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "\xE2\x80"})
    CHECK_FALSE(is_utf8(text));
  CHECK(is_utf8(std::string_view("a\0b", 3)));
}

TEST_CASE("bytes of no character are replaced one by one, and text is left alone") {
  CHECK(to_utf8("12 \xC2\xB5s") == "12 \xC2\xB5s");
  CHECK(to_utf8("a\xFF\xE2z") == "a\xEF\xBF\xBD\xEF\xBF\xBDz");
}

TEST_CASE("what a terminal would obey is shown, and letters are left alone") {
  CHECK(moetune::escape_controls("H200\x1b[2J\x1b]0;title\x07\r\x7f\xc2\x9b") ==
        "H200\\x1b[2J\\x1b]0;title\\x07\\x0d\\x7f\\x9b");
  CHECK(moetune::escape_controls("9.21 µs …\n\tÂ é 漢") == "9.21 µs …\n\tÂ é 漢");
}

TEST_CASE("bytes of no character and what turns or breaks lines are shown too, in names line ends as well") {
  using moetune::LineEnds;
  CHECK(moetune::escape_controls("a\x9b"
                                 "2Jb\xff") == "a\\x9b2Jb\\xff");  // a terminal without UTF-8 obeys 9b
  CHECK(moetune::escape_controls("evil\u202Egnp.\u2066\u2028") == "evil\\u202egnp.\\u2066\\u2028");
  CHECK(moetune::escape_controls("a\nb\tc\r", LineEnds::escaped) == "a\\x0ab\\x09c\\x0d");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const char c : moetune::escape_controls(all, LineEnds::escaped)) CHECK((c >= ' ' && c < 0x7F));
}

TEST_CASE("JSON stays the same document") {
  CHECK(moetune::escape_json_controls("{\n\"a\": \"\x7f\u009b\u202E µ\"}") == "{\n\"a\": \"\\u007f\\u009b\\u202e µ\"}");
}

TEST_CASE("a long text is cut between characters") {
  CHECK(moetune::shortened("abcdef", 6) == "abcdef");
  CHECK(moetune::shortened("abcdefg", 6) == "abc...");
  CHECK(moetune::shortened("ab\xC2\xB5xyz", 6) == "ab...");
  CHECK(moetune::shortened("abc\xE2\x80\xA6", 6) == "abc\xE2\x80\xA6");
  CHECK(moetune::shortened("abcd", 3) == "...");
}
