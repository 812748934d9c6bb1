#include "tuner/compile/compile_pool.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace moetune {
namespace {

// At the end of a pool's life. Almost every compilation ends within it, so that its process lives on.
constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

struct CompilePool::Impl {
  struct Job {
    std::string digest;
    CompileUnit unit;
    std::promise<BuildPtr> promise;
  };

  Compile compile;
  Store store;

  // The owner's alone.
  std::unordered_map<std::string, std::shared_future<BuildPtr>> known;  // by digest
  std::stop_token watched;
  std::function<void()> slow;

  mutable std::mutex mutex;
  std::condition_variable_any work;
  std::array<std::deque<Job>, 3> queues;  // by urgency; guarded by mutex, as is all below
  std::size_t running = 0;
  std::condition_variable ended;  // of one that was running
  std::vector<BuildPtr> to_store;
  Stats stats;

  std::stop_source patience_ended;
  std::vector<std::jthread> threads;  // last: they use all of the above until they are joined

  void run(std::stop_token stop);
  std::deque<Job>* next();
  std::deque<Job>& queue(Urgency urgency) { return queues[static_cast<std::size_t>(urgency)]; }
  void move_up(const std::string& digest, Urgency urgency);
  void finish(std::promise<BuildPtr> promise, Build build);
};

void CompilePool::Impl::run(std::stop_token stop) {
  while (true) {
    std::unique_lock lock(mutex);
    if (!work.wait(lock, stop, [&] { return next() != nullptr; })) return;
    if (stop.stop_requested()) return;
    std::deque<Job>& from = *next();
    Job job = std::move(from.front());
    from.pop_front();
    ++running;
    lock.unlock();
    try {
      Build build = compile.build(job.unit, patience_ended.get_token());
      finish(std::move(job.promise), std::move(build));
    } catch (...) {
      job.promise.set_exception(std::current_exception());
    }
    lock.lock();
    --running;
    ended.notify_one();
  }
}

// The most urgent queue that is not empty, or null.
std::deque<CompilePool::Impl::Job>* CompilePool::Impl::next() {
  const auto found = std::find_if(queues.begin(), queues.end(), [](const auto& jobs) { return !jobs.empty(); });
  return found == queues.end() ? nullptr : &*found;
}

void CompilePool::Impl::move_up(const std::string& digest, Urgency urgency) {
  for (std::deque<Job>* from = &queue(Urgency::ahead); from > &queue(urgency); --from) {
    const auto job =
        std::find_if(from->begin(), from->end(), [&](const Job& waiting) { return waiting.digest == digest; });
    if (job == from->end()) continue;
    queue(urgency).push_back(std::move(*job));
    from->erase(job);
    return;
  }
}

void CompilePool::Impl::finish(std::promise<BuildPtr> promise, Build build) {
  const auto finished = std::make_shared<const Build>(std::move(build));
  {
    const std::lock_guard lock(mutex);
    ++stats.compiled;
    stats.compile_seconds += finished->seconds;
    if (store.put && finished->repeatable) to_store.push_back(finished);
  }
  promise.set_value(finished);
}

CompilePool::CompilePool(const Compiler& compiler, unsigned threads, Store store)
    : CompilePool(Compile{.digest = [&compiler](const CompileUnit& unit) { return compiler.digest(unit); },
                          .build = [&compiler](const CompileUnit& unit,
                                               const std::stop_token& stop) { return compiler.compile(unit, stop); }},
                  std::min({threads, compiler.processes(), kMostThreads}), std::move(store)) {}

CompilePool::CompilePool(Compile compile, unsigned threads, Store store) : impl_(std::make_unique<Impl>()) {
  impl_->compile = std::move(compile);
  impl_->store = std::move(store);
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) {
    impl_->threads.emplace_back([impl = impl_.get()](std::stop_token stop) { impl->run(std::move(stop)); });
  }
}

CompilePool::~CompilePool() {
  for (std::jthread& thread : impl_->threads) thread.request_stop();
  {
    std::unique_lock lock(impl_->mutex);
    impl_->ended.wait_for(lock, kPatience, [this] { return impl_->running == 0; });
  }
  impl_->patience_ended.request_stop();
}

std::shared_future<BuildPtr> CompilePool::submit(const CompileUnit& unit, Urgency urgency) {
  Impl& impl = *impl_;
  const std::string digest = impl.compile.digest(unit);
  const auto known = impl.known.find(digest);
  if (known != impl.known.end()) {
    const std::lock_guard lock(impl.mutex);
    ++impl.stats.submitted;
    ++impl.stats.joined;
    impl.move_up(digest, urgency);
    return known->second;
  }

  std::optional<Build> stored = impl.store.find ? impl.store.find(digest) : std::nullopt;
  std::promise<BuildPtr> promise;
  const std::shared_future<BuildPtr> future = promise.get_future().share();
  impl.known.emplace(digest, future);
  const std::lock_guard lock(impl.mutex);
  ++impl.stats.submitted;
  if (stored) {
    ++impl.stats.from_store;
    stored->seconds = 0;
    promise.set_value(std::make_shared<const Build>(*std::move(stored)));
  } else {
    impl.queue(urgency).push_back({digest, unit, std::move(promise)});
    impl.work.notify_one();
  }
  return future;
}

void CompilePool::watch(std::stop_token stop, std::function<void()> slow) {
  impl_->watched = std::move(stop);
  impl_->slow = std::move(slow);
}

BuildPtr CompilePool::wait_for(const std::shared_future<BuildPtr>& build) const {
  const auto begin = std::chrono::steady_clock::now();
  for (bool is_said = false; build.wait_for(kLook) != std::future_status::ready;) {
    if (impl_->watched.stop_requested()) return nullptr;
    if (is_said || !impl_->slow || std::chrono::steady_clock::now() - begin < kSlow) continue;
    impl_->slow();
    is_said = true;
  }
  return build.get();
}

std::vector<BuildPtr> CompilePool::build_now(const std::vector<CompileUnit>& units) {
  std::vector<std::shared_future<BuildPtr>> pending;
  for (const CompileUnit& unit : units) pending.push_back(submit(unit, Urgency::first));
  std::vector<BuildPtr> builds;
  for (const std::shared_future<BuildPtr>& build : pending) builds.push_back(wait_for(build));
  flush();
  return builds;
}

std::size_t CompilePool::idle() const {
  const std::lock_guard lock(impl_->mutex);
  std::size_t wanted = impl_->running;
  for (const auto& jobs : impl_->queues) wanted += jobs.size();
  return impl_->threads.size() - std::min(impl_->threads.size(), wanted);
}

void CompilePool::flush() {
  if (!impl_->store.put) return;
  std::vector<BuildPtr> finished;
  {
    const std::lock_guard lock(impl_->mutex);
    finished.swap(impl_->to_store);
  }
  for (const BuildPtr& build : finished) impl_->store.put(*build);
}

CompilePool::Stats CompilePool::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

}  // namespace moetune
