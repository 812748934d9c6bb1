// Compiles wide: a fixed set of threads over one Compiler, with equal digests in flight joined into one
// compilation, and finished builds kept for the run.
//
// submit(), flush() and the Store belong to one thread, the owner's; the futures and the immutable builds
// they give may be used from any. Destruction drops what has not started (its futures then throw
// std::future_error, broken_promise), waits a second for what has, and stops what a hanging template would keep.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "tuner/compile/compiler.h"

namespace moetune {

class CompilePool {
 public:
  // A persistent store of builds (see cache/builds.h). Either may be empty.
  struct Store {
    std::function<std::optional<Build>(const std::string& digest)> find;  // called in submit()
    std::function<void(const Build& build)> put;                          // called in flush()
  };

  // The compiler: a Compiler, or a stand-in. Both are called from several threads at once. A build that is stopped
  // ends soon, as a failed one.
  struct Compile {
    std::function<std::string(const CompileUnit&)> digest;
    std::function<Build(const CompileUnit&, const std::stop_token&)> build;
  };

  // More would compile what a search never measures.
  static constexpr unsigned kMostThreads = 16;

  // `compiler` must outlive the pool. At least one thread is started, and no more than kMostThreads or than the
  // compiler has processes, which other pools use too.
  CompilePool(const Compiler& compiler, unsigned threads, Store store = {});
  CompilePool(Compile compile, unsigned threads, Store store = {});
  ~CompilePool();

  // In the order of what is compiled first; a unit that is submitted again, more urgently, is moved up.
  enum class Urgency { first, now, ahead };

  // A compilation that throws hands its exception to the future.
  std::shared_future<BuildPtr> submit(const CompileUnit& unit, Urgency urgency = Urgency::now);

  // Affects build_now() and wait_for(): a stop request ends them with null builds, and `slow` is called once one of
  // them waits for kSlow.
  void watch(std::stop_token stop, std::function<void()> slow);
  static constexpr std::chrono::seconds kSlow{10};

  // The build of a future of submit().
  BuildPtr wait_for(const std::shared_future<BuildPtr>& build) const;

  // Compiles units before all that waits, and flushes; the results are in order. For what a caller cannot go
  // on without: a device's own programs.
  std::vector<BuildPtr> build_now(const std::vector<CompileUnit>& units);

  // Threads that neither compile nor have anything waiting for them. From any thread.
  std::size_t idle() const;

  // Hands the repeatable builds finished since the last call to Store::put. Call it now and then; builds that
  // were never flushed are lost to the store, not to the run.
  void flush();

  struct Stats {
    std::size_t submitted = 0;
    std::size_t compiled = 0;  // finished by a thread
    std::size_t joined = 0;    // found in flight or finished in this run
    std::size_t from_store = 0;
    double compile_seconds = 0;  // summed over threads
  };
  Stats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
