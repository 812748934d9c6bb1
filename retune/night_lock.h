// One night a GPU at a time, and one a cache and GPU. A lock file holds the boot's id, the process and its heartbeat.
//
// The lock itself is the operating system's, so that it ends with its process, however that ends. On a file system
// without locks the file's content decides: it counts while it is of this boot, its process lives, and its heart has
// beaten within kHeartStops. A reboot frees it either way.
//
// Belongs to one thread; a thread of its own beats the heart.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace moetune {

inline constexpr std::chrono::seconds kHeartBeats{10}, kHeartStops{120};

struct LockContent {
  std::string boot_id;
  std::int64_t pid = 0, started = 0, heartbeat = 0;  // seconds since 1970
};

// The id of this boot: "" if the system does not tell.
std::string boot_id();

// The content of a lock file; all zero if it cannot be read.
LockContent read_lock(const std::filesystem::path& file);

// Whether that content, without a lock of the operating system, is of a night that goes on.
bool is_alive(const LockContent& content, const std::string& boot, std::int64_t now,
              const std::function<bool(std::int64_t pid)>& process_lives);

class NightLock {
 public:
  // Throws BrokenEnvironment, naming who holds it since when, if another night goes on or the file cannot be made.
  explicit NightLock(std::filesystem::path file);
  NightLock(const NightLock&) = delete;
  ~NightLock();

  // A night that ended without taking its lock off; "" if none did.
  const std::string& taken_over() const { return taken_over_; }

 private:
  void beat(std::stop_token stop);
  void write(std::int64_t heartbeat) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::int64_t started_ = 0;
  std::string taken_over_;
  std::jthread heart_;
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
