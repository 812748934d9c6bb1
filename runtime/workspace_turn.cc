#include "runtime/workspace_turn.h"

#include <chrono>
#include <mutex>
#include <thread>

namespace moetune {

// Those who hold a turn or wait for one, of all addresses that fall here, as they came: the first of an address has its
// turn. They lie on their threads' stacks.
//
// Locked for a few instructions, or for as long as it takes to wake a thread; half the cost of a std::mutex. Whoever
// finds it locked yields, and soon sleeps, so that the holder comes to run whatever the priorities are.
struct alignas(64) WorkspaceTurn::Line {
  void lock() {
    constexpr int kYields = 64;
    for (int tries = 0; is_locked.test_and_set(std::memory_order_acquire); ++tries) {
      if (tries < kYields)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void unlock() { is_locked.clear(std::memory_order_release); }

  std::atomic_flag is_locked;
  WorkspaceTurn* first = nullptr;
};

WorkspaceTurn::Line& WorkspaceTurn::line_of(std::uint64_t workspace) {
  static constinit Line lines[64];
  return lines[workspace * 0x9e3779b97f4a7c15 >> 58];
}

WorkspaceTurn::WorkspaceTurn(std::uint64_t workspace) : workspace_(workspace) {
  if (workspace == 0) return;
  Line& line = line_of(workspace);
  bool is_taken = false;
  {
    const std::lock_guard lock(line);
    WorkspaceTurn** end = &line.first;
    for (; *end != nullptr; end = &(*end)->next_) is_taken = is_taken || (*end)->workspace_ == workspace;
    *end = this;
  }
  if (is_taken) has_come_.wait(0, std::memory_order_acquire);
}

WorkspaceTurn::~WorkspaceTurn() {
  if (workspace_ == 0) return;
  Line& line = line_of(workspace_);
  const std::lock_guard lock(line);
  WorkspaceTurn** place = &line.first;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
  for (WorkspaceTurn* other = next_; other != nullptr; other = other->next_) {
    if (other->workspace_ != workspace_) continue;
    other->has_come_.store(1, std::memory_order_release);
    other->has_come_.notify_one();  // under the lock, without which the other one cannot go away
    return;
  }
}

}  // namespace moetune
