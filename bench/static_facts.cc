// Gives a recording the facts that the compiler states of its configurations, for machines and times at which
// it was recorded without them: compiles every configuration with NVRTC, which needs no GPU.
//
//   static_facts RECORDING OUTPUT [--threads N]
//
// The facts are of today's templates and compiler, which need not be those that were measured. Exits with 2
// for a wrong command line or file, 1 where the compiler is missing.
#include "tuner/static_facts.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "bench/bench_main.h"
#include "kernels/registry.h"
#include "replay/recording.h"
#include "tuner/compile_pool.h"

namespace {

using namespace moetune;

struct Options {
  std::filesystem::path from, to;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

Options parse(int argc, char** argv) {
  Options options;
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "--threads") continue;
    const int threads = std::atoi(words[i + 1].c_str());
    if (threads < 1) throw BadInput("--threads needs a positive number, not '" + words[i + 1] + "'");
    options.threads = static_cast<unsigned>(threads);
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    break;
  }
  if (words.size() != 2) throw BadInput("usage: static_facts RECORDING OUTPUT [--threads N]");
  options.from = words[0];
  options.to = words[1];
  if (std::filesystem::exists(options.to)) throw BadInput(words[1] + " exists already");
  return options;
}

void add_facts(Recording& recording, CompilePool& pool) {
  const Kernel& kernel = find_kernel(recording.kernel);
  const Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, recording.problem);
  std::vector<Plan> plans;
  std::vector<std::shared_future<BuildPtr>> builds;
  for (ConfigId id = 0; id < recording.space.size(); ++id) {
    plans.push_back(kernel.plan(recording.space.config(id), problem, recording.limits));
    builds.push_back(pool.submit(plans.back().unit));
  }
  recording.fact_names.assign(kFactNames.begin(), kFactNames.end());
  for (std::size_t i = 0; i < plans.size(); ++i)
    recording.trials[i].facts = static_facts(plans[i], *builds[i].get(), recording.limits);
}

void run(const Options& options) {
  Recording recording = read_recording(options.from);
  const Compiler compiler({.architecture = architecture_name(recording.hardware.compute_capability)});
  CompilePool pool(compiler, options.threads);
  add_facts(recording, pool);
  write_recording(recording, options.to);
  const CompilePool::Stats stats = pool.stats();
  std::printf("%zu configurations, %zu compiled in %.0f s of CPU time\n", recording.trials.size(),
              stats.compiled, stats.compile_seconds);
}

}  // namespace

int main(int argc, char** argv) {
  return moetune::bench::run_main("static_facts", [&] { run(parse(argc, argv)); });
}
