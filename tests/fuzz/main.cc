// test_fuzz [--cases N] [--minutes M] [--seed S] [--save FOLDER] [TARGET...]: runs mutants of valid inputs
// through whatever reads what somebody else wrote. Without --cases and --minutes the short form that ctest
// runs. test_fuzz --replay TARGET FILE: one input. Exits with 1 if something was found.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/fuzz/runner.h"
#include "tuner/child_roles.h"

namespace moetune::fuzz {
namespace {

const TargetKind kTargets[] = {
    {"recordings", "moetune's recordings", recordings_target, 6000},
    {"kernel-tuner", "the results of Kernel Tuner, T4 and KTT", kernel_tuner_target, 10000},
    {"spaces", "space files", spaces_target, 1500},
    {"imports", "T1 descriptions, and what is made of them", imports_target, 3000},
    {"descriptions", "kernel.json of users' kernels, in folders and in packs", descriptions_target, 3000},
    {"problems", "problems and configurations", problems_target, 8000},
    {"ranges", "range tables and their progress, as a server and a search read them", ranges_target, 150},
    {"workloads", "lists of workloads and models' config.json", workloads_target, 5000},
    {"signatures", "signatures of packs", signature_target, 3000},
    {"pack-lists", "a service's lists of packs", pack_list_target, 5000},
    {"answers", "what a service answers to a client", answer_target, 1000},
    {"cache-bytes", "cache files with altered bytes", cache_bytes_target, 300},
    {"cache-records", "cache files with altered records", cache_records_target, 400},
    {"pack-bytes", "packs with altered bytes", pack_bytes_target, 300},
    {"pack-records", "packs with altered records", pack_records_target, 300},
    {"interface", "calls of include/moetune.h", interface_target, 1200},
    {"command", "command lines", command_target, 400},
    {"service", "requests to a service", service_target, 1000}};

const TargetKind& find_target(const std::string& name) {
  for (const TargetKind& kind : kTargets) {
    if (name == kind.name) return kind;
  }
  std::string known;
  for (const TargetKind& kind : kTargets) known += std::string(known.empty() ? "" : ", ") + kind.name;
  throw BadInput("unknown target '" + name + "'; known: " + known);
}

struct Arguments {
  RunOptions options{.cases = 0};
  std::vector<std::string> targets;
  std::string replayed;  // a file
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      if (++i == words.size()) throw BadInput(words[i - 1] + " needs a value");
      return words[i];
    };
    if (words[i] == "--cases") {
      arguments.options.cases = std::stoull(value());
    } else if (words[i] == "--minutes") {
      arguments.options.seconds = 60 * std::stod(value());
    } else if (words[i] == "--seed") {
      arguments.options.seed = std::stoull(value());
    } else if (words[i] == "--save") {
      arguments.options.save = std::filesystem::absolute(value());
    } else if (words[i] == "--replay") {
      arguments.targets = {value()};
      arguments.replayed = value();
    } else {
      arguments.targets.push_back(words[i]);
    }
  }
  if (arguments.targets.empty()) {
    for (const TargetKind& kind : kTargets) arguments.targets.emplace_back(kind.name);
  }
  return arguments;
}

int replay(const TargetKind& kind, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput("cannot read " + path);
  const std::string input((std::istreambuf_iterator<char>(file)), {});
  const std::string finding = replay_input(kind, input);
  std::printf("%s\n", finding.empty() ? "handled as it should be" : finding.c_str());
  return finding.empty() ? 0 : 1;
}

int run(const Arguments& arguments) {
  if (!arguments.replayed.empty()) return replay(find_target(arguments.targets.front()), arguments.replayed);
  RunOptions options = arguments.options;
  options.save = std::filesystem::absolute(options.save);
  options.seconds /= static_cast<double>(arguments.targets.size());
  std::uint64_t findings = 0;
  for (const std::string& name : arguments.targets) {
    const TargetKind& kind = find_target(name);
    options.cases = arguments.options.cases > 0 ? arguments.options.cases
                    : options.seconds > 0       ? UINT64_MAX
                                                : kind.short_cases;
    const RunResult result = run_target(kind, options);
    std::printf("%-13s %9llu cases  %7.1f s  %llu findings  (%s)\n", kind.name,
                static_cast<unsigned long long>(result.cases), result.seconds,
                static_cast<unsigned long long>(result.findings), kind.what);
    std::fflush(stdout);
    findings += result.findings;
  }
  return findings == 0 ? 0 : 1;
}

}  // namespace
}  // namespace moetune::fuzz

int main(int argc, char** argv) {
  int status = 0;
  if (moetune::is_child_call(argc, argv, status)) return status;
  try {
    return moetune::fuzz::run(moetune::fuzz::parse({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "test_fuzz: %s\n", error.what());
    return 2;
  }
}
