// What `verify` and `bench` share: both run a stored winner, or a configuration that the user names, on a
// GPU. For the command's one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/document.h"
#include "cli/options.h"
#include "cli/session.h"

namespace moetune {

class GpuCommand : public Command {
 protected:
  // --config with its own words, the seed with its own, and the options that name workload, device and cache.
  void declare_common(OptionTable& table, std::string_view config_doc, std::string_view seed_doc);
  // From then on a stop request ends what the device does with Stopped. Throws BadInput and
  // BrokenEnvironment, as choose_gpu and Session do.
  Session open(const Output& output, std::stop_token stop) const;

  const std::optional<std::string>& config() const { return config_; }
  std::uint64_t seed() const { return seed_; }

 private:
  WorkloadOptions workload_;
  std::string device_ = "auto";
  std::optional<std::string> config_;
  CacheChoice cache_;
  std::uint64_t seed_ = 1;
};

// {"kernel": ..., "problem": ..., "device": ...}: how the documents of both begin.
Document workload_document(const Session& session);

// Where a candidate's cubin came from: "stored" with a winner, "cached" from an earlier compilation, or
// "compiled" now.
std::string cubin_source(const Candidate& candidate, bool stored);

// How many of the device's own programs (references and harness) had to be compiled, for people.
std::string programs_text(const Session& session);

}  // namespace moetune
