// Whether the output is valid by the schema that others publish is tested by t4_schema_test.py, where pip can bring it.
#include "report/t4.h"

#include <doctest/doctest.h>

#include "tests/report/reported_cache.h"

using namespace moetune;
using moetune::testing::decode_key;

TEST_CASE("a T4 file has every trial with its configuration, times and validity") {
  const std::vector<TrialRecord> trials = {
      {.config = "tile=64,loader=tma",
       .outcome = "ok",
       .time_us = 2500,
       .interval_low_us = 2400,
       .interval_high_us = 2600,
       .facts = R"({"compile_s":0.5,"validate_s":0.25,"measure_s":0.125,"samples_us":[2450,2550]})"},
      {.config = "tile=32,loader=tma", .outcome = "too_slow", .time_us = 9000, .facts = "broken"},
      {.config = "tile=16,loader=tma", .outcome = "compile_failed"},
      {.config = "tile=8,loader=tma", .outcome = "pruned"},
      {.config = "tile=4,loader=tma", .outcome = "wrong_result"},
      {.config = "tile=2,loader=tma", .outcome = "timed_out"},
      {.config = "tile=1,loader=tma", .outcome = "crashed"},
      {.config = "rubbish", .outcome = "ok", .time_us = 1},
      {.config = "tile=0,loader=tma", .outcome = "of another version"}};
  const Document document = t4_document(decode_key(), trials);
  CHECK(document["schema_version"] == "1.0.0");
  CHECK(document["metadata"]["device"] == "NVIDIA H200");
  CHECK(document["metadata"]["timeunit"] == "milliseconds");
  CHECK(document["metadata"]["kernel"] == "decode_kernel");
  const Document& results = document["results"];
  REQUIRE(results.size() == 8);
  const Document& first = results[0];
  CHECK(first["configuration"] == Document({{"tile", 64}, {"loader", "tma"}}));
  CHECK(first["times"]["compilation_time"] == 500);
  CHECK(first["times"]["validation"] == 250);
  CHECK(first["times"]["framework"] == 125);
  CHECK(first["times"]["runtimes"].size() == 2);
  CHECK(first["times"]["runtimes"][1].get<double>() == doctest::Approx(2.55));
  CHECK(first["measurements"][0]["name"] == "time");
  CHECK(first["measurements"][0]["value"] == 2.5);
  CHECK(first["measurements"][0]["unit"] == "ms");
  CHECK(first["objectives"] == Document::array({"time"}));
  const char* expected[] = {"correct",     "correct", "compile", "constraints",
                            "correctness", "timeout", "runtime", "runtime"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    CHECK(results[i]["invalidity"] == expected[i]);
    CHECK(results[i]["correctness"] == (i < 2 ? 1 : 0));
    CHECK(results[i]["measurements"].empty() == (i >= 2));
    for (const char* field : {"configuration", "times", "invalidity", "correctness"}) CHECK(results[i].contains(field));
  }
  CHECK(results[1]["times"]["runtimes"] == Document::array({9.0}));
}

TEST_CASE("a T4 file's name holds nothing of a path") {
  CHECK(t4_file_name({.id = 12, .key = decode_key()}) == "decode_kernel-12.t4.json");
  WorkloadKey key = decode_key();
  key.kernel = "../../etc/passwd\n";
  CHECK(t4_file_name({.id = 3, .key = key}) == "______etc_passwd_-3.t4.json");
}
