// A stop token that fires with another one, or at a moment: what bounds the waits of a job that has a budget of time.
// Owns a thread if there is a moment. The token outlives it, and fires no more then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace moetune {

class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  TimeLimit(const std::stop_token& also, std::optional<Clock::time_point> at)
      : link_(also, [this] { ends_.request_stop(); }) {
    if (!at) return;
    timer_ = std::jthread([this, end = *at](const std::stop_token& closing) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock(mutex);
      never.wait_until(lock, closing, end, [] { return false; });
      if (!closing.stop_requested()) ends_.request_stop();
    });
  }
  TimeLimit(const TimeLimit&) = delete;

  std::stop_token token() const { return ends_.get_token(); }
  bool is_over() const { return ends_.stop_requested(); }

 private:
  std::stop_source ends_;
  std::stop_callback<std::function<void()>> link_;
  std::jthread timer_;  // last: it uses the above
};

}  // namespace moetune
