// What browsers make of the page is tested by page_test.py.
#include "report/page.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "tests/report/reported_cache.h"

using namespace moetune;
using moetune::testing::decode_config;
using moetune::testing::decode_key;
using moetune::testing::ReportedCache;

namespace {

constexpr const char* kHostile = "</script><img src=x onerror=alert(1)>&amp;<!--";

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

Report hostile_report(ReportedCache& made) {
  WorkloadKey key = decode_key();
  key.kernel = kHostile;
  key.problem = kHostile;
  key.hardware.name = kHostile;
  const std::int64_t id = made.add(key);
  made.trial(id, std::string("a=") + kHostile, 10);
  made.trial(id, "b=\xff\xfe", 12);
  return read_report(&made.cache(), {});
}

}  // namespace

TEST_CASE("names from the cache are data in the page, never markup") {
  ReportedCache made;
  const Report report = hostile_report(made);
  const std::string page = report_page(report);
  CHECK(count_of(page, "onerror") > 1);
  CHECK(count_of(page, "<img") == 0);
  CHECK(count_of(page, "</script>") == 3);  // of the data, the charts, the page's own
  const std::string data = page_data(report, {});
  CHECK(data.find_first_of("<>&") == std::string::npos);
  const nlohmann::json parsed = parse_json(data, "the page's data");
  CHECK(parsed["workloads"][0]["problem"] == kHostile);
  CHECK(parsed["kernels"][0]["name"] == kHostile);
}

TEST_CASE("a page is whole: no mark is left, nothing is loaded, and scripts need its own number") {
  ReportedCache made;
  const std::int64_t id = made.add(decode_key());
  made.winner(id, decode_config("4"), 90);
  const Report report = read_report(&made.cache(), {});
  const std::string page = report_page(report), again = report_page(report);
  for (const char* mark : {"@NONCE@", "@STYLE@", "@CHART@", "@SCRIPT@", "@DATA@"})
    CHECK(page.find(mark) == std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("<link") == std::string::npos);
  CHECK(page.find("default-src 'none'; script-src 'nonce-") != std::string::npos);
  CHECK(page.find("Chart.js v") != std::string::npos);  // with its licence's notice
  const auto nonce = [](const std::string& text) { return text.substr(text.find("'nonce-"), 40); };
  CHECK(nonce(page) != nonce(again));
}

TEST_CASE("trials are stored as letters for their values") {
  ReportedCache made;
  const std::int64_t id = made.add({.kernel = "k", .hardware = moetune::testing::h200()});
  for (int x = 0; x < 70; ++x) made.trial(id, "x=" + std::to_string(x) + ",y=1", 100 + x);
  const nlohmann::json data = parse_json(page_data(read_report(&made.cache(), {}), {}), "the page's data");
  const nlohmann::json& trials = data["workloads"][0]["trials"];
  REQUIRE(trials.size() == 70);
  CHECK(data["kernels"][0]["factors"][0][0] == "x");
  CHECK(trials[0][6] == "000");
  CHECK(trials[69][6] == "150");  // the 70th of 64 letters: 1 * 64 + 5
  CHECK(trials[69][1] == 169);
}

TEST_CASE("a range table says how many shapes without rows of their own were searched for it") {
  Report report;
  report.ranges.emplace_back().folded = 3;
  const nlohmann::json data = parse_json(page_data(report, {}), "the page's data");
  REQUIRE(data["ranges"].size() == 1);
  CHECK(data["ranges"][0]["folded"] == 3);
  CHECK(report_page(report).find("searched for this table alone") != std::string::npos);
}

TEST_CASE("a page of many workloads and trials stays within its size") {
  Report report;
  WorkloadKey key = decode_key();
  for (std::size_t i = 0; i < 20'000; ++i) {
    WorkloadReport& one = report.workloads.emplace_back();
    one.stored.workload.id = static_cast<std::int64_t>(i);
    key.problem = std::to_string(i);
    one.stored.workload.key = key;
    one.stored.best_us = 10;
    one.stored.best_config = std::string(1000, '<');
    for (std::size_t t = 0; t < 20; ++t)
      one.trials.shown.push_back({.number = t + 1, .config = "x=" + std::to_string(t), .outcome = "ok", .time_us = 10});
  }
  KernelSection kernel{.kernel = "decode_kernel"};
  for (std::size_t i = 0; i < report.workloads.size(); ++i) kernel.workloads.push_back(i);
  report.hardware.push_back({.hardware = moetune::testing::h200(), .kernels = {kernel}});
  const std::string page = report_page(report);
  CHECK(page.size() < std::size_t{5} << 20);
  CHECK(page.find("\"left_out\":") != std::string::npos);
}
