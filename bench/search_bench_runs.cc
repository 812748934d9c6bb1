#include "bench/search_bench_runs.h"

#include <time.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "base/resources.h"
#include "bench/search_bench_jobs.h"
#include "kernels/registry.h"
#include "replay/recording.h"
#include "replay/shipped.h"
#include "tests/search/simulation.h"
#include "tuner/ceilings.h"

namespace moetune::bench {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// 0 for a foreign kernel's recording, and if the GPU's ceilings are not in it.
double recorded_floor_us(const Recording& recording) {
  if (!(recording.read_tb_s > 0)) return 0;
  const Kernel& kernel = find_kernel(recording.kernel);
  const Problem problem = kernel.parse(recording.problem);
  const std::optional<Floor> floor =
      floor_of(kernel.cost(problem), {.read_tb_s = recording.read_tb_s}, Launches::overlapping);
  return floor ? floor->us : 0;
}

RecordedSpace from_recording(Recording recording, std::string name) {
  std::vector<Observation> outcomes;
  for (std::size_t i = 0; i < recording.trials.size(); ++i) {
    const RecordedTrial& trial = recording.trials[i];
    outcomes.push_back({static_cast<ConfigId>(i), trial.outcome, static_cast<double>(trial.time_us)});
  }
  const double optimum = recording.optimum_us(), floor = recorded_floor_us(recording);
  WorkloadKey key{.kernel = std::move(recording.kernel),
                  .problem = std::move(recording.problem),
                  .hardware = std::move(recording.hardware),
                  .source_digest = std::move(recording.source_digest),
                  .toolchain = std::move(recording.toolchain)};
  return {std::move(name),
          std::move(recording.space),
          std::move(outcomes),
          optimum,
          std::move(key),
          recording.limits,
          floor};
}

std::string stem(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.substr(0, name.find('.'));
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().filename().string().find(".json") != std::string::npos) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw BadInput("'" + path.string() + "' holds no recording");
  return files;
}

SimulatedRun run_once(const Plan& plan, const std::string& strategy, const RecordedSpace& space, std::uint64_t seed,
                      double* seconds) {
  const double begin = thread_seconds();
  const auto searcher = make_searcher(strategy, space.space, seed);
  SimulatedRun run = simulate(*searcher, space.outcomes, plan.budget, plan.in_flight);
  *seconds = thread_seconds() - begin;
  if (run.repeated) throw std::logic_error(strategy + " asked a configuration of " + space.name + " twice");
  if (run.best_us.size() < std::min(plan.budget, space.space.size()))
    throw std::logic_error(strategy + " gave up on " + space.name);
  return run;
}

}  // namespace

std::vector<RecordedSpace> read_spaces(const std::vector<std::filesystem::path>& paths, bool shipped) {
  std::vector<RecordedSpace> spaces;
  for (const std::filesystem::path& path : paths) {
    for (const std::filesystem::path& file : files_of(path))
      spaces.push_back(from_recording(read_recording(file), stem(file)));
  }
  if (!shipped) return spaces;
  for (const ShippedRecording& recording : list_shipped_recordings()) {
    spaces.push_back(
        from_recording(parse_recording(read_resource(recording.path), recording.path), stem(recording.path)));
  }
  return spaces;
}

std::vector<Runs> run_all(const Plan& plan, const std::vector<RecordedSpace>& spaces) {
  std::vector<Runs> all;
  for (const std::string& strategy : plan.strategies) {
    for (std::size_t s = 0; s < spaces.size(); ++s)
      all.push_back({strategy, s, std::vector<std::vector<double>>(plan.seeds)});
  }
  std::vector<double> seconds(all.size() * plan.seeds);
  run_jobs(seconds.size(), plan.threads, [&](std::size_t job) {
    Runs& runs = all[job / plan.seeds];
    const std::size_t k = job % plan.seeds;
    SimulatedRun run = run_once(plan, runs.strategy, spaces[runs.space], plan.first_seed + k, &seconds[job]);
    runs.best_us[k] = std::move(run.best_us);
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    double sum = 0;
    std::size_t trials = 0;
    for (std::size_t k = 0; k < plan.seeds; ++k) {
      sum += seconds[i * plan.seeds + k];
      trials += all[i].best_us[k].size();
    }
    all[i].engine_ms_per_trial = sum * 1e3 / static_cast<double>(std::max<std::size_t>(trials, 1));
  }
  return all;
}

}  // namespace moetune::bench
