// NVIDIA's run-time compiler, opened with dlopen; the only room for nvrtc.h is this pair's .cc.
//
// For a compile process (compile_child.h): a template may hang it or crash it. Loaded once a process and
// never unloaded. Errors: BrokenEnvironment says where it looked and what to do. A program that does not
// compile is a value.
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
  std::vector<std::string> instances = {};  // of templates
};

struct NvrtcResult {
  // died: the compiler's process did; past its limit of memory it ends itself.
  enum class Status { ok, rejected, bad_option, timed_out, broken, died };
  Status status = Status::broken;
  std::vector<std::uint8_t> cubin;  // if the target is sm_*
  std::string ptx;                  // if the target is compute_*
  std::string log;
  std::string error;  // NVRTC's name for what went wrong, or how the process ended
};

struct NvrtcFacts {
  std::string path;                // of the library
  std::string version;             // "13.0.88"
  bool has_disk_cache = false;     // knows --no-cache
  std::vector<int> architectures;  // 80, 90, ...: without the "a"
};

class Nvrtc {
 public:
  // The process's copy. A failed attempt is repeated on the next call.
  static std::shared_ptr<const Nvrtc> load();
  static std::shared_ptr<const Nvrtc> load(const NvrtcSearch& search);

  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;
  ~Nvrtc();

  const NvrtcFacts& facts() const;

  // Asks NVRTC to stop at the time limit. It listens between its passes only, and never in its front end:
  // what else goes on past the limit is for the parent process to kill.
  NvrtcResult compile(const NvrtcJob& job) const;

 private:
  struct Impl;
  explicit Nvrtc(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
