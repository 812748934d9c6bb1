#include "sync/sync.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <random>

#include "base/random_text.h"
#include "sync/miss_files.h"
#include "sync/pack_folder.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestBackoff = 900, kLockPatience = 30;

// False if `stop` came first.
bool sleep_for(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  return !woken.wait_for(lock, stop, std::chrono::duration<double>(seconds), [&] { return stop.stop_requested(); });
}

// Held while it lives, and by one process at a time; it ends with the process.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) {
    const fs::path file = folder / ".moetune-sync.lock";
    file_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (file_ < 0) throw BrokenEnvironment("cannot write " + file.string() + ": " + std::strerror(errno));
    held_ = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (!held_ && errno != EWOULDBLOCK) missing_ = std::strerror(errno);
  }
  FolderLock(const FolderLock&) = delete;
  ~FolderLock() { ::close(file_); }
  // Nobody else has it, or nobody can tell, because locks do not work there.
  bool held() const { return held_ || !missing_.empty(); }
  const std::string& missing() const { return missing_; }

 private:
  int file_ = -1;
  bool held_ = false;
  std::string missing_;  // the system's reason why no lock can be had
};

class Rounds {
 public:
  Rounds(const SyncRequest& request, std::stop_token stop)
      : request_(request),
        service_(request.service, stop),
        packs_(request.folder, TrustedKeys(request.trusted_keys)),
        stop_(std::move(stop)) {}

  SyncRound one() {
    SyncRound round;
    try {
      const std::unique_ptr<FolderLock> lock = own_lock();
      if (lock == nullptr) {
        round.failure = "another moetune sync is at work on " + request_.folder.string();
        round.next_s = waiting(0);
        return round;
      }
      if (!lock->missing().empty())
        round.warnings.push_back("locks do not work where " + request_.folder.string() + " lies (" + lock->missing() +
                                 "): only one moetune sync may use it");
      work(round);
    } catch (const ServiceFailure& error) {
      round.failure = error.what();
      round.next_s = error.wait_s();
    } catch (const BrokenEnvironment& error) {
      round.failure = error.what();
    }
    failures_ = round.failure.empty() ? 0 : failures_ + 1;
    round.next_s = std::max(round.next_s, waiting(failures_));
    return round;
  }

 private:
  // Runs both halves; a failure of one does not keep the other from its work.
  void work(SyncRound& round) {
    std::exception_ptr failure;
    PostedMisses posted;
    try {
      post_misses(service_, request_.folder, posted);
    } catch (const BrokenEnvironment&) {
      failure = std::current_exception();
    }
    round.miss_files = posted.files;
    round.misses = posted.misses;
    std::ranges::move(posted.warnings, std::back_inserter(round.warnings));
    if (stop_.stop_requested()) return;
    InstalledPacks installed = packs_.update(service_);
    round.installed = std::move(installed.names);
    for (std::string& warning : installed.warnings) round.warnings.push_back(std::move(warning));
    if (failure) std::rethrow_exception(failure);
  }

  std::unique_ptr<FolderLock> own_lock() const {
    for (double waited = 0;; waited += 0.05) {
      auto lock = std::make_unique<FolderLock>(request_.folder);
      if (lock->held()) return lock;
      if (!request_.once || waited > kLockPatience || !sleep_for(0.05, stop_)) return nullptr;
    }
  }

  double waiting(int failures) {
    return backoff_s(request_.every_s, failures, std::uniform_real_distribution<>(0, 1)(random_));
  }

  const SyncRequest& request_;
  const ServiceClient service_;
  PackFolder packs_;
  std::stop_token stop_;
  int failures_ = 0;
  std::mt19937_64 random_{std::stoull(random_hex(8), nullptr, 16)};
};

}  // namespace

double backoff_s(double every_s, int failures, double random) {
  double wait = every_s;
  for (int i = 1; i < failures && wait < kLongestBackoff; ++i) wait *= 2;
  if (failures > 0) wait = std::min(wait, std::max(kLongestBackoff, every_s));
  return wait * (failures == 0 ? 0.9 + 0.2 * random : 0.5 + 0.5 * random);
}

bool sync(const SyncRequest& request, const SyncListener& listener, std::stop_token stop) {
  if (!fs::is_directory(request.folder))
    throw BadInput(request.folder.string() + " is no folder; make it, and let the server write its misses there");
  Rounds rounds(request, stop);
  for (;;) {
    const SyncRound round = rounds.one();
    if (stop.stop_requested()) return false;
    listener(round);
    if (request.once) return !round.failure.empty();
    if (!sleep_for(round.next_s, stop)) return false;
  }
}

}  // namespace moetune
