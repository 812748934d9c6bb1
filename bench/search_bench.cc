// Compares search strategies on recorded spaces: strategies x spaces x seeds, in parallel.
//
//   search_bench [--strategies auto,random] [--seeds 50] [--first-seed 1] [--budget 200] [--in-flight 1]
//                [--threads N] [--json FILE] [--no-facts] [--no-shipped] [RECORDING or folder]...
//   search_bench --cost [--strategies ...]      the engine's own cost, in spaces of 20,000 and 5 million
//   search_bench --confidence [--samples] [--seeds N] [RECORDING or folder]...     what `assess` is worth
//   search_bench --warm [--seeds N] [RECORDING or folder]...     cold searches beside ones that know the
//   others
//
// A trial is one distinct configuration; failures count. Recordings are moetune's or Kernel Tuner's; the ones
// inside moetune are added unless --no-shipped. Exits with 2 for a wrong command line, 1 for a defect.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "bench/bench_main.h"
#include "bench/search_bench_confidence.h"
#include "bench/search_bench_cost.h"
#include "bench/search_bench_print.h"
#include "bench/search_bench_runs.h"
#include "bench/search_bench_warm.h"

namespace {

using namespace moetune;

struct Options {
  bench::Plan plan;
  bool cost = false;
  bool confidence = false;
  bool samples = false;
  bool warm = false;
  bool shipped = true;
  std::string json;
  std::vector<std::filesystem::path> paths;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

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
      options.plan.strategies = split(value());
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
    } else if (word == "--no-facts") {
      options.plan.facts = false;
    } else if (word == "--no-shipped") {
      options.shipped = false;
    } else if (word == "--cost") {
      options.cost = true;
    } else if (word == "--confidence") {
      options.confidence = true;
    } else if (word == "--warm") {
      options.warm = true;
    } else if (word == "--samples") {
      options.samples = true;
    } else if (word.starts_with("-")) {
      throw BadInput("unknown option '" + word + "'");
    } else {
      options.paths.emplace_back(word);
    }
  }
  return options;
}

void check_strategies(const std::vector<std::string>& names) {
  const LegalSpace tiny({{"x", {Value::integer(1)}, ""}}, {0});
  for (const std::string& name : names) make_searcher(name, tiny, 1);
  if (names.empty()) throw BadInput("--strategies names none");
}

void run(const Options& options) {
  check_strategies(options.plan.strategies);
  if (options.cost) {
    bench::print_costs(options.plan.strategies);
    return;
  }
  const std::vector<bench::RecordedSpace> spaces = bench::read_spaces(options.paths, options.shipped);
  if (spaces.empty()) throw BadInput("no recording was named, and none is shipped");
  if (options.confidence) {
    bench::print_confidence(options.plan, spaces, options.samples);
    return;
  }
  if (options.warm) {
    bench::print_warm(options.plan, spaces);
    return;
  }
  const std::vector<bench::Runs> all = bench::run_all(options.plan, spaces);
  bench::print_tables(options.plan, spaces, all);
  if (!options.json.empty()) {
    std::ofstream out(options.json);
    out << bench::to_json(options.plan, spaces, all).dump(2) << '\n';
    if (!out.flush()) throw BadInput("cannot write '" + options.json + "'");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return moetune::bench::run_main("search_bench", [&] { run(parse(argc, argv)); });
}
