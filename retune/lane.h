// A thread that runs what it is given, in order: a device's own. A worker process dies with the thread that started it,
// so that a device which stays open from one piece of work to the next needs a thread that stays too.
//
// run() is thread-safe. The end waits for all work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace moetune {

class Lane {
 public:
  Lane();
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // What `work` throws is the future's.
  std::future<void> run(std::function<void()> work);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> waiting_;
  bool ends_ = false;
  std::jthread thread_;  // last: it uses all else
};

}  // namespace moetune
