// Template + configuration -> cubin and static facts, with NVRTC.
//
// A Compiler is thread-safe: compile() may run on all cores at once (NVRTC 13 has no global lock). It creates no CUDA
// context and needs no GPU. A digest of (source with all headers it can include, defines, options, NVRTC version) names a
// build; an equal digest is never compiled twice in a run, nor across runs when the caller keeps builds in a cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/limits.h"
#include "kernels/plan.h"
#include "search/outcome.h"

namespace moetune {

// What ptxas says of one kernel entry before it ever runs.
struct EntryFacts {
  int registers = 0;             // per thread
  int spill_store_bytes = 0;     // per thread
  int spill_load_bytes = 0;      // per thread
  int stack_bytes = 0;           // per thread
  std::int64_t static_shared = 0;  // bytes per block
};

struct Build {
  Outcome outcome = Outcome::compile_failed;  // ok or compile_failed
  std::string digest;
  std::vector<std::uint8_t> cubin;
  std::map<std::string, EntryFacts> entries;
  std::string message;  // one line, where it failed
  std::string log;      // the whole compiler output
  double seconds = 0;   // 0 where it came from a store
};

// Where template text comes from: path in the source tree -> text. The default reads the embedded resources.
using SourceReader = std::function<std::optional<std::string>(const std::string& path)>;

class Nvrtc;

class Compiler {
 public:
  struct Options {
    std::string architecture;                          // "sm_90a"
    std::chrono::milliseconds time_limit{60'000};      // per unit
    SourceReader reader;                               // empty: embedded resources
  };

  // Throws BrokenEnvironment where NVRTC cannot be loaded or does not know the architecture, saying where it looked.
  explicit Compiler(Options options);
  ~Compiler();

  const std::string& architecture() const;
  std::string toolchain() const;  // "nvrtc 13.0.88"

  std::string digest(const CompileUnit& unit) const;
  Build compile(const CompileUnit& unit) const;  // never throws for bad source: that is Build::outcome

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Digest of a source file and, transitively, every file it includes: the `source_digest` of a workload's key.
std::string source_digest(const std::string& path, const SourceReader& reader = {});

// Why a built plan cannot run on a device (registers, shared memory, threads, spills past the limit), as one line; empty
// where it can. Such candidates are pruned before launch.
std::string why_unlaunchable(const Plan& plan, const Build& build, const DeviceLimits& limits);

}  // namespace moetune
