// Compiles wide: a fixed set of threads over one Compiler, with equal digests in flight joined into one
// compilation, and finished builds kept for the run.
//
// submit() may be called from one thread; results are shared and immutable. Destruction drops what has not started and
// waits for what has.
#pragma once

#include <functional>
#include <future>
#include <memory>

#include "tuner/compiler.h"

namespace moetune {

using BuildPtr = std::shared_ptr<const Build>;

class CompilePool {
 public:
  // `lookup` and `store`, where given, are called on the submitting thread and on collect()'s caller: a persistent
  // store of builds (see Cache::find_build).
  struct Store {
    std::function<std::optional<Build>(const std::string& digest)> find;
    std::function<void(const Build& build)> put;
  };

  CompilePool(const Compiler& compiler, unsigned threads, Store store = {});
  ~CompilePool();

  std::shared_future<BuildPtr> submit(const CompileUnit& unit);

  // Hands builds finished since the last call to Store::put; call now and then from the submitting thread.
  void flush();

  struct Stats {
    std::size_t submitted = 0, compiled = 0, joined = 0, from_store = 0;
    double compile_seconds = 0;  // summed over threads
  };
  Stats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
