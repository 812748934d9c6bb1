// Gives recordings the facts that the compiler states of their configurations, for machines and times at
// which they were recorded without them: compiles every configuration with NVRTC, which needs no GPU. What
// several recordings have in common is compiled once.
//
//   static_facts RECORDING... FOLDER [--threads N]
//
// writes each under its own name into FOLDER, which must exist and hold none of these names.
// The facts are of today's templates and compiler, which need not be those that were measured. Exits with 2
// for a wrong command line or file, 1 where the compiler is missing.
#include "tuner/compile/static_facts.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "bench/bench_main.h"
#include "kernels/registry.h"
#include "replay/recording.h"
#include "tuner/child_roles.h"
#include "tuner/compile/compile_pool.h"

namespace {

using namespace moetune;

struct Options {
  std::vector<std::filesystem::path> from, to;
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
  if (words.size() < 2) throw BadInput("usage: static_facts RECORDING... FOLDER [--threads N]");
  const std::filesystem::path folder = words.back();
  if (!std::filesystem::is_directory(folder)) throw BadInput("there is no folder " + words.back());
  words.pop_back();
  for (const std::filesystem::path from : words) {
    options.from.push_back(from);
    options.to.push_back(folder / from.filename());
    if (std::filesystem::exists(options.to.back()))
      throw BadInput(options.to.back().string() + " exists already");
  }
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

// The compiler of one architecture; the pool remembers what it compiled.
struct Tools {
  Compiler compiler;
  CompilePool pool;
  Tools(const std::string& architecture, unsigned threads)
      : compiler({.architecture = architecture}), pool(compiler, threads) {}
};

void run(const Options& options) {
  std::map<std::string, std::unique_ptr<Tools>> tools;
  for (std::size_t i = 0; i < options.from.size(); ++i) {
    Recording recording = read_recording(options.from[i]);
    const std::string architecture = architecture_name(recording.hardware.compute_capability);
    std::unique_ptr<Tools>& its = tools[architecture];
    if (its == nullptr) its = std::make_unique<Tools>(architecture, options.threads);
    const CompilePool::Stats before = its->pool.stats();
    add_facts(recording, its->pool);
    write_recording(recording, options.to[i]);
    const CompilePool::Stats after = its->pool.stats();
    std::printf("%s: %zu configurations, %zu compiled in %.0f s of CPU time\n", options.to[i].c_str(),
                recording.trials.size(), after.compiled - before.compiled,
                after.compile_seconds - before.compile_seconds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  if (moetune::is_child_call(argc, argv, status)) return status;
  return moetune::bench::run_main("static_facts", [&] { run(parse(argc, argv)); });
}
