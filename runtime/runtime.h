// Tuning results opened for one device: what include/moetune.h calls a runtime, in C++.
//
// Thread-safe: opening families and refreshing take a lock; what families do is described there. Owns the
// device's primary context and all that is loaded in it. Holds no file open between calls. Errors: RuntimeError,
// BadInput, BrokenEnvironment, cuda::CudaError, which status_of() turns into the C interface's.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/family.h"

namespace moetune {

struct OpenOptions {
  std::vector<std::filesystem::path> paths;  // none: default_paths()
  int device = -1;                           // -1: the calling thread's current context's, else 0
  bool allow_recorded = false;
  std::vector<std::string> trusted_keys;  // as TrustedKeys takes them; beside MOETUNE_TRUSTED_KEYS
};

// The user's cache, and the folder `packs` beside the library or where it is installed; those that exist.
std::vector<std::filesystem::path> default_paths();

// Keys from the options and from MOETUNE_TRUSTED_KEYS, where colons separate them. A variable that is set and names no
// key is BadInput: without keys every pack would be trusted.
TrustedKeys trusted_keys(std::vector<std::string> keys);

// Throws RuntimeError (unknown_name) for a kernel that there is not.
const Kernel& named_kernel(const std::string& name);

class Runtime {
 public:
  explicit Runtime(const OpenOptions& options);
  ~Runtime();

  Family& family(const std::string& kernel, const std::string& specialization);

  // "": reads the files again. Else the name of a state that this runtime has held since its last family was
  // opened. Throws, and changes nothing, if no file can be read, or if the state breaks a promise of workspace.
  void refresh(const std::string& generation);
  // Reads the files again, and names the state that they are in, which refresh() can take from then on; the present one
  // still serves. Throws as refresh() does.
  std::string prepare();
  std::string generation() const;

  int ordinal() const { return context_->ordinal(); }
  // As of Family, under the lock.
  std::int64_t promise_workspace(Family& family, const Extents& extents);
  void offer_workspace(Family& family, const Extents& extents, std::size_t bytes);
  std::int64_t wanted_workspace(const Family& family, const Extents& extents) const;

  std::string warnings() const;  // a line each
  UsageCounts counts() const;
  // {"moetune_misses": 1, "misses": [{"kernel", "problem", "count"}]}, most frequent first.
  void write_misses(const std::filesystem::path& path) const;

  // Family::launch in the device's context, which becomes current if the thread has none. Throws RuntimeError
  // (wrong_device) for another context's stream, or if the thread has another context.
  void launch(Family& family, const Choice& choice, const Call& call, LaunchTensors tensors, void* workspace,
              std::size_t workspace_bytes, cuda::StreamRef stream) const;
  void zero_counters(void* workspace, std::size_t bytes, cuda::StreamRef stream) const;

 private:
  struct Generation {
    std::string name;
    std::vector<const DispatchTable*> tables;  // of the families that there were
  };

  void enter() const;
  void require_own(cuda::StreamRef stream) const;
  Layers open_layers() const;
  void return_to(const std::string& name);
  // The state that the files are in, with their cubins loaded.
  std::size_t read_files();
  // Names the state in which each family serves from its table, of as many families as there are.
  std::size_t remember(std::vector<const DispatchTable*> tables);
  void use(std::size_t generation);

  const std::uint64_t id_;  // no other runtime of this process ever had it
  const OpenOptions options_;
  const TrustedKeys trusted_;
  const Experiment experiment_;
  std::unique_ptr<cuda::Context> context_;
  DeviceInfo device_;
  mutable std::mutex mutex_;           // guards what follows
  std::vector<std::string> warnings_;  // each once
  std::deque<Usage> usages_;           // by family
  std::deque<Family> families_;
  std::vector<Generation> generations_;
  std::size_t present_ = 0;
};

}  // namespace moetune
