// `moetune cache check` on real files, each with one record damaged by SQL.
#include "base/digest.h"
#include "cache/cache.h"
#include "cache/digest_sql.h"
#include "cache/file/database.h"
#include "cache/tallies.h"
#include "jobs/session/kernel_files.h"
#include "kernels/plan.h"
#include "tests/cli/tool.h"
#include "tests/replay/sample_recording.h"

using namespace moetune::testing;

namespace {

std::string plan_text() {
  moetune::Plan plan;
  plan.unit = {"templates/decode_kernel/decode_kernel.cu", {{"STAGES", "2"}}};
  plan.launches.push_back({{.entry = "decode_kernel", .grid = {4, 1, 1}, .block = {128, 1, 1}}, {}});
  return Json(plan).dump();
}

const std::string kChecked = "elements=1024,dtype=f32,write=all,passes=1";

std::string stored_config(const std::string& stages) {
  return "loader=bulk,vector_bytes=16,tile_kib=32,stages=" + stages +
         ",warps=8,producers=1,blocks_per_sm=1,l2=evict_first";
}

const std::string kConfig = stored_config("2");

// A file with one sound trial of every outcome with a time and one without, a sound winner and a sound build,
// tuned with today's sources or others.
std::string write_cache(const Tool& tool, const std::string& sources = moetune::kernel_source_digest("decode_kernel")) {
  const std::string path = tool.path("c.db").string();
  std::filesystem::remove(path);
  auto cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
  const std::int64_t id = cache.workloads.id({.kernel = "decode_kernel",
                                              .problem = kChecked,
                                              .hardware = {.name = "Test GPU", .compute_capability = 90},
                                              .source_digest = sources,
                                              .toolchain = "nvrtc 13.0.88"});
  moetune::TrialRecord trial{.config = kConfig,
                             .outcome = "ok",
                             .time_us = 12,
                             .interval_low_us = 11,
                             .interval_high_us = 13,
                             .samples = 7,
                             .facts = "{}",
                             .provenance = "{}"};
  cache.trials.put(id, trial);
  trial.config = stored_config("3");
  trial.outcome = "too_slow";
  cache.trials.put(id, trial);
  cache.trials.put(
      id,
      {.config = stored_config("4"), .outcome = "crashed", .message = "signal 11", .facts = "{}", .provenance = "{}"});
  moetune::WinnerRecord winner;
  winner.config = kConfig;
  winner.plan = plan_text();
  winner.cubin = {1, 2, 3};
  winner.time_us = 12;
  winner.interval_low_us = 11;
  winner.interval_high_us = 13;
  winner.provenance = "{}";
  cache.winners.put(id, winner);
  cache.builds.put("b1", {"ok", "{}", "", {1, 2, 3}});
  return path;
}

void sql(const std::string& path, const std::string& statement) {
  moetune::Database(path, moetune::Database::Access::read_write, std::chrono::seconds(5)).execute(statement);
}

// Gives every row the digest of what it says now, and every table its tally: damage that a digest itself covers.
void seal(const std::string& path) {
  sql(path, "UPDATE hardware AS h SET digest = " MOETUNE_HARDWARE_DIGEST);
  sql(path, "UPDATE workloads AS w SET digest = " MOETUNE_WORKLOAD_DIGEST);
  sql(path, "UPDATE trials AS t SET digest = " MOETUNE_TRIAL_DIGEST);
  sql(path, "UPDATE winners AS v SET digest = " MOETUNE_WINNER_DIGEST);
  moetune::recount_tallies(moetune::Database(path, moetune::Database::Access::read_write, std::chrono::seconds(5)));
}

const std::string kName = " (decode_kernel " + kChecked + ")";
const std::string kTrial = "trial 1 of workload 1" + kName, kWinner = "winner 1" + kName;

struct Damage {
  std::string sql, where, what;
  bool sealed = true;
};

// Leaves to tests/soundness/soundness_test.cc most of what may be wrong with a winner.
std::vector<Damage> damages() {
  const std::string torn = plan_text().substr(1);
  return {
      {"UPDATE trials SET outcome = 'melted' WHERE id = 1", kTrial, "its outcome 'melted' is unknown"},
      {"UPDATE trials SET time_us = 0 WHERE id = 1", kTrial, "it is ok but took 0 µs"},
      {"UPDATE trials SET time_us = -3 WHERE id = 1", kTrial, "it is ok but took -3 µs"},
      {"UPDATE trials SET time_us = 9e999 WHERE id = 1", kTrial, "it is ok but took inf µs"},
      {"UPDATE trials SET outcome = 'too_slow', time_us = 0 WHERE id = 1", kTrial, "it is too_slow but took 0 µs"},
      {"UPDATE trials SET interval_low_us = 20 WHERE id = 1", kTrial, "its interval is 20 to 13 µs"},
      {"UPDATE trials SET samples = -1 WHERE id = 1", kTrial, "it has -1 samples"},
      {"UPDATE trials SET config = 'stages=2,loader' WHERE id = 1", kTrial,
       "its configuration: 'loader' is not name=value"},
      {"UPDATE trials SET config = '' WHERE id = 1", kTrial, "its configuration is empty"},
      {"UPDATE trials SET facts = '{' WHERE id = 1", kTrial, "its facts cannot be read as JSON"},
      {"UPDATE trials SET provenance = '7' WHERE id = 1", kTrial, "its provenance cannot be read as JSON"},
      {"UPDATE trials SET workload = 9 WHERE id = 1", "trials 1", "belongs to a missing row of workloads"},
      {"UPDATE cubins SET frame = x'00'", kWinner, "does not match its digest"},
      {"UPDATE cubins SET bytes = 2", "cubin 1", "does not match its digest"},
      {"UPDATE winners SET time_us = 0", kWinner, "it took 0 µs"},
      {"UPDATE hardware SET memory_clock_khz = 3201000; UPDATE winners SET time_us = 1e-6,"
       " interval_low_us = 1e-6, interval_high_us = 1e-6",
       kWinner, "it is faster than the GPU can be: 1e-06 us, and no launch takes less than"},
      {"UPDATE winners SET plan = replace(plan, '[4,1,1]', '[4,70000,1]')", kWinner,
       "no GPU of its hardware runs its plan: the grid of decode_kernel is 4 × 70000 × 1"},
      {"UPDATE winners SET plan = replace(plan, '[128,1,1]', '[128,9,1]')", kWinner,
       "no GPU of its hardware runs its plan: the block of decode_kernel is 128 × 9 × 1"},
      {"UPDATE winners SET plan = json_set(plan, '$.launches', json('[]'))", kWinner,
       "its launch plan launches nothing"},
      {"UPDATE winners SET plan = json_set(plan, '$.launches', json('null'))", kWinner,
       "its launch plan cannot be read: a plan's launches are no list"},
      {"UPDATE winners SET plan = '" + torn + "'", kWinner, "its launch plan cannot be read: "},
      {"UPDATE winners SET workload = 9", "winners 9", "belongs to a missing row of workloads"},
      {"UPDATE hardware SET sm_count = 3", "hardware 1", "its key does not say what its columns say"},
      {"DROP INDEX builds_by_use", "schema", "the index builds_by_use is missing", false},
      {"ALTER TABLE winners DROP COLUMN roofline", "schema", "the table winners has no column roofline", false},
      {"UPDATE trials SET time_us = 13 WHERE id = 1", kTrial, "does not match its digest", false},
      {"UPDATE winners SET time_us = 13", kWinner, "does not match its digest", false},
  };
}

// Sound records of what moetune does not know.
std::vector<Damage> nonsense() {
  const auto named = [](const std::string& problem) { return "workload 1 (decode_kernel " + problem + ")"; };
  return {
      {"UPDATE trials SET config = 'stagse=2' WHERE id = 1", kTrial,
       "its configuration: unknown parameter 'stagse'; did you mean 'stages'?"},
      {"UPDATE trials SET config = '" + stored_config("7") + "' WHERE id = 1", kTrial,
       "its configuration: unknown value of stages '7'"},
      {"UPDATE trials SET config = 'stages=2' WHERE id = 1", kTrial, "parameter 'loader' has no value"},
      {"UPDATE trials SET config = config || ' ' WHERE id = 1", kTrial,
       "its configuration should be written " + kConfig},
      {"UPDATE workloads SET kernel = 'decode_kernl'", "workload 1 (decode_kernl " + kChecked + ")",
       "unknown kernel 'decode_kernl'; did you mean 'decode_kernel'?"},
      {"UPDATE workloads SET problem = 'rubbish'", named("rubbish"), "its problem: 'rubbish' is not name=value"},
      {"UPDATE workloads SET problem = ''", "workload 1 (decode_kernel)", "its problem is empty"},
      {"UPDATE workloads SET problem = 'elements=-5'", named("elements=-5"),
       "its problem: decode_kernel: elements=-5 is out of range"},
      {"UPDATE workloads SET problem = 'elments=5'", named("elments=5"), "did you mean 'elements'?"},
      {"UPDATE workloads SET problem = 'elements=1024'", named("elements=1024"),
       "its problem should be written " + kChecked},
  };
}

// Bytes that are no text.
std::vector<Damage> broken_texts() {
  const std::string bytes = "CAST(x'61FF' AS TEXT)", shown = "a\xEF\xBF\xBD";
  return {
      {"UPDATE trials SET message = " + bytes + " WHERE id = 1", kTrial, "its message is not UTF-8 text"},
      {"UPDATE trials SET config = " + bytes + " WHERE id = 1", kTrial, "its config is not UTF-8 text"},
      {"UPDATE winners SET provenance = " + bytes, kWinner, "its provenance is not UTF-8 text"},
      {"UPDATE workloads SET problem = " + bytes, "workload 1 (decode_kernel " + shown + ")",
       "its problem is not UTF-8 text"},
      {"UPDATE hardware SET driver = " + bytes, "hardware 1", "its driver is not UTF-8 text"},
      {"UPDATE builds SET log = " + bytes, "build b1", "its log is not UTF-8 text"},
      {"UPDATE builds SET name = " + bytes, "build " + shown, "its name is not UTF-8 text"},
      {"INSERT INTO calibrations VALUES (1, " + bytes + ", 4.5, '')", "calibration " + shown + " of hardware 1",
       "its name is not UTF-8 text"},
  };
}

void check_found(const std::vector<Damage>& damages) {
  Tool tool;
  for (const Damage& damage : damages) {
    CAPTURE(damage.sql);
    const std::string path = write_cache(tool);
    sql(path, "PRAGMA foreign_keys = OFF; " + damage.sql);
    if (damage.sealed) seal(path);
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
  for (const auto& damages : {damages(), nonsense(), broken_texts()}) check_found(damages);
}

TEST_CASE("what was tuned with other sources is described where today's space does not know it, and is sound") {
  Tool tool;
  const std::string path = write_cache(tool, "abc");
  const auto check = [&] { return tool.run({"cache", "check", "--cache", path, "--json"}); };
  CHECK(document(check())["outdated"].empty());
  sql(path, "UPDATE trials SET config = 'stagse=2' WHERE id = 1");
  seal(path);
  const Ended renamed = check();
  CHECK(renamed.code == 0);
  const Json found = document(renamed);
  CHECK(found["sound"] == true);
  REQUIRE(found["outdated"].size() == 1);
  CHECK(found["outdated"][0]["where"] == "workload 1" + kName);
  CHECK(found["outdated"][0]["what"] ==
        "was tuned with other sources, and has 1 of 3 trials with parameters or values that are none today");
  CHECK(contains(tool.run({"cache", "check", "--cache", path}).out, "was tuned with other sources"));

  sql(path, "UPDATE workloads SET problem = 'size=3'");
  seal(path);
  CHECK(contains(document(check())["outdated"][0]["what"], "is of a problem that is none today"));
  sql(path, "UPDATE workloads SET problem = 'rubbish'");  // which no source could have made
  seal(path);
  CHECK(check().code == 3);
}

TEST_CASE("a replay of a recording with other parameters counts as of the recording's sources") {
  Tool tool;
  moetune::Recording recording = moetune::sample_recording();
  recording.kernel = "decode_kernel";
  recording.problem = kChecked;
  const std::string file = tool.path("older.zst").string();
  moetune::write_recording(recording, file);
  CHECK(tool.run({"search", "--device", "replay:" + file, "--budget", "5"}).code == 0);
  const Ended ended = tool.run({"cache", "check", "--json"});
  CHECK(ended.code == 0);
  CHECK(document(ended)["outdated"].size() == 1);
  CHECK(document(tool.run({"cache", "ls", "--json"}))["workloads"][0]["source_digest"] == recording.source_digest);
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
