// Compares search strategies on recorded spaces: strategies x spaces x seeds, in parallel. kUsage below has
// the command line. Exits with 2 for a wrong command line, 1 for a defect.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/lists.h"
#include "bench/bench_main.h"
#include "bench/search_bench_confidence.h"
#include "bench/search_bench_print.h"
#include "bench/search_bench_runs.h"
#include "bench/search_bench_warm.h"

namespace {

using namespace moetune;

constexpr const char* kUsage =
    R"(search_bench [OPTION]... [RECORDING or folder]...      strategies x spaces x seeds, in parallel
search_bench --warm [OPTION]... [RECORDING or folder]...   cold searches beside ones that know the others
search_bench --confidence [OPTION]... [RECORDING or folder]...      what the stated confidence is worth

  --strategies LIST     of names, with commas; all but exhaustive (for tables)
  --seeds N             50      --first-seed N   1
  --budget N            200 trials; a trial is one distinct configuration, failures count
  --in-flight N         1       --threads N      as many as there are cores
  --no-shipped          without the recordings inside moetune
  --json FILE           the figures of any mode, as JSON too
  --other-hardware      with --warm: know only what was recorded on another GPU
  --samples             with --confidence: every assessment as a line of its own

Recordings are moetune's or Kernel Tuner's.
)";

enum class Mode { tables, warm, confidence };

struct Options {
  bench::Plan plan;
  Mode mode = Mode::tables;
  bool other_hardware = false;
  bool help = false;
  bool samples = false;
  bool shipped = true;
  std::string json;
  std::vector<std::filesystem::path> paths;
};

std::size_t count_from(const std::string& option, const std::string& text) {
  std::size_t used = 0;
  unsigned long value = 0;
  try {
    value = std::stoul(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || value == 0 || text[0] == '-')
    throw BadInput(option + " needs a positive number, not '" + text + "'");
  return value;
}

void set_mode(Options& options, Mode mode) {
  if (options.mode != Mode::tables && options.mode != mode)
    throw BadInput("--warm and --confidence exclude each other");
  options.mode = mode;
}

void check_modes(const Options& options) {
  if (options.samples && options.mode != Mode::confidence) throw BadInput("--samples goes with --confidence");
  if (options.other_hardware && options.mode != Mode::warm) throw BadInput("--other-hardware goes with --warm");
}

Options parse(int argc, char** argv) {
  Options options;
  options.plan.threads = std::max(1u, std::thread::hardware_concurrency());
  for (const StrategyInfo& info : strategies()) {
    if (info.name != "exhaustive") options.plan.strategies.push_back(info.name);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) throw BadInput(word + " needs a value");
      return argv[i];
    };
    if (word == "--strategies") {
      const std::string list = value();
      const std::vector<std::string_view> names = split(list, ',');
      options.plan.strategies.assign(names.begin(), names.end());
    } else if (word == "--seeds") {
      options.plan.seeds = count_from(word, value());
    } else if (word == "--first-seed") {
      options.plan.first_seed = count_from(word, value());
    } else if (word == "--budget") {
      options.plan.budget = count_from(word, value());
    } else if (word == "--in-flight") {
      options.plan.in_flight = count_from(word, value());
    } else if (word == "--threads") {
      options.plan.threads = count_from(word, value());
    } else if (word == "--json") {
      options.json = value();
    } else if (word == "--no-shipped") {
      options.shipped = false;
    } else if (word == "--confidence") {
      set_mode(options, Mode::confidence);
    } else if (word == "--warm") {
      set_mode(options, Mode::warm);
    } else if (word == "--other-hardware") {
      options.other_hardware = true;
    } else if (word == "--samples") {
      options.samples = true;
    } else if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word.starts_with("-")) {
      throw BadInput("unknown option '" + word + "'; --help lists them");
    } else {
      options.paths.emplace_back(word);
    }
  }
  check_modes(options);
  return options;
}

void check_strategies(const std::vector<std::string>& names) {
  const LegalSpace tiny({{"x", {Value::integer(1)}, ""}}, {0});
  for (const std::string& name : names) make_searcher(name, tiny, 1);
}

// Prints what was asked for; the same as JSON.
nlohmann::json figures(const Options& options) {
  const std::vector<bench::RecordedSpace> spaces = bench::read_spaces(options.paths, options.shipped);
  if (spaces.empty()) throw BadInput("no recording was named, and none is shipped");
  if (options.mode == Mode::warm) return bench::print_warm(options.plan, spaces, options.other_hardware);
  if (options.mode == Mode::confidence) return bench::print_confidence(options.plan, spaces, options.samples);
  const std::vector<bench::Runs> all = bench::run_all(options.plan, spaces);
  bench::print_tables(options.plan, spaces, all);
  return bench::to_json(options.plan, spaces, all);
}

void run(const Options& options) {
  if (options.help) {
    std::fputs(kUsage, stdout);
    return;
  }
  check_strategies(options.plan.strategies);
  std::ofstream out;
  if (!options.json.empty()) {
    out.open(options.json);
    if (!out) throw BadInput("cannot write '" + options.json + "'");
  }
  const nlohmann::json result = figures(options);
  if (options.json.empty()) return;
  out << result.dump(2) << '\n';
  if (!out.flush()) throw BadInput("cannot write '" + options.json + "'");
}

}  // namespace

int main(int argc, char** argv) {
  return moetune::bench::run_main("search_bench", [&] { run(parse(argc, argv)); });
}
