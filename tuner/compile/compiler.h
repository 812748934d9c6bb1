// Template + configuration -> cubin and static facts, with NVRTC in processes of its own.
//
// A Compiler is thread-safe: compile() may run on as many threads as there are processes. It creates no CUDA
// context and needs no GPU. A digest of (source with all headers it can include, defines, options, architecture,
// NVRTC version) names a build; an equal digest is never compiled twice in a run, nor across runs when the caller
// keeps builds in a cache. A template is read once for the life of the Compiler, so that one run sees one text of it.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "kernels/plan.h"
#include "tuner/compile/build.h"
#include "tuner/compile/compile_processes.h"
#include "tuner/compile/launchable.h"
#include "tuner/compile/sources.h"

namespace moetune {

class Compiler {
 public:
  struct Options {
    std::string architecture;                      // "sm_90a"
    std::chrono::milliseconds time_limit{60'000};  // per unit
    SourceReader reader;                           // empty: embedded resources
    std::shared_ptr<CompileProcesses> processes;   // null: the shared ones
    LibraryWait load = {};                         // for the shared ones
  };

  // Throws BrokenEnvironment where NVRTC cannot be loaded, saying where it looked, or does not know the
  // architecture; BadInput where `architecture` is no architecture's name.
  explicit Compiler(Options options);
  ~Compiler();

  const std::string& architecture() const;
  const std::string& toolchain() const;  // "nvrtc 13.0.88"
  unsigned processes() const;            // how many compile at once

  // Both throw BrokenEnvironment where the template is missing.
  std::string digest(const CompileUnit& unit) const;
  // Never throws for bad source: that is Build::outcome. One that is stopped fails, and is not repeatable.
  Build compile(const CompileUnit& unit, const std::stop_token& stop = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
