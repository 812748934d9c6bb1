// Names what runs for Nsight Systems, Nsight Compute and other tools that listen to NVTX. They name themselves in
// NVTX_INJECTION64_PATH, which is looked at once; without one a range costs two loads.
//
// Thread-safe: ranges of a thread nest, as scopes do. No errors: a tool that does not load listens to nothing.
#pragma once

#include <atomic>
#include <string>

namespace moetune {

class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name) {
    if (push.load(std::memory_order_relaxed) != nullptr) begin(name);
  }
  // The name of a function, which is called only if somebody listens.
  template <typename Name>
  requires requires(Name name) { name().c_str(); }
  explicit ProfilerRange(const Name& name) {
    if (push.load(std::memory_order_relaxed) != nullptr && has_listener()) begin(name().c_str());
  }
  ~ProfilerRange() {
    if (is_open_) end();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  // Whether a tool listens.
  static bool has_listener();

 private:
  using Push = int (*)(const char*);
  static int push_first(const char* name);
  void begin(const char* name);
  static void end();

  static std::atomic<Push> push;  // push_first() until a tool was looked for; null if there is none
  bool is_open_ = false;
};

// Ends the calling thread's phase and begins another one; null only ends it. Phases last beyond scopes.
void name_phase(const char* name);

}  // namespace moetune
