#include "ranges/range_table.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

using namespace moetune;

namespace {

RangeTable sample_table() {
  return {.ranges = "batch=1..4",
          .bound = 0.02,
          .kept = true,
          .cells = {{"batch=1", "tile=16", 10.1, 12, 10}, {"batch=4", "tile=32", 20, 0, 20}},
          .certificate = {12, 0.004, 0.03, 0.035, -0.01}};
}

}  // namespace

TEST_CASE("a table reads back as it was written") {
  const RangeTable table = sample_table();
  CHECK(RangeTable::parse(table.text(), "a table") == table);
  CHECK(table.worst_cell() == doctest::Approx(0.01));
}

TEST_CASE("a certificate holds the median, the 95th percentile and the worst") {
  std::vector<double> regrets;
  for (int i = 0; i <= 20; ++i) regrets.push_back(0.001 * (20 - i));
  const RangeCertificate seen = RangeCertificate::of(regrets, {-0.2, -0.1});
  CHECK(seen.shapes == 21);
  CHECK(seen.median == doctest::Approx(0.010));
  CHECK(seen.p95 == doctest::Approx(0.019));
  CHECK(seen.worst == doctest::Approx(0.020));
  CHECK(seen.worst_to_default == doctest::Approx(-0.1));
  CHECK(RangeCertificate::of({}, {}).shapes == 0);
}

TEST_CASE("a table that cannot be is refused") {
  const auto broken = [](const auto& change) {
    nlohmann::json document = nlohmann::json::parse(sample_table().text());
    change(document);
    return document.dump();
  };
  const std::vector<std::string> texts = {
      "",
      "[]",
      "{}",
      R"({"moetune_range":1})",
      broken([](auto& d) { d["moetune_range"] = 2; }),
      broken([](auto& d) { d["cells"][0]["time_us"] = 12.5; }),  // lost to the default
      broken([](auto& d) { d["cells"][0]["time_us"] = -1; }),
      broken([](auto& d) {
        d["cells"][0]["time_us"] = 1e308;
        d["cells"][0]["default_us"] = 1e308;
      }),
      broken([](auto& d) { d["cells"][0]["best_us"] = 1e-300; }),
      broken([](auto& d) { d["cells"][0]["default_us"] = 1e300; }),
      broken([](auto& d) { d["cells"][0]["time_us"] = nullptr; }),  // how a NaN is written
      broken([](auto& d) { d["bound"] = 1e308; }),
      broken([](auto& d) { d["bound"] = -0.02; }),
      broken([](auto& d) { d["bound"] = 0.001; }),  // which its cells do not keep
      broken([](auto& d) { d["ranges"] = "batch=4..1"; }),
      broken([](auto& d) { d["ranges"] = "batch"; }),
      broken([](auto& d) { d["certificate"]["shapes"] = -5; }),
      broken([](auto& d) { d["certificate"]["shapes"] = 18446744073709551615u; }),
      broken([](auto& d) { d["certificate"]["failed"] = -1; }),
      broken([](auto& d) { d["certificate"]["failed"] = 2.5; }),
      broken([](auto& d) { d["certificate"]["median"] = -5; }),
      broken([](auto& d) { d["certificate"]["worst"] = 1e308; }),
      broken([](auto& d) { d["certificate"]["worst"] = 0; }),  // below the 95th percentile
      broken([](auto& d) { d["certificate"]["p95"] = nullptr; }),
      broken([](auto& d) { d["certificate"]["worst_to_default"] = -1.5; }),
      broken([](auto& d) { d["cells"][0]["best_us"] = 0; }),
      broken([](auto& d) { d["cells"][0]["best_us"] = 11; }),  // faster than the best
      broken([](auto& d) { d["cells"][0]["default_us"] = -3; }),
      broken([](auto& d) { d["cells"][0]["problem"] = 3; }),
      broken([](auto& d) { d["cells"][0].erase("config"); }),
      broken([](auto& d) { d["cells"] = 7; }),
      broken([](auto& d) { d["bound"] = nullptr; }),
      broken([](auto& d) { d["certificate"]["median"] = "x"; }),
      broken([](auto& d) {
        const auto cell = d["cells"][0];
        for (std::size_t i = 0; i <= RangeTable::kMostCells; ++i) d["cells"].push_back(cell);
      })};
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 200));
    CHECK_THROWS_AS(RangeTable::parse(text, "a table"), BadInput);
  }
}
