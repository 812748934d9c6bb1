// NVIDIA's run-time compiler, opened with dlopen; the only room for nvrtc.h is this pair's .cc.
//
// Loaded once a process and never unloaded. Immutable and thread-safe: compile() may run on all cores at
// once. Errors: BrokenEnvironment says where it looked and what to do. A program that does not compile is a
// value.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tuner/compile/nvrtc_search.h"
#include "tuner/compile/sources.h"

namespace moetune {

struct NvrtcJob {
  std::vector<SourceFile> sources;  // the program first, then its headers by the names they are included by
  std::vector<std::string> options;
  std::chrono::milliseconds time_limit{60'000};
};

struct NvrtcResult {
  enum class Status { ok, rejected, bad_option, timed_out, broken };
  Status status = Status::broken;
  std::vector<std::uint8_t> cubin;  // where the target is sm_*
  std::string ptx;
  std::string log;
  std::string error;  // NVRTC's name for what went wrong, or how long it had
};

class Nvrtc {
 public:
  // The process's copy. A failed attempt is repeated on the next call.
  static std::shared_ptr<const Nvrtc> load();
  static std::shared_ptr<const Nvrtc> load(const NvrtcSearch& search);

  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;
  ~Nvrtc();

  const std::string& path() const;                // of the library
  const std::string& version() const;             // "13.0.88"
  bool has_disk_cache() const;                    // knows --no-cache
  const std::vector<int>& architectures() const;  // 80, 90, ...: without the "a"

  // Returns within the time limit and a little slack. NVRTC asks whether to go on between its passes only,
  // and never in its front end: a pass that outlives the limit by kStopSlack is left running on a thread of
  // its own. The front end is one for the process (NVRTC 13.0), so until such a pass ends, later compilations
  // wait behind it.
  NvrtcResult compile(const NvrtcJob& job) const;
  static constexpr std::chrono::milliseconds kStopSlack{1000};

 private:
  struct Impl;
  explicit Nvrtc(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
