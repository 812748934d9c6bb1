// Workloads with trials and no stored winner: of a search that was killed, or that compiled nothing.
#include "cache/cache.h"
#include "jobs/session/kernel_files.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

struct Timed {
  std::string config, outcome;
  double time_us;
};

std::string config_with(const std::string& stages) {
  return "loader=bulk,vector_bytes=16,tile_kib=32,stages=" + stages +
         ",warps=8,producers=1,blocks_per_sm=1,l2=evict_first";
}

const std::string kDefault = config_with("6");  // as its kernel.json has it for an H200

// What `report` makes of these trials.
Json report(const std::vector<Timed>& trials) {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  {
    auto cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
    const std::int64_t id =
        cache.workloads.id({.kernel = "decode_kernel",
                            .problem = "elements=1024,dtype=f32,write=all,passes=1",
                            .hardware = {.name = "NVIDIA H200", .compute_capability = 90, .sm_count = 132},
                            .source_digest = moetune::kernel_source_digest("decode_kernel"),
                            .toolchain = "nvrtc 13.0.88"});
    for (const Timed& t : trials) {
      cache.trials.put(id, {.config = t.config,
                            .outcome = t.outcome,
                            .time_us = t.time_us,
                            .interval_low_us = t.time_us,
                            .interval_high_us = t.time_us,
                            .facts = "{}",
                            .provenance = "{}"});
    }
  }
  return document(tool.run({"report", "--cache", path, "--json"}))["workloads"][0];
}

}  // namespace

TEST_CASE("a tie with the default goes to the default, and the speed-up is over it") {
  const Json tied = report({{kDefault, "ok", 100.2}, {config_with("2"), "ok", 100.0}});
  CHECK(tied["winner"] == false);
  CHECK(tied["config"] == kDefault);
  CHECK(tied["time_us"] == 100.2);
  CHECK(tied["default_time_us"] == 100.2);
  CHECK(tied["speedup"] == 1.0);

  const Json faster = report({{kDefault, "ok", 100.2}, {config_with("2"), "ok", 80.0}});
  CHECK(faster["config"] == config_with("2"));
  CHECK(faster["speedup"].get<double>() == doctest::Approx(100.2 / 80));
}

TEST_CASE("a tie without the default goes to the first in the order of the space, among the five that would meet") {
  const auto of_four_warps = [](const std::string& stages) {
    std::string config = config_with(stages);
    return config.replace(config.find("warps=8"), 7, "warps=4");
  };
  std::vector<Timed> close = {{of_four_warps("2"), "ok", 100.2}};
  for (const char* stages : {"8", "6", "4", "3"}) close.push_back({of_four_warps(stages), "ok", 100.0});
  CHECK(report(close)["config"] == of_four_warps("2"));
  close.push_back({config_with("3"), "ok", 100.0});  // the sixth: 100.2 is no finalist any more
  CHECK(report(close)["config"] == of_four_warps("3"));
}

TEST_CASE("a default that failed is no default time, one too slow to finish is") {
  CHECK(report({{kDefault, "wrong_result", 0}, {config_with("2"), "ok", 80}})["default_time_us"].is_null());
  const Json slow = report({{kDefault, "too_slow", 400}, {config_with("2"), "ok", 80}});
  CHECK(slow["config"] == config_with("2"));
  CHECK(slow["speedup"] == 5.0);
  CHECK(report({{kDefault, "too_slow", 400}})["config"].is_null());
}

TEST_CASE("of a space that moetune does not know the fastest is the best, without a default") {
  for (const std::string& config : {std::string("stagse=2"), std::string("rubbish")}) {
    const Json strange = report({{kDefault, "ok", 100.2}, {config, "ok", 100.0}});
    CHECK(strange["config"] == config);
    CHECK(strange["default_time_us"].is_null());
  }
}

TEST_CASE("report and cache show say of a search that compiled nothing what its end said") {
  Tool tool;
  const Json found =
      document(tool.run({"search", "decode_attention", "--device", "replay:decode_attention_h200_b64_c8192",
                         "--no-compile", "--budget", "12", "--json"}));
  REQUIRE(found["default"]["time_us"].is_number());
  const Json shown = document(tool.run({"report", "--json"}))["workloads"][0];
  CHECK(shown["winner"] == false);
  CHECK(shown["config"] == found["best"]["config"]);
  CHECK(shown["time_us"] == found["best"]["time_us"]);
  CHECK(shown["default_time_us"] == found["default"]["time_us"]);
  CHECK(shown["speedup"] == found["speedup"]);
  const Ended text = tool.run({"cache", "show", shown["id"].dump()});
  CHECK(contains(text.out, "default"));
  CHECK(contains(text.out, "× as fast"));
}
