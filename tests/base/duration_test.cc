#include "base/duration.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace moetune;

TEST_CASE("a span of time is a number of seconds, or parts with their units") {
  CHECK(parse_duration("90") == 90);
  CHECK(parse_duration("30s") == 30);
  CHECK(parse_duration("30m") == 1800);
  CHECK(parse_duration("1.5h") == 5400);
  CHECK(parse_duration("1h30m") == 5400);
  CHECK(parse_duration("1d2h3m4.5s") == 86400 + 7200 + 180 + 4.5);
  CHECK(parse_duration("366d") == kLongestSpan);
  for (const char* wrong : {"", "0", "0s", "-1s", "5x", "h", "nan", "inf", "1e99d", "2h30", "30m1h", "1h1h", "1h 30m",
                            " 1h", "1h-5m", "0x10", "367d", "1e308h"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(parse_duration(wrong),
                         ("takes a span of time, such as 90, 30s, 5m or 1h30m, above 0 and at most a year, not '" +
                          std::string(wrong) + "'")
                             .c_str(),
                         BadInput);
  }
  CHECK(parse_duration("0", true) == 0);
}

TEST_CASE("a span is written as it is read") {
  CHECK(span_text(30) == "30s");
  CHECK(span_text(3600) == "1h");
  CHECK(span_text(5400) == "1h30m");
  CHECK(span_text(90061) == "1d1h1m1s");
  CHECK(span_text(0) == "0s");
  for (const double seconds : {1.0, 59.0, 61.0, 86399.0, 31536000.0})
    CHECK(parse_duration(span_text(seconds)) == seconds);
}
