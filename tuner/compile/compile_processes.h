// NVRTC in child processes, so that a template which hangs or crashes the compiler, or takes all memory,
// costs its own candidate and nothing else.
//
// Processes are started as they are needed, at most one a core, and kept for the next compilation; a search uses at
// most 16 at once (compile_pool.h), so that searches on several GPUs of a large host do not wait for each other. A
// process that was killed or died is replaced when it is needed again. compile() is called from any number of threads.
// This process never loads NVRTC. Destruction ends the children; nothing may be compiling then.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "tuner/compile/nvrtc.h"

namespace moetune {

// How long to wait for NVRTC to be loaded.
struct LibraryWait {
  std::chrono::milliseconds limit{60'000};
  std::function<void(const std::string&)> slow = {};  // takes one sentence about a wait of ten seconds
};

class CompileProcesses {
 public:
  struct Options {
    std::string executable;                               // empty: this one
    unsigned most = 0;                                    // processes; 0: one a core
    std::uint64_t memory_limit = std::uint64_t{4} << 30;  // resident bytes of each
    LibraryWait load = {};                                // of the first
  };

  // The ones that all Compilers of this process share while any of them lives. `load` is of who comes first.
  static std::shared_ptr<CompileProcesses> shared(const LibraryWait& load = {});

  // Starts the first process and waits until it has loaded NVRTC. Throws BrokenEnvironment if it cannot.
  explicit CompileProcesses(Options options);
  ~CompileProcesses();
  CompileProcesses(const CompileProcesses&) = delete;
  CompileProcesses& operator=(const CompileProcesses&) = delete;

  const NvrtcFacts& facts() const;
  unsigned most() const;

  // Waits for a free process, then at most the job's time limit and kStopSlack; twice, if the process is killed
  // by a signal, which may have nothing to do with the job. A stop request ends the process, once the job has one.
  // Throws BrokenEnvironment if no process is left and
  // none can be started; all that a job does to its process is a status.
  NvrtcResult compile(const NvrtcJob& job, const std::stop_token& stop = {});
  static constexpr std::chrono::milliseconds kStopSlack{1000};

  // Processes started so far, the replacements included.
  unsigned started() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
