// One night a GPU at a time, and one a cache and GPU. A lock file says who holds it: the boot's id, the process and
// when it began.
//
// The lock itself is the operating system's, so that it ends with its process, however that ends. On a file system
// without locks there is no night: no cache is written there. Belongs to one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace moetune {

struct LockContent {
  std::string boot_id;
  std::int64_t pid = 0, started = 0;  // seconds since 1970
};

// The id of this boot: "" if the system does not tell.
std::string boot_id();

// The content of a lock file; all zero if it cannot be read.
LockContent read_lock(const std::filesystem::path& file);

class NightLock {
 public:
  // Throws BrokenEnvironment, naming who holds it since when, if another night goes on or the file cannot be made.
  explicit NightLock(std::filesystem::path file);
  NightLock(const NightLock&) = delete;
  ~NightLock();

  // A night that ended without taking its lock off; "" if none did.
  const std::string& taken_over() const { return taken_over_; }

 private:
  void write(std::int64_t started) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::string taken_over_;
};

// The folder of the locks that hold for all caches of this user: beside the default cache, or if there is none
// /tmp/moetune-UID. It is made if it is new, for the user alone. Throws BrokenEnvironment if it is somebody else's, or
// others may write to it.
std::filesystem::path gpu_lock_folder();

// The locks of a device: its GPU's (`uuid`; "" for a recording, which has none), whatever the cache is, and that of
// `files` (night_files), which may be shared with other users. Throws as NightLock does.
class DeviceLock {
 public:
  DeviceLock(const std::filesystem::path& files, const std::string& uuid);

  const std::string& taken_over() const;  // as NightLock::taken_over, of either

 private:
  std::vector<std::unique_ptr<NightLock>> locks_;
};

}  // namespace moetune
