// Digests of everything that a trial's outcome depends on. A verdict belongs to what was judged: the sources and the
// plan of the candidate, the inputs that it ran on, the check of each output and the references. If any of it
// differs, the outcome says nothing of today's configuration, which is tried again.
//
// Immutable except for what it has read; belongs to one thread. The kernel must outlive it. The problem's own part is
// made once, a configuration's costs a plan. Throws BadInput for a configuration or a problem that the kernel does
// not take.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cache/cache.h"
#include "kernels/kernel.h"
#include "launch/device_info.h"
#include "search/legal_space.h"

namespace moetune {

// Digests of source files with what they include, each read once. For one thread.
class SourceDigests {
 public:
  const std::string& of(const std::string& path);  // "" for a missing file, which is the compiler's to report

 private:
  std::map<std::string, std::string> known_;
};

class Judgement {
 public:
  // Nothing is judged here, so that every digest is "": of a recording, which holds verdicts of its own, and without a
  // kernel.
  Judgement() = default;
  Judgement(const Kernel* kernel, const Problem& problem, const DeviceInfo& device);
  // Shares the `sources` with other problems' judgements.
  Judgement(const Kernel& kernel, const Problem& problem, const DeviceLimits& limits,
            std::shared_ptr<SourceDigests> sources = std::make_shared<SourceDigests>());

  // The digest of the problem's part alone: inputs, checks and references.
  const std::string& of_problem() const { return of_problem_; }
  std::string of(const Config& config) const;

  // Whether the record's outcome is true of its configuration as it is today. False for a record from before there
  // were digests, and for a configuration that the space lacks; true for a recording's.
  bool holds(const TrialRecord& record, const LegalSpace& space) const;

 private:
  std::string text_of(const Plan& plan) const;  // with the digest of its sources

  const Kernel* kernel_ = nullptr;
  Problem problem_;
  DeviceLimits limits_;
  std::shared_ptr<SourceDigests> sources_;
  std::string of_problem_;
};

}  // namespace moetune
