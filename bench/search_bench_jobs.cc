#include "bench/search_bench_jobs.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace moetune::bench {

void run_jobs(std::size_t count, std::size_t threads, const std::function<void(std::size_t job)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    for (std::size_t job = next++; job < count; job = next++) {
      try {
        work(job);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> running;
    for (std::size_t i = 0; i < std::max<std::size_t>(threads, 1); ++i) running.emplace_back(run);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace moetune::bench
