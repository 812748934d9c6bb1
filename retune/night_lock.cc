#include "retune/night_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/regular_file.h"
#include "base/time_stamp.h"
#include "cache/cache.h"

namespace moetune {
namespace {

constexpr std::size_t kMostLockBytes = 4096;

std::string date_of(std::int64_t seconds) { return utc_text(UtcSeconds(std::chrono::seconds(seconds))); }

}  // namespace

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

LockContent read_lock(const std::filesystem::path& file) try {
  const auto text = find_regular_file(file, kMostLockBytes);
  const nlohmann::json json = text ? parse_json_or_discard(*text) : nlohmann::json();
  if (!json.is_object()) return {};
  return {json.at("boot_id"), json.at("pid"), json.at("started")};
} catch (const nlohmann::json::exception&) {
  return {};
} catch (const BadInput&) {
  return {};
}

NightLock::NightLock(std::filesystem::path file) : file_(std::move(file)) {
  const LockContent before = read_lock(file_);
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor_ < 0) throw BrokenEnvironment("cannot make the lock " + file_.string() + ": " + std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(descriptor_);
    if (error != EWOULDBLOCK) throw BrokenEnvironment("cannot lock " + file_.string() + ": " + std::strerror(error));
    throw BrokenEnvironment("another night goes on, or a service has the GPU: process " + std::to_string(before.pid) +
                            " since " + date_of(before.started) + " holds " + file_.string());
  }
  if (before.pid > 0) {
    taken_over_ = "The night that began at " + date_of(before.started) + " did not end properly: " +
                  (before.boot_id == boot_id() ? "it was killed or crashed." : "the machine was started again.");
  }
  try {
    write(static_cast<std::int64_t>(std::time(nullptr)));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

NightLock::~NightLock() {
  [[maybe_unused]] const int emptied = ::ftruncate(descriptor_, 0);  // a lock that was taken off says nothing
  ::close(descriptor_);
}

void NightLock::write(std::int64_t started) const {
  const nlohmann::ordered_json json = {{"boot_id", boot_id()}, {"pid", ::getpid()}, {"started", started}};
  const std::string text = json.dump() + "\n";
  // In place and never shorter than before, but for other processes' ids: a reader may see it half old, and asks again.
  const bool written = ::pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                       ::ftruncate(descriptor_, static_cast<off_t>(text.size())) == 0;
  if (!written) throw BrokenEnvironment("cannot write the lock " + file_.string() + ": " + std::strerror(errno));
}

std::filesystem::path gpu_lock_folder() {
  namespace lock_fs = std::filesystem;
  const std::optional<lock_fs::path> cache = Cache::find_default_path();
  lock_fs::path folder = cache ? cache->parent_path() / "gpus" : lock_fs::path();
  std::error_code failed;
  if (cache) lock_fs::create_directories(cache->parent_path(), failed);
  const auto make = [&] { return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST; };
  if (!cache || failed || !make()) {
    folder = "/tmp/moetune-" + std::to_string(::geteuid());
    if (!make()) throw BrokenEnvironment("cannot make the folder " + folder.string() + ": " + std::strerror(errno));
  }
  struct stat status = {};  // of the folder itself: a link is none
  const bool ours = ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
                    (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!ours)
    throw BrokenEnvironment(folder.string() + " must be a folder of this user that nobody else writes to; remove it");
  return folder;
}

DeviceLock::DeviceLock(const std::filesystem::path& files, const std::string& uuid) {
  if (!uuid.empty()) {
    std::string name = uuid;
    std::replace(name.begin(), name.end(), '/', '-');
    locks_.push_back(std::make_unique<NightLock>(gpu_lock_folder() / (name + ".lock")));
  }
  locks_.push_back(std::make_unique<NightLock>(files.string() + ".lock"));
}

const std::string& DeviceLock::taken_over() const {
  for (const auto& lock : locks_) {
    if (!lock->taken_over().empty()) return lock->taken_over();
  }
  return locks_.back()->taken_over();
}

}  // namespace moetune
