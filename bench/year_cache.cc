// Costs of a cache after a year, in CPU seconds of the tool's commands.
//
//   year_cache FOLDER [MOETUNE [WINNERS [TRIALS [TABLES]]]]
//   year_cache /tmp/year build/release/moetune 20000 1000000 200
//
// Makes FOLDER/a.db and FOLDER/b.db, unless they are there, of records as searches store them, with sound digests: the
// winners of packs/h200.pack at other shapes of their families, planned for the GPU at hand, trials of configurations
// of their kernel's space, and the pack's range tables by several compilers. The two files share half of their
// workloads. Then runs MOETUNE's commands on them and prints a row for each. Needs a GPU, or the tests' scripted
// driver: MOETUNE_LIBCUDA=build/dev/tests/fake_cuda/libfakecuda.so.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.h"
#include "base/version.h"
#include "bench/bench_main.h"
#include "cache/cache.h"
#include "jobs/session/device_choice.h"
#include "jobs/session/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/plan_interface.h"
#include "kernels/registry.h"
#include "launch/device_info.h"
#include "soundness/peak.h"
#include "soundness/stored_key.h"
#include "tuner/judgement.h"
#include "tuner/trial_record.h"
#include "tuner/worker/worker_main.h"

namespace {

using namespace moetune;
namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Sizes {
  std::int64_t winners = 20'000, trials = 1'000'000, tables = 200;
};

class YearCache {
 public:
  YearCache(const Cache& pack, const HardwareKey& gpu)
      : pack_(pack), gpu_(gpu), limits_(stored_limits(gpu)), kernel_(find_kernel("decode_attention")) {
    std::set<std::pair<std::string, std::int64_t>> families;
    for (const Workload& workload : pack.workloads.all()) {
      if (workload.key.kernel != kernel_.name()) continue;
      const Problem problem = stored_problem(kernel_, workload.key);
      const auto family = std::pair(kernel_.specialization(problem).text(), kernel_.extents_of(problem)[1]);
      if (families.insert(family).second) seeds_.push_back({workload, pack.winners.find(workload.id).value()});
    }
    if (seeds_.empty()) throw BadInput("the pack has no winner of " + kernel_.name());
    const LegalSpace space = shared_space(kernel_.name()).enumerate(environment(problem_at(0)));
    for (ConfigId id = 0; id < space.size() && id < 5000; ++id) configs_.push_back(space.config(id).text());
  }

  Problem problem_at(std::int64_t number) const {
    const Problem own = stored_problem(kernel_, seeds_[number % seeds()].workload.key);
    const Extents extents = kernel_.extents_of(own);
    const std::int64_t place = number / seeds();
    return kernel_.problem_of(kernel_.specialization(own), {1 + place % 16, extents[1], 64 * (1 + place / 16)});
  }

  void make(const fs::path& file, std::int64_t first, const Sizes& sizes) const {
    Cache cache = Cache::in_memory();
    for (std::int64_t i = 0; i < sizes.winners; ++i) {
      const std::int64_t workload = add_winner(cache, first + i);
      const std::int64_t own = sizes.trials * (i + 1) / sizes.winners - sizes.trials * i / sizes.winners;
      for (std::int64_t t = 0; t < own; ++t) cache.trials.put(workload, trial(first + i, t));
    }
    add_tables(cache, sizes.tables);
    std::ofstream(file, std::ios::binary) << cache.content();
    Cache::open(file, Cache::Mode::read_write);  // as commands find it: with a log
  }

 private:
  struct Seed {
    Workload workload;
    WinnerRecord winner;
  };

  std::int64_t seeds() const { return static_cast<std::int64_t>(seeds_.size()); }
  Assignment environment(const Problem& problem) const { return expression_environment(problem, limits_); }

  double time_of(const Problem& problem) const {
    return 1.5 * least_time_us(kernel_.cost(problem), Timing::chained, peak_of(gpu_, 0)) + 2;
  }

  StoredLaunch launch(const Config& config, const Problem& problem, const Blob& cubin) const {
    const Plan plan = kernel_.plan(config, problem, limits_);
    return {config.text(), Json(plan).dump(), interface_digest(plan.unit, plan), cubin};
  }

  std::int64_t add_winner(Cache& cache, std::int64_t number) const {
    const Seed& seed = seeds_[number % seeds()];
    const Problem problem = problem_at(number);
    const Space& space = shared_space(kernel_.name());
    WinnerRecord winner;
    static_cast<StoredLaunch&>(winner) = launch(space.parse_config(seed.winner.config), problem, seed.winner.cubin);
    winner.time_us = time_of(problem);
    winner.interval_low_us = 0.99 * winner.time_us;
    winner.interval_high_us = 1.01 * winner.time_us;
    winner.default_time_us = 1.3 * winner.time_us;
    if (!seed.winner.default_launch.config.empty())
      winner.default_launch =
          launch(space.parse_config(seed.winner.default_launch.config), problem, seed.winner.default_launch.cubin);
    const std::string judged = Judgement(kernel_, problem, limits_, source_digests_).of_problem();
    winner.provenance = Json{{"moetune", version()},  {"strategy", "auto"},  {"seed", number}, {"trials", 50},
                             {"driver", gpu_.driver}, {"device", gpu_.name}, {"budget", 200},  {"judged", judged}}
                            .dump();
    winner.stored_at =
        format("2026-%02d-%02dT%02d:%02d:%02dZ", static_cast<int>(1 + number % 11), static_cast<int>(1 + number % 28),
               static_cast<int>(number % 24), static_cast<int>(number % 60), static_cast<int>(number / 60 % 60));
    winner.timings = seed.winner.timings;
    WorkloadKey key = seed.workload.key;
    key.problem = problem.text();
    key.hardware = gpu_;
    key.source_digest = sources_;
    const std::int64_t workload = cache.workloads.id(key, kernel_.specialization(problem).text());
    cache.winners.put(workload, winner);
    return workload;
  }

  TrialRecord trial(std::int64_t number, std::int64_t place) const {
    const std::string& config = configs_[static_cast<std::size_t>(7 * number + place) % configs_.size()];
    const Outcome outcome = place % 10 == 3   ? Outcome::compile_failed
                            : place % 10 == 7 ? Outcome::too_slow
                                              : Outcome::ok;
    const double time_us = has_time(outcome) ? 100 + static_cast<double>((number + 13 * place) % 977) : 0;
    Json facts = {{"validate_s", 0.02},    {"measure_s", 0.11}, {"max_error", 0.0009},
                  {"dissimilarity", 1e-6}, {"registers", 96},   {"spill_bytes", 0},
                  {"static_shared", 1024}, {"compile_s", 0.41}, {"build", "0123456789abcdef0123456789abcdef"}};
    if (has_time(outcome)) facts["samples_us"] = std::vector<double>(7, time_us);
    return {.config = config,
            .outcome = std::string(outcome_name(outcome)),
            .message = "",
            .time_us = time_us,
            .interval_low_us = 0.99 * time_us,
            .interval_high_us = 1.01 * time_us,
            .samples = has_time(outcome) ? 7 : 0,
            .facts = facts.dump(),
            .provenance = R"({"device":"NVIDIA H200","driver":"580.159.04","seed":1,"sm_mhz":1980,"strategy":"auto"})",
            .contended = false};
  }

  void add_tables(Cache& cache, std::int64_t count) const {
    const std::vector<FamilyRange> tables = pack_.ranges.all();
    for (std::size_t i = 0; static_cast<std::int64_t>(i) < count; ++i) {
      const FamilyRange& table = tables[i % tables.size()];
      RangeKey key = table.key;
      key.toolchain = "nvrtc 13.0." + std::to_string(i / tables.size());
      cache.ranges.put(key, pack_.ranges.record(table));
    }
  }

  const Cache& pack_;
  HardwareKey gpu_;
  DeviceLimits limits_;
  const Kernel& kernel_;
  const std::string sources_ = kernel_source_digest(kernel_.name());  // today's, whatever the pack is of
  const std::shared_ptr<SourceDigests> source_digests_ = std::make_shared<SourceDigests>();
  std::vector<Seed> seeds_;
  std::vector<std::string> configs_;
};

// Runs a command, its output into `log`. Returns its CPU seconds; throws if it fails.
double cpu_seconds(const std::vector<std::string>& command, const fs::path& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw BadInput("cannot run " + command[0]);
  int status = 0;
  rusage used = {};
  ::wait4(child, &status, 0, &used);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error(command[1] + " failed; see " + log.string());
  const auto seconds = [](const timeval& time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void write_list(const YearCache& year, const fs::path& file, std::int64_t winners) {
  Json shapes = Json::array();
  for (std::int64_t i = 0; i < 500; ++i) shapes.push_back(year.problem_at(i * winners / 500).text());
  std::ofstream(file) << Json{{"moetune_workloads", 1},
                              {"workloads", {{{"kernel", "decode_attention"}, {"shapes", shapes}}}}};
}

void run(int count, char** arguments) {
  if (count < 2 || count > 6) throw BadInput("usage: year_cache FOLDER [MOETUNE [WINNERS [TRIALS [TABLES]]]]");
  const fs::path folder = arguments[1];
  const std::string tool = count > 2 ? arguments[2] : "build/dev/moetune";
  Sizes sizes;
  if (count > 3) sizes.winners = std::stoll(arguments[3]);
  if (count > 4) sizes.trials = std::stoll(arguments[4]);
  if (count > 5) sizes.tables = std::stoll(arguments[5]);
  fs::create_directories(folder);
  const auto at = [&](const char* name) { return (folder / name).string(); };
  const Cache pack = Cache::open("packs/h200.pack", Cache::Mode::read_only);
  const YearCache year(pack, find_gpu("auto", "year_cache").key);
  if (!fs::exists(at("a.db"))) year.make(at("a.db"), 0, sizes);
  if (!fs::exists(at("b.db"))) year.make(at("b.db"), sizes.winners / 2, sizes);
  write_list(year, at("list.json"), sizes.winners);
  fs::remove(at("new.pack"));
  for (const char* part : {"all.db", "all.db-wal", "all.db-shm"}) fs::remove(at(part));
  std::printf("%lld winners, %lld trials, %lld tables\n\n| command | CPU s |\n|---|---|\n",
              static_cast<long long>(sizes.winners), static_cast<long long>(sizes.trials),
              static_cast<long long>(sizes.tables));
  const std::pair<const char*, std::vector<std::string>> commands[] = {
      {"retune --dry-run, 500 workloads",
       {tool, "retune", "--workloads", at("list.json"), "--dry-run", "--cache", at("a.db")}},
      {"report", {tool, "report", "--cache", at("a.db")}},
      {"cache ls", {tool, "cache", "ls", "--cache", at("a.db")}},
      {"cache check", {tool, "cache", "check", "--cache", at("a.db")}},
      {"cache export", {tool, "cache", "export", at("new.pack"), "--cache", at("a.db")}},
      {"cache merge, two", {tool, "cache", "merge", at("all.db"), at("a.db"), at("b.db")}}};
  for (const auto& [name, command] : commands) {
    std::printf("| %s | %.2f |\n", name, cpu_seconds(command, folder / "log.txt"));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (int status = 0; moetune::is_worker_call(count, arguments, status)) return status;
  return moetune::bench::run_main("year_cache", [&] { run(count, arguments); });
}
