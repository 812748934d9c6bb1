// Jobs on the scripted GPUs of tests/fake_cuda: two workers at once, and how jobs without a winner end.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "jobs/bench_job.h"
#include "jobs/calibrate_job.h"
#include "jobs/range/job.h"
#include "jobs/record_job.h"
#include "jobs/search_job.h"
#include "jobs/session/device_choice.h"
#include "jobs/stored/stored_candidate.h"
#include "jobs/stored/stored_results.h"
#include "jobs/verify_job.h"
#include "replay/recording.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

void use_two_gpus() {
  setenv("MOETUNE_NVRTC", paths::fake_nvrtc(), 1);
  setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
  setenv("MOETUNE_FAKE_CUDA", "devices=2,memory=8388608", 1);
}

JobTarget target(const std::string& device, const std::string& cache) {
  return {.workload = {.kernel = "decode_kernel", .problem = "elements=1024", .preset = ""},
          .device = device,
          .cache = {.path = cache}};
}

}  // namespace

TEST_CASE("two searches at once on two GPUs each measure on their own, and verify finds both winners") {
  use_two_gpus();
  const TemporaryFolder folder;
  std::vector<SearchResult> results(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        SearchRequest request{.target = target("cuda:" + std::to_string(i), folder.file("both.db"))};
        request.settings.strategy = "random";
        request.settings.budget = 2;
        request.threads = 1;
        results[i] = search(request, {});
      });
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string id = "cuda:" + std::to_string(i);
    CHECK(results[i].subject.device.id == id);
    REQUIRE(results[i].tune.best);
    const VerifyResult verified = verify({.target = target(id, folder.file("both.db")), .seeds = 2}, {});
    CHECK(verified.right());
    REQUIRE(verified.checks.size() == 2);
    CHECK(verified.checks[0].seed != verified.checks[1].seed);
    CHECK(verified.cubin == "stored");
    CHECK(verified.config == results[i].tune.best->config.text());
  }
  CHECK_FALSE(VerifyResult().right());  // nothing was checked
}

TEST_CASE("a sample has whole cubins, and no more configurations than were asked for") {
  use_two_gpus();
  const TemporaryFolder folder;
  {
    Cache cache = Cache::open(folder.file("c.db"), Cache::Mode::create);
    cache.trials.put_calibration(find_gpu("cuda:0", "record").key, "read_tb_s", 1);
  }
  for (const std::size_t sample : {2, 5}) {
    const std::string file = folder.file(std::to_string(sample) + ".json");
    const RecordResult result =
        record({.target = target("cuda:0", folder.file("c.db")), .output = file, .threads = 1, .sample = sample}, {});
    CHECK(result.file == file);
    const Recording recording = read_recording(file);
    CHECK(recording.space.size() > 0);
    CHECK(recording.space.size() <= sample);
  }
}

TEST_CASE("a search that must beat a table leaves the winners that serve beside it") {
  use_two_gpus();
  const TemporaryFolder folder;
  RangeRequest request{.target = target("cuda:0", folder.file("c.db")), .over = "elements=1024..2048"};
  request.target.workload.problem = "";
  request.settings.strategy = "random";
  request.settings.budget = request.warm_budget = 2;
  request.certificate_shapes = 0;
  request.threads = 1;
  const auto winners_of = [&](int seed) {
    const Cache cache = Cache::open(folder.file("c.db"), Cache::Mode::read_only);
    return std::ranges::count_if(cache.workloads.all(), [&](const Workload& workload) {
      const std::optional<WinnerRecord> winner = cache.winners.find(workload.id);
      return winner && parse_stored(winner->provenance)["seed"] == seed;
    });
  };
  search_range(request, {});
  CHECK(winners_of(1) > 0);
  request.guard = request.settings.fresh = true;
  request.settings.seed = 2;
  CHECK(search_range(request, {}).comparison);
  CHECK(winners_of(2) == 0);
}

TEST_CASE("a search on auto takes the GPU that nobody else uses") {
  use_two_gpus();
  const TemporaryFolder folder;
  setenv("MOETUNE_LIBNVML", paths::fake_libnvml(), 1);
  for (const char* busy : {"busy0=1", "busy1=1"}) {
    CAPTURE(busy);
    setenv("MOETUNE_FAKE_NVML", busy, 1);
    SearchRequest request{.target = target("auto", folder.file("auto.db"))};
    request.settings.strategy = "random";
    request.settings.budget = 1;
    request.threads = 1;
    const SearchResult result = search(request, {});
    CHECK(result.subject.device.id == (std::string(busy) == "busy0=1" ? "cuda:1" : "cuda:0"));
    CHECK(result.tune.best);
  }
  unsetenv("MOETUNE_LIBNVML");
  unsetenv("MOETUNE_FAKE_NVML");
}

TEST_CASE("what a bench compares is timed by itself too if times follow the clock") {
  use_two_gpus();
  const TemporaryFolder folder;
  const auto canaries_of = [&](const char* clocks) {
    setenv("MOETUNE_FAKE_CUDA", (std::string("memory=8388608") + clocks).c_str(), 1);
    const BenchResult result =
        bench({.target = target("cuda:0", folder.file("c.db")), .config = "stages=2", .rounds = 3}, {});
    CHECK(result.rows.size() == 4);  // the last three, of one timing, meet in a duel
    return result.contention.canaries;
  };
  const std::size_t together = canaries_of("");
  CHECK(canaries_of(",clocks=1740:80000/1550") == together + 2 * 3);  // one in front and one behind
}

TEST_CASE("a calibration that is stopped has no ceilings, and says that it was interrupted") {
  use_two_gpus();
  const TemporaryFolder folder;
  std::stop_source stop;
  stop.request_stop();
  std::size_t figures = 0;
  bool interrupted = false;
  const auto listener = [&](const Event& event) {
    figures += std::holds_alternative<CeilingMeasured>(event.what);
    if (const auto* finished = std::get_if<Finished>(&event.what)) interrupted = finished->interrupted;
  };
  const CalibrateResult result = calibrate({.device = "GPU-01", .cache = {.path = folder.file("c.db")}},
                                           {.events = {.listener = listener}, .stop = stop.get_token()});
  CHECK(result.device.id == "cuda:1");
  CHECK(result.interrupted);
  CHECK(interrupted);
  CHECK(figures == 0);
  CHECK_FALSE(result.ceilings.read_tb_s);
}
