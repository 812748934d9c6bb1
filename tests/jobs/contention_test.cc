// Jobs on a scripted GPU that another process uses meanwhile: what they store, hand out, say and refuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "jobs/bench_job.h"
#include "jobs/calibrate_job.h"
#include "jobs/record_job.h"
#include "jobs/search_job.h"
#include "jobs/stored/stored_results.h"
#include "jobs/verify_job.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"
#include "tests/tuner/contention_events.h"

using namespace moetune;

namespace {

// Another process computes from before canary `first` until after canary `last` of each worker.
void use_gpu_busy(int first, int last) {
  setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
  setenv("MOETUNE_NVRTC", paths::fake_nvrtc(), 1);
  const std::string script = "memory=8388608,busy=" + std::to_string(first) + "-" + std::to_string(last);
  setenv("MOETUNE_FAKE_CUDA", script.c_str(), 1);
}

void use_quiet_gpu() { use_gpu_busy(kForEver, kForEver); }

struct Bench {
  TemporaryFolder folder;
  std::vector<std::string> notes;

  JobTarget target() const {
    return {.workload = {.kernel = "decode_kernel", .problem = "elements=1024", .preset = ""},
            .cache = {.path = folder.file("cache.db")}};
  }
  JobContext context() {
    return {.events = {.listener = [this](const Event& event) {
              note_contention(event, notes);
              if (const auto* warning = std::get_if<Warning>(&event.what))
                notes.emplace_back(warning_name(warning->kind));
            }}};
  }
  SearchResult search(std::uint64_t quiet_wait_s, std::uint64_t seed = 1) {
    SearchRequest request{.target = target()};
    request.settings.strategy = "random";
    request.settings.seed = seed;
    request.settings.budget = 3;
    request.settings.quiet_wait_s = quiet_wait_s;
    request.threads = 1;
    return moetune::search(request, context());
  }
  StoredResult stored() const {
    const Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::read_only);
    StoredSpaces spaces;
    return read_result(cache, cache.workloads.all().front(), spaces);
  }
};

}  // namespace

TEST_CASE("beside a load that never ends a winner is contended until a search on a quiet GPU replaces it") {
  Bench bench;
  use_gpu_busy(1, kForEver);
  const SearchResult loaded = bench.search(0);
  CHECK(bench.notes == std::vector<std::string>{"disturbed", "contended"});
  REQUIRE(loaded.tune.best);
  CHECK(loaded.tune.best->result.contended);
  CHECK(loaded.tune.best->result.measurement.median_us > 15);
  CHECK(loaded.tune.contention.contended == 3);
  const Document document = search_document({}, loaded);
  CHECK(document["best"]["contended"] == true);
  CHECK(document["contention"]["gave_up"] == true);
  StoredResult stored = bench.stored();
  REQUIRE(stored.winner);
  CHECK(stored.winner->contended);
  CHECK(result_document(stored)["contended"] == true);

  bench.notes.clear();
  const BenchResult compared =
      moetune::bench({.target = bench.target(), .rounds = 3, .quiet_wait_s = 0}, bench.context());
  CHECK(compared.winner_contended);
  CHECK(compared.contended);
  CHECK(bench_document(compared)["contended"] == true);
  CHECK(bench.notes == std::vector<std::string>{"contended_winner", "disturbed", "contended"});
  bench.notes.clear();
  const VerifyResult verified = verify({.target = bench.target(), .seeds = 1}, bench.context());
  CHECK(verified.right());
  CHECK(verified.disturbed);
  CHECK(bench.notes == std::vector<std::string>{"contended_winner", "disturbed"});

  use_quiet_gpu();
  bench.notes.clear();
  const SearchResult quiet = bench.search(0);
  CHECK(bench.notes.empty());
  CHECK(quiet.tune.counts.resumed == 0);
  REQUIRE(quiet.tune.best);
  CHECK(quiet.tune.best->result.measurement.median_us < 15);
  stored = bench.stored();
  REQUIRE(stored.winner);
  CHECK_FALSE(stored.winner->contended);
  CHECK_FALSE(moetune::bench({.target = bench.target(), .rounds = 3}, {}).contended);
}

TEST_CASE("the contended winner of a search never replaces a sound one") {
  Bench bench;
  use_quiet_gpu();
  const double sound_us = bench.search(0).tune.best->result.measurement.median_us;
  use_gpu_busy(1, kForEver);
  CHECK(bench.search(0, 2).tune.best->result.contended);
  StoredResult stored = bench.stored();
  REQUIRE(stored.winner);
  CHECK_FALSE(stored.winner->contended);
  CHECK(stored.winner->time_us == sound_us);
}

TEST_CASE("a load in the middle of a search leaves no trace in what is stored") {
  Bench bench;
  use_gpu_busy(3, 5);
  const SearchResult result = bench.search(60);
  CHECK(bench.notes == std::vector<std::string>{"disturbed", "quiet"});
  CHECK(result.tune.contention.disturbed == 3);
  CHECK(result.tune.contention.contended == 0);
  for (const Trial& trial : result.tune.trials) {
    if (has_time(trial.result.outcome)) CHECK(trial.result.measurement.median_us < 15);
  }
  CHECK_FALSE(bench.stored().contended);
}

TEST_CASE("beside a load nothing is recorded") {
  Bench bench;
  RecordRequest request{.target = bench.target(), .output = bench.folder.file("r.json"), .threads = 1};
  request.quiet_wait_s = 0;
  request.sample = 2;
  use_gpu_busy(1, kForEver);
  const RecordResult loaded = record(request, bench.context());
  CHECK(loaded.tune.contention.contended > 0);
  CHECK(loaded.file.empty());
  CHECK_FALSE(std::filesystem::exists(request.output));
  {
    Cache cache = Cache::open(bench.folder.file("cache.db"), Cache::Mode::create);
    cache.trials.put_calibration(loaded.subject.device.key, "read_tb_s", 1);
  }
  use_quiet_gpu();
  request.fresh = true;
  CHECK(record(request, {}).file == request.output);
  CHECK(std::filesystem::exists(request.output));
}

TEST_CASE("beside a load nothing is calibrated") {
  Bench bench;
  use_gpu_busy(1, kForEver);
  CHECK_THROWS_WITH_AS(calibrate({.cache = {.path = bench.folder.file("c.db")}, .quiet_wait_s = 0}, {}),
                       doctest::Contains("somebody else is using Fake GPU 0"), BrokenEnvironment);
  const Cache cache = Cache::open(bench.folder.file("c.db"), Cache::Mode::read_only);
  CHECK_FALSE(stored_ceilings(&cache, cache.workloads.all().front().key.hardware).read_tb_s);
}

TEST_CASE("of trials without a winner the best sound one counts, and a contended one only if there is no other") {
  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("c.db"), Cache::Mode::create);
  const std::int64_t id = cache.workloads.id({.kernel = "another's", .problem = "n=1"});
  const auto best = [&] {
    StoredSpaces spaces;
    return read_result(cache, cache.workloads.all().front(), spaces);
  };
  cache.trials.put(id, {.config = "x=1", .outcome = "ok", .time_us = 5, .contended = true});
  CHECK(best().best_us == 5);
  CHECK(best().contended);
  cache.trials.put(id, {.config = "x=2", .outcome = "ok", .time_us = 9});
  CHECK(best().best_us == 9);
  CHECK_FALSE(best().contended);
}
