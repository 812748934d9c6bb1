// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace moetune::bench {

// Calls `work` with 0 to count - 1, each once. Rethrows the first exception after all threads have ended; no
// further work is begun once one was thrown.
void run_jobs(std::size_t count, std::size_t threads, const std::function<void(std::size_t job)>& work);

}  // namespace moetune::bench
