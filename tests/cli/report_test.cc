// `moetune report` and `moetune compare` as a user runs them. What a report is made of is tested in tests/report, and
// its page in a browser by tests/report/page_test.py.
#include <sys/stat.h>

#include "cache/cache.h"
#include "jobs/session/kernel_files.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

const std::string kReported =
    "loader=bulk,vector_bytes=16,tile_kib=32,stages=4,warps=8,producers=1,blocks_per_sm=1,l2=normal";

// A cache with one winner of `time_us`.
std::string write_cache(const Tool& tool, const std::string& name, double time_us,
                        const std::string& gpu = "NVIDIA H200") {
  const std::string path = tool.path(name).string();
  auto cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
  const std::int64_t id = cache.workloads.id({.kernel = "decode_kernel",
                                              .problem = "elements=1048576,dtype=f32,write=none,passes=1",
                                              .hardware = {.name = gpu, .compute_capability = 90, .sm_count = 132},
                                              .source_digest = moetune::kernel_source_digest("decode_kernel"),
                                              .toolchain = "nvrtc 13.0.88"});
  cache.trials.put(id, {.config = kReported, .outcome = "ok", .time_us = time_us, .facts = "{}", .provenance = "{}"});
  moetune::WinnerRecord winner;
  winner.config = kReported;
  winner.plan = "{}";
  winner.cubin = {1, 2, 3};
  winner.time_us = time_us;
  winner.interval_low_us = 0.999 * time_us;
  winner.interval_high_us = 1.001 * time_us;
  winner.stored_at = "2001-02-03T04:05:06Z";
  winner.provenance = R"({"strategy":"auto","trials":24})";
  cache.winners.put(id, winner);
  return path;
}

std::size_t longest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  moetune ")) continue;  // a command to copy is never broken
    most =
        std::max<std::size_t>(most, std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  }
  return most;
}

}  // namespace

TEST_CASE("a report fits 80 columns in a pipe, other widths as COLUMNS says, and is whole with --wide") {
  Tool tool;
  const std::string path = write_cache(tool, "c.db", 100);
  const Ended piped = tool.run({"report", "--cache", path});
  CHECK(longest(piped.out) <= 80);
  CHECK(longest(piped.out) > 60);
  CHECK_FALSE(contains(piped.out, "\x1b["));
  for (const char* text : {"NVIDIA H200", "decode_kernel: 1 trial (1 ok)", "100.0 µs", "±0.1%", "auto 24", "stages=4"})
    CHECK(contains(piped.out, text));
  CHECK(contains(piped.out, "moetune devices --calibrate"));
  tool.set_environment("COLUMNS", "60");
  CHECK(longest(tool.run({"report", "--cache", path}).out) <= 60);
  CHECK(contains(tool.run({"report", "--cache", path, "--wide"}).out, kReported));
}

TEST_CASE("a narrow report keeps problems whole, and leaves out columns that say nothing") {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  {
    auto cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
    const std::int64_t id =
        cache.workloads.id({.kernel = "decode_kernel",
                            .problem = "elements=16777216,dtype=f32,write=none,passes=1",
                            .hardware = {.name = "NVIDIA H200", .compute_capability = 90, .sm_count = 132},
                            .source_digest = moetune::kernel_source_digest("decode_kernel"),
                            .toolchain = "nvrtc 13.0.88"});
    cache.trials.put(id, {.config = kReported, .outcome = "too_slow", .facts = "{}", .provenance = "{}"});
    moetune::WinnerRecord winner;
    winner.plan = "{}";
    winner.cubin = {1, 2, 3};
    winner.stored_at = "2001-02-03T04:05:06Z";
    winner.provenance = R"({"strategy":"auto","trials":24})";
    winner.contended = true;
    for (const double time_us : {120.0, 100.0}) {
      winner.config = kReported + (time_us > 100 ? ",pad=1" : "");
      winner.time_us = time_us;
      winner.default_time_us = 150;
      winner.interval_low_us = 0.9999 * time_us;
      winner.interval_high_us = 1.0001 * time_us;
      cache.winners.put(id, winner);
    }
  }
  const std::string narrow = tool.run({"report", "--cache", path}).out;
  CAPTURE(narrow);
  CHECK(longest(narrow) <= 80);
  // Without the roofline, which is unknown, and the search, for which there is no room.
  CHECK(contains(narrow, "  1.50×   1.20×  "));
  CHECK(contains(narrow, " elements=16777216\n"));
  CHECK_FALSE(contains(narrow, "auto 24  contended"));
  for (const char* text : {"±0.01%", "1 too slow", "search     auto 24"}) CHECK(contains(narrow, text));
  tool.set_environment("COLUMNS", "120");
  const std::string wide = tool.run({"report", "--cache", path}).out;
  CHECK(contains(wide, "auto 24  contended"));
}

TEST_CASE("report writes the page, the CSV and T4 files, and says where") {
  Tool tool;
  const std::string path = write_cache(tool, "c.db", 100);
  const std::string html = tool.path("out.html").string(), csv = tool.path("out.csv").string(),
                    t4 = tool.path("t4/deep").string();
  const Ended ended = tool.run({"report", "--cache", path, "--html", html, "--csv", csv, "--t4", t4, "--json"});
  CHECK(ended.code == 0);
  const Json report = document(ended);
  CHECK(report["html"] == html);
  CHECK(report["workloads"][0]["provenance"]["trials"] == 24);
  CHECK(report["next"][0]["command"] == "moetune devices --calibrate");
  CHECK(read_text(html).starts_with("<!doctype html>"));
  CHECK(contains(read_text(csv), "\r\n1,decode_kernel,"));
  CHECK(Json::parse(read_text(t4 + "/decode_kernel-1.t4.json"))["results"].size() == 1);
  CHECK(contains(tool.run({"report", "--cache", path, "--csv", csv}).out, csv + ": 1 workload"));
  // Templates and spaces from a folder: the page is built in all the same.
  tool.set_environment("MOETUNE_DATA_DIR", tool.copy_data().string());
  CHECK(tool.run({"report", "--cache", path, "--html", html}).code == 0);
}

TEST_CASE("a page that cannot be written leaves what was there, with one sentence") {
  Tool tool;
  const std::string path = write_cache(tool, "c.db", 100);
  const Ended missing = tool.run({"report", "--cache", path, "--html", tool.path("none/out.html").string()});
  CHECK(missing.code == 3);
  CHECK(contains(missing.err, "out.html"));
  for (const char* option : {"--html", "--csv", "--t4"}) {
    const Ended empty = tool.run({"report", "--cache", path, option, ""});
    CHECK(empty.code == 2);
    CHECK(contains(empty.err, option));
  }
  tool.write("file", "mine");
  CHECK(tool.run({"report", "--cache", path, "--t4", tool.path("file").string()}).code == 3);
  CHECK(read_text(tool.path("file")) == "mine");
}

TEST_CASE("compare says what is significantly faster, slower and the same") {
  Tool tool;
  const std::string a = write_cache(tool, "a.db", 100), slower = write_cache(tool, "slower.db", 104),
                    same = write_cache(tool, "same.db", 100.1),
                    other = write_cache(tool, "other.db", 80, "NVIDIA H100");
  const Json worse = document(tool.run({"compare", a, slower, "--json"}));
  CHECK(worse["slower"] == 1);
  CHECK(worse["pairs"][0]["verdict"] == "slower");
  CHECK(worse["pairs"][0]["p"].get<double>() < 0.001);
  CHECK(tool.run({"compare", a, slower}).code == 0);
  CHECK(tool.run({"compare", a, slower, "--exit-code"}).code == 4);
  CHECK(tool.run({"compare", slower, a, "--exit-code"}).code == 0);
  CHECK(contains(tool.run({"compare", slower, a}).out, "faster"));
  CHECK(document(tool.run({"compare", a, same, "--json"}))["same"] == 1);
  CHECK_FALSE(contains(tool.run({"compare", a, same, "--significant"}).out, "decode_kernel"));
  CHECK(document(tool.run({"compare", a, other, "--json"}))["faster"] == 1);  // no GPU in common
  CHECK(document(tool.run({"compare", "2001-02-02", "2001-02-03", "--cache", a, "--json"}))["only_b"].size() == 1);
  CHECK(document(tool.run({"compare", "key:1", "key:1", "--cache", a, "--json"}))["same"] == 1);
}

TEST_CASE("compare refuses what it cannot compare in one sentence") {
  Tool tool;
  const std::string a = write_cache(tool, "a.db", 100);
  const auto refused = [&](const std::string& b, const std::string& says) {
    const Ended ended = tool.run({"compare", a, b, "--cache", a});
    CAPTURE(ended.err);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, says));
  };
  refused("no-such.db", "there is no file no-such.db; a side is a cache or pack");
  refused("2001-02-30", "is no date");
  refused("key:7", "there is no workload 7");
  refused("key:seven", "is no key");
  refused("gpu:B200", "the cache has NVIDIA H200");
  refused("", "nothing to compare");
  CHECK(tool.run({"compare", a}).code == 2);
  CHECK(contains(tool.run({"compare", "key:1", "key:2"}).err, "nothing is tuned yet"));
}
