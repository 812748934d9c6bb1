#include "retune/lane.h"

#include <utility>

namespace moetune {

Lane::Lane() : thread_([this] { serve(); }) {}

Lane::~Lane() {
  const std::lock_guard lock(mutex_);
  ends_ = true;
  changed_.notify_all();
}

std::future<void> Lane::run(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  changed_.notify_all();
  return done;
}

void Lane::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::packaged_task<void()> task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace moetune
