#include "cli/text.h"

#include <doctest/doctest.h>

#include "tests/cli/tool.h"

using namespace moetune;
using moetune::testing::contains;

TEST_CASE("times take the unit that reads best, and no time is a dash") {
  CHECK(time_text(9.214) == "9.21 µs");
  CHECK(time_text(474.94) == "474.9 µs");
  CHECK(time_text(1240) == "1.24 ms");
  CHECK(time_text(2.5e6) == "2.50 s");
  CHECK(time_text(0) == "-");
  CHECK(time_text(-1) == "-");
}

TEST_CASE("counts carry separators until they are astronomical") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1000) == "1,000");
  CHECK(count_text(12345678) == "12,345,678");
  CHECK(count_text(2.4e19) == "2.4e+19");
}

TEST_CASE("rates, sizes and durations") {
  CHECK(rate_text({4.52, Unit::tb_s}) == "4.52 TB/s");
  CHECK(rate_text({0.0123, Unit::tb_s}) == "12.3 GB/s");
  CHECK(rate_text({701.24, Unit::tflop_s}) == "701.2 TFLOP/s");
  CHECK(rate_text({0, Unit::tflop_s}) == "-");
  CHECK(ceiling_text(kCeilingFigures[0], 4.5) == "4.50 TB/s");
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(3.0 * 1024 * 1024 * 1024) == "3.0 GiB");
  CHECK(duration_text(8) == "0:08");
  CHECK(duration_text(3731) == "1:02:11");
  CHECK(percent_text(0.896) == "89.6%");
}

TEST_CASE("tables align columns by what is seen, not by bytes") {
  Table table({"name", "time"}, {1});
  table.add({"a", "9.21 µs"});
  table.add({"longer", "1.24 ms"});
  table.add({"ü", "-"});
  CHECK(table.text() ==
        "name       time\n"
        "a       9.21 µs\n"
        "longer  1.24 ms\n"
        "ü             -\n");
}

TEST_CASE("a line is cut to the terminal without splitting a character") {
  CHECK(fit("short", 10) == "short");
  CHECK(fit("12345678901", 10) == "123456789…");
  CHECK(fit("µµµµµ", 3) == "µµ…");
  CHECK(display_width(fit("µµµµµ", 3)) == 3);
}

TEST_CASE("a table that is wider than the screen breaks its widest cells behind commas, and loses nothing") {
  Table table({"kernel", "problem", "time"}, {2});
  table.add({"saxpy", "batch=64,q_heads=64,kv_heads=8,context=8192", "9.21 µs"});
  CHECK(table.text() ==
        "kernel  problem                                         time\n"
        "saxpy   batch=64,q_heads=64,kv_heads=8,context=8192  9.21 µs\n");
  CHECK(table.text("", 44) ==
        "kernel  problem                         time\n"
        "saxpy   batch=64,q_heads=64,         9.21 µs\n"
        "        kv_heads=8,context=8192\n");
}

TEST_CASE("columns give way one by one, until no word is broken") {
  Table table({"key", "compiler", "problem"}, {0});
  table.add({"1", "nvrtc 13.0.88", "batch=64,context=8192"});
  Table narrow = table;
  narrow.give_way({"compiler"}, "", 26);
  CHECK(narrow.text("", 26) == "key  problem\n  1  batch=64,context=8192\n");
  table.give_way({"compiler"}, "", 80);
  CHECK(contains(table.text("", 80), "compiler"));
}

TEST_CASE("prose has no line ends of its own") {
  CHECK(prose("one two\nthree four\n", 9) == "one two\nthree\nfour\n");
  CHECK(prose("", 9).empty());
  CHECK(prose("one\ntwo\n", 0) == "one two\n");
}

TEST_CASE("text is broken behind commas and spaces, and within a word that is too long") {
  using Pieces = std::vector<std::string>;
  CHECK(wrapped("", 5) == Pieces{""});
  CHECK(wrapped("one two", 7) == Pieces{"one two"});
  CHECK(wrapped("one two", 6) == Pieces{"one", "two"});
  CHECK(wrapped("a=1,b=2", 4) == Pieces{"a=1,", "b=2"});
  CHECK(wrapped("abcdefg", 3) == Pieces{"abc", "def", "g"});
  CHECK(wrapped("µµµµ", 3) == Pieces{"µµµ", "µ"});
  // No line begins with the space at which it was broken.
  CHECK(wrapped("abc def", 3) == Pieces{"abc", "def"});
  CHECK(wrapped("counts, offsets", 7) == Pieces{"counts,", "offsets"});
  CHECK(wrapped("ab  cd", 3) == Pieces{"ab", "cd"});
  CHECK(wrapped("abc   ", 3) == Pieces{"abc"});
}

TEST_CASE("a word that is too long is broken where its parts end") {
  using Pieces = std::vector<std::string>;
  CHECK(wrapped("decode_attention", 14) == Pieces{"decode_", "attention"});
  CHECK(wrapped("context=65536,", 13) == Pieces{"context=", "65536,"});  // no comma stands alone
  CHECK(wrapped("a,gpt-oss-20b-window", 12) == Pieces{"a,", "gpt-oss-20b-", "window"});
  CHECK(wrapped("2026-11-25T13:02:46Z", 15) == Pieces{"2026-11-25T13:", "02:46Z"});

  Table table({"kernel", "stored"});
  table.add({"decode_attention", "2026-11-25T13:02:46Z"});
  CHECK_FALSE(table.breaks_words("", 0));
  CHECK_FALSE(table.breaks_words("", 38));
  CHECK(table.breaks_words("", 37));
  CHECK(table.breaks_words("  ", 39));
  CHECK(table.breaks_words("", 1));
  CHECK(table.text("", 34) ==
        "kernel            stored\n"
        "decode_attention  2026-11-25T13:\n"
        "                  02:46Z\n");
}
