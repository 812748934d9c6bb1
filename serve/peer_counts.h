// How many of something each address has. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace moetune {

class PeerCounts {
 public:
  // False if it has `most` already; 0 bounds nothing.
  bool add(const std::string& peer, std::size_t most) {
    const std::lock_guard lock(mutex_);
    std::size_t& count = counts_[peer];
    if (most > 0 && count >= most) return false;
    ++count;
    return true;
  }
  void remove(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(peer);
    if (found != counts_.end() && --found->second == 0) counts_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::size_t> counts_;
};

}  // namespace moetune
