// `moetune cache check` on real files, each with one record damaged by SQL.
#include "base/digest.h"
#include "cache/cache.h"
#include "cache/database.h"
#include "kernels/plan.h"
#include "tests/cli/tool.h"

using moetune::testing::contains;
using moetune::testing::document;
using moetune::testing::Ended;
using moetune::testing::Tool;
using Json = nlohmann::json;

namespace {

std::string plan_text() {
  moetune::Plan plan;
  plan.unit = {"templates/decode_kernel/decode_kernel.cu", {{"STAGES", "2"}}};
  plan.launches.push_back({.entry = "decode_kernel", .grid = {4, 1, 1}, .block = {128, 1, 1}});
  return Json(plan).dump();
}

// A file with one sound trial of every outcome with a time and one without, and a sound winner.
std::string write_cache(const Tool& tool) {
  const std::string path = tool.path("c.db").string();
  std::filesystem::remove(path);
  auto cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
  const std::int64_t id = cache.workload({.kernel = "decode_kernel",
                                          .problem = "elements=1024",
                                          .hardware = {.name = "Test GPU", .compute_capability = 90},
                                          .source_digest = "abc",
                                          .toolchain = "nvrtc 13.0.88"});
  moetune::TrialRecord trial{.config = "stages=2,loader=bulk",
                             .outcome = "ok",
                             .time_us = 12,
                             .interval_low_us = 11,
                             .interval_high_us = 13,
                             .samples = 7,
                             .facts = "{}",
                             .provenance = "{}"};
  cache.put_trial(id, trial);
  trial.config = "stages=3,loader=bulk";
  trial.outcome = "too_slow";
  cache.put_trial(id, trial);
  cache.put_trial(id, {.config = "stages=4,loader=bulk",
                       .outcome = "crashed",
                       .message = "signal 11",
                       .facts = "{}",
                       .provenance = "{}"});
  cache.put_winner(id, {.config = "stages=2,loader=bulk",
                        .time_us = 12,
                        .interval_low_us = 11,
                        .interval_high_us = 13,
                        .plan = plan_text(),
                        .cubin = {1, 2, 3},
                        .provenance = "{}"});
  return path;
}

void sql(const std::string& path, const std::string& statement) {
  moetune::Database(path, moetune::Database::Access::read_write, std::chrono::seconds(5)).execute(statement);
}

// The digest that a winner with these texts would have: damage that the digest itself covers.
std::string digest_of(const std::string& config, const std::string& plan) {
  const moetune::Blob cubin = {1, 2, 3};
  return moetune::DigestBuilder().add(config).add(plan).add(moetune::digest(cubin)).finish();
}

const std::string kTrial = "trial 1 of workload 1 (decode_kernel elements=1024)";
const std::string kWinner = "winner 1 (decode_kernel elements=1024)";

struct Damage {
  std::string sql, where, what;
};

std::vector<Damage> damages() {
  const std::string config = "stages=2,loader=bulk", torn = plan_text().substr(1);
  return {
      {"UPDATE trials SET outcome = 'melted' WHERE id = 1", kTrial, "its outcome 'melted' is unknown"},
      {"UPDATE trials SET time_us = 0 WHERE id = 1", kTrial, "it is ok but took 0 µs"},
      {"UPDATE trials SET time_us = -3 WHERE id = 1", kTrial, "it is ok but took -3 µs"},
      {"UPDATE trials SET time_us = 9e999 WHERE id = 1", kTrial, "it is ok but took inf µs"},
      {"UPDATE trials SET outcome = 'too_slow', time_us = 0 WHERE id = 1", kTrial,
       "it is too_slow but took 0 µs"},
      {"UPDATE trials SET interval_low_us = 20 WHERE id = 1", kTrial, "its interval is 20 to 13 µs"},
      {"UPDATE trials SET samples = -1 WHERE id = 1", kTrial, "it has -1 samples"},
      {"UPDATE trials SET config = 'stages=2,loader' WHERE id = 1", kTrial,
       "its configuration: 'loader' is not name=value"},
      {"UPDATE trials SET config = '' WHERE id = 1", kTrial, "its configuration is empty"},
      {"UPDATE trials SET facts = '{' WHERE id = 1", kTrial, "its facts cannot be read as JSON"},
      {"UPDATE trials SET provenance = '7' WHERE id = 1", kTrial, "its provenance cannot be read as JSON"},
      {"UPDATE trials SET workload = 9 WHERE id = 1", "trials 1", "belongs to a missing row of workloads"},
      {"UPDATE winners SET cubin = x'00'", kWinner, "does not match its digest"},
      {"UPDATE winners SET cubin_bytes = 2", kWinner, "does not match its digest"},
      {"UPDATE winners SET time_us = 0", kWinner, "it took 0 µs"},
      {"UPDATE winners SET default_time_us = -1", kWinner, "the default beside it took -1 µs"},
      {"UPDATE winners SET roofline = 9e999", kWinner, "its roofline fraction is inf"},
      {"UPDATE winners SET interval_high_us = 1", kWinner, "its interval is 11 to 1 µs"},
      {"UPDATE winners SET provenance = 'x'", kWinner, "its provenance cannot be read as JSON"},
      {"UPDATE winners SET plan = '" + torn + "', digest = '" + digest_of(config, torn) + "'", kWinner,
       "its launch plan cannot be read: "},
      {"UPDATE winners SET config = 'x', digest = '" + digest_of("x", plan_text()) + "'", kWinner,
       "its configuration: 'x' is not name=value"},
      {"UPDATE winners SET workload = 9", "winners 9", "belongs to a missing row of workloads"},
      {"UPDATE hardware SET sm_count = 3", "hardware 1", "its key does not say what its columns say"},
      {"DROP INDEX builds_by_use", "schema", "the index builds_by_use is missing"},
      {"ALTER TABLE winners DROP COLUMN roofline", "schema", "the table winners has no column roofline"},
  };
}

}  // namespace

TEST_CASE("cache check finds a sound cache sound") {
  Tool tool;
  const std::string path = write_cache(tool);
  const Ended ended = tool.run({"cache", "check", "--cache", path, "--json"});
  CHECK(ended.code == 0);
  CHECK(document(ended)["sound"] == true);
  const std::string recording = tool.write_recording();
  CHECK(tool.run({"search", "--device", "replay:" + recording, "--budget", "40", "--cache", path}).code == 0);
  CHECK(tool.run({"cache", "check", "--cache", path}).code == 0);
}

TEST_CASE("cache check names the record and what is wrong with it, with exit code 3") {
  Tool tool;
  for (const Damage& damage : damages()) {
    CAPTURE(damage.sql);
    const std::string path = write_cache(tool);
    sql(path, "PRAGMA foreign_keys = OFF; " + damage.sql);
    const Ended ended = tool.run({"cache", "check", "--cache", path, "--json"});
    CHECK(ended.code == 3);
    const Json found = document(ended);
    CHECK(found["sound"] == false);
    CAPTURE(found["problems"].dump());
    CHECK(std::any_of(found["problems"].begin(), found["problems"].end(), [&](const Json& problem) {
      return problem["where"] == damage.where && contains(problem["what"], damage.what);
    }));
  }
}

TEST_CASE("a cache of a version that there never was is refused by check and by what uses it") {
  Tool tool;
  const std::string path = write_cache(tool);
  sql(path, "PRAGMA user_version = -1");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"cache", "check", "--cache", path}, {"report", "--cache", path}}) {
    const Ended ended = tool.run(command);
    CHECK(ended.code == 3);
    CHECK(contains(ended.err, "has schema -1, which no moetune makes"));
  }
}
