#include "cli/profiling.h"

#include <filesystem>

#include "base/format.h"
#include "base/lists.h"
#include "base/replace_file.h"

namespace moetune {
namespace {

// This very program, as another folder's shell finds it.
std::string own_path() {
  std::error_code unknown;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return unknown ? "moetune" : path.string();
}

// The name by which ncu knows an entry: without a namespace and template arguments.
std::string function_name(const std::string& entry) {
  const std::string name = entry.substr(0, entry.find('<'));
  const std::size_t colon = name.rfind(':');
  return colon == std::string::npos ? name : name.substr(colon + 1);
}

std::string kernel_pattern(const ProfileTarget& target) {
  return "regex:^(" + joined(target.entries, "|", function_name) + ")$";
}

// An option as it is, whatever else as a shell needs it.
std::string command_word(const std::string& word) {
  const bool is_option =
      word.starts_with("--") && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos;
  return is_option ? word : shell_word(word);
}

// The workload, by a command of ours that launches it.
std::vector<std::string> tool_command(const std::string& verb, const ProfileTarget& target,
                                      const BenchRequest& request) {
  std::vector<std::string> words = {own_path(), verb, target.subject.kernel};
  const auto add = [&](const std::string& option, const std::string& value) {
    words.push_back(option);
    words.push_back(value);
  };
  if (!target.subject.problem.empty()) add("--problem", target.subject.problem);
  if (request.config) add("--config", target.config);
  add("--device", target.subject.device.id);
  if (request.target.cache.none) {
    words.push_back("--no-cache");
  } else if (!target.subject.cache.empty()) {
    add("--cache", target.subject.cache);
  }
  add("--seed", std::to_string(request.seed));
  return words;
}

}  // namespace

std::vector<std::string> profile_command(Profiler profiler, const ProfileTarget& target, const BenchRequest& request,
                                         const std::string& script) {
  std::vector<std::string> words, ours;
  if (profiler == Profiler::ncu) {
    const std::string launches = std::to_string(target.launches);
    words = {"ncu",    "--target-processes", "all",   "--kernel-name", kernel_pattern(target), "--launch-skip",
             launches, "--launch-count",     launches};
    for (const char* const section : {"SpeedOfLight", "Occupancy", "LaunchStats", "WarpStateStats"}) {
      words.push_back("--section");
      words.push_back(section);
    }
    for (const std::string& word :
         {std::string("--csv"), std::string("--page"), std::string("raw"), std::string("--log-file"), script + ".csv"})
      words.push_back(word);
    ours = tool_command("verify", target, request);
    for (const char* const word : {"--seeds", "1", "--trial-time", "10m"}) ours.push_back(word);
  } else {
    words = {"nsys", "profile",           "--trace", "cuda,nvtx", "--cuda-graph-trace",
             "node", "--force-overwrite", "true",    "--output",  script};
    ours = tool_command("bench", target, request);
    ours.push_back("--rounds");
    ours.push_back("5");
  }
  words.insert(words.end(), ours.begin(), ours.end());
  return words;
}

std::string write_profile_script(Profiler profiler, const ProfileTarget& target, const BenchRequest& request,
                                 const std::string& script) {
  const std::string command = joined(profile_command(profiler, target, request, script), " ", command_word);
  replace_file(script, "#!/bin/sh\nexec " + command + "\n");
  using enum std::filesystem::perms;
  std::filesystem::permissions(script, owner_exec | group_exec | others_exec, std::filesystem::perm_options::add);
  return command;
}

}  // namespace moetune
