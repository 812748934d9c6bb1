// What is fuzzed: an input goes in, and nothing may come out but a clean refusal or a right answer.
//
// A target is made and run in a child process of the runner (runner.h), which is what crashes, hangs and grows. It may
// write below the folder it is given.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "search/random.h"

namespace moetune::fuzz {

// What no input may bring about, in one sentence: "an altered trial is called sound".
class Finding : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Target {
 public:
  virtual ~Target() = default;

  // Deterministic in the random numbers.
  virtual std::string make(Random& random) = 0;

  // Returns if the input was handled as it should be. Throws Finding if not; BadInput and BrokenEnvironment are clean
  // refusals, any other exception is a finding.
  virtual void run(const std::string& input) = 0;
};

using Folder = std::filesystem::path;
struct TargetKind {
  const char* name;
  const char* what;
  std::unique_ptr<Target> (*make)(const Folder& folder);
  std::uint64_t short_cases;  // of the short form that ctest runs
};

// text_targets.cc
std::unique_ptr<Target> recordings_target(const Folder& folder);
std::unique_ptr<Target> kernel_tuner_target(const Folder& folder);
std::unique_ptr<Target> spaces_target(const Folder& folder);
std::unique_ptr<Target> problems_target(const Folder& folder);
std::unique_ptr<Target> imports_target(const Folder& folder);
std::unique_ptr<Target> descriptions_target(const Folder& folder);
// workload_targets.cc
std::unique_ptr<Target> workloads_target(const Folder& folder);
// range_targets.cc
std::unique_ptr<Target> ranges_target(const Folder& folder);
// cache_targets.cc
std::unique_ptr<Target> cache_bytes_target(const Folder& folder);
std::unique_ptr<Target> cache_records_target(const Folder& folder);
// pack_targets.cc
std::unique_ptr<Target> pack_bytes_target(const Folder& folder);
std::unique_ptr<Target> pack_records_target(const Folder& folder);
// sync_targets.cc
std::unique_ptr<Target> answer_target(const Folder& folder);
std::unique_ptr<Target> signature_target(const Folder& folder);
std::unique_ptr<Target> pack_list_target(const Folder& folder);
// interface_target.cc
std::unique_ptr<Target> interface_target(const Folder& folder);
// command_target.cc
std::unique_ptr<Target> command_target(const Folder& folder);
// service_target.cc
std::unique_ptr<Target> service_target(const Folder& folder);

}  // namespace moetune::fuzz
