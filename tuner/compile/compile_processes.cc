#include "tuner/compile/compile_processes.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "tuner/compile/compile_child.h"
#include "tuner/process/child_process.h"

namespace moetune {
namespace {

using ChildPtr = std::unique_ptr<ChildProcess>;
using Replied = ChildProcess::Reply::Status;

constexpr const char* kStopped = "the compiler was stopped";

// Starts children on a thread that lives as long as they may: a child dies with the thread that started it.
class Starter {
 public:
  explicit Starter(ChildProcess::Role role) : role_(std::move(role)), thread_([this] { run(); }) {}
  ~Starter() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    work_.notify_one();
    thread_.join();
  }
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  ChildPtr start() {
    std::unique_lock lock(mutex_);
    std::future<ChildPtr> child = wanted_.emplace_back().get_future();
    lock.unlock();
    work_.notify_one();
    return child.get();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return closing_ || !wanted_.empty(); });
      if (wanted_.empty()) return;
      std::promise<ChildPtr> child = std::move(wanted_.front());
      wanted_.pop_front();
      lock.unlock();
      try {
        child.set_value(std::make_unique<ChildProcess>(role_));
      } catch (...) {
        child.set_exception(std::current_exception());
      }
      lock.lock();
    }
  }

  ChildProcess::Role role_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::promise<ChildPtr>> wanted_;  // guarded by mutex_
  bool closing_ = false;                       // guarded by mutex_
  std::thread thread_;
};

std::string limit_text(std::chrono::milliseconds limit) {
  return format("%g s", static_cast<double>(limit.count()) / 1000);
}

}  // namespace

struct CompileProcesses::Impl {
  Options options;
  NvrtcFacts facts;

  std::mutex mutex;
  std::condition_variable freed;
  std::vector<ChildPtr> idle;  // guarded by mutex, as is all below
  unsigned lent = 0;
  unsigned started = 0;

  Starter starter;

  explicit Impl(Options options_)
      : options(std::move(options_)),
        starter({.verb = kCompileVerb, .name = "the compiler", .executable = options.executable}) {}

  ChildPtr start(const std::stop_token& stop, const LibraryWait& wait);
  ChildPtr take_idle();  // null: none; under mutex
  ChildPtr borrow(const std::stop_token& stop = {}, const LibraryWait& wait = {});
  void give_back(ChildPtr child);
  NvrtcResult compile(const NvrtcJob& job, const std::stop_token& stop, bool& killed);
};

ChildPtr CompileProcesses::Impl::start(const std::stop_token& stop, const LibraryWait& wait) {
  ChildPtr child = starter.start();
  const std::string limit = limit_text(wait.limit);
  std::function<void()> slow;
  if (wait.slow) {
    slow = [&] {
      wait.slow("NVRTC has not loaded for " + std::to_string(ChildProcess::kSlow.count()) +
                " s; it is waited for at most " + limit);
    };
  }
  const ChildProcess::Reply reply =
      child->request(load_request(options.memory_limit), wait.limit, stop, std::move(slow));
  if (reply.status == Replied::late) throw BrokenEnvironment("NVRTC did not load within " + limit);
  if (reply.status != Replied::answered) throw BrokenEnvironment("NVRTC cannot be loaded: " + reply.cause);
  NvrtcFacts loaded = load_reply(reply.message);
  const std::lock_guard lock(mutex);
  ++started;
  if (facts.version.empty()) facts = loaded;
  if (loaded.version != facts.version)
    throw BrokenEnvironment("NVRTC was " + facts.version + " and is " + loaded.version +
                            " now; start again when its installation is done");
  return child;
}

ChildPtr CompileProcesses::Impl::take_idle() {
  while (!idle.empty()) {
    ChildPtr child = std::move(idle.back());
    idle.pop_back();
    if (child->alive()) return child;  // else it was killed while it had nothing to do
  }
  return nullptr;
}

// Borrows a child. The caller gives it back, or null if the child is gone. If no child can be started, it waits for
// those that exist, and throws if there are none.
ChildPtr CompileProcesses::Impl::borrow(const std::stop_token& stop, const LibraryWait& wait) {
  std::unique_lock lock(mutex);
  while (true) {
    freed.wait(lock, [this] { return lent < options.most; });
    ++lent;
    if (ChildPtr child = take_idle()) return child;
    lock.unlock();
    try {
      return start(stop, wait);
    } catch (...) {
      lock.lock();
      --lent;
      freed.notify_all();
      if (lent == 0 && idle.empty()) throw;
      freed.wait(lock, [this] { return lent == 0 || !idle.empty(); });
    }
  }
}

void CompileProcesses::Impl::give_back(ChildPtr child) {
  {
    const std::lock_guard lock(mutex);
    --lent;
    if (child != nullptr) idle.push_back(std::move(child));
  }
  freed.notify_all();  // not all wait for the same
}

NvrtcResult CompileProcesses::Impl::compile(const NvrtcJob& job, const std::stop_token& stop, bool& killed) {
  NvrtcResult result;
  ChildPtr child;
  try {
    child = borrow(stop);
  } catch (const BrokenEnvironment&) {
    if (!stop.stop_requested()) throw;
    result.status = NvrtcResult::Status::died;
    result.error = kStopped;
    return result;
  }
  try {
    ChildProcess::Reply reply = child->request(compile_request(job), job.time_limit + kStopSlack, stop);
    killed = reply.killed;
    if (reply.status == Replied::answered) {
      result = compile_reply(std::move(reply.message));
    } else if (reply.status == Replied::late) {
      result.status = NvrtcResult::Status::timed_out;
    } else {
      result.status = NvrtcResult::Status::died;
      result.error = reply.status == Replied::stopped ? kStopped : reply.cause;
    }
    if (reply.status != Replied::answered) child.reset();
  } catch (...) {
    give_back(nullptr);
    throw;
  }
  if (result.status == NvrtcResult::Status::timed_out)
    result.error = "the compiler took longer than " + limit_text(job.time_limit);
  // A build that hit a limit may have left the library in any state.
  if (result.status == NvrtcResult::Status::broken) child.reset();
  give_back(std::move(child));
  return result;
}

std::shared_ptr<CompileProcesses> CompileProcesses::shared(const LibraryWait& load) {
  static std::mutex mutex;
  static std::weak_ptr<CompileProcesses> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<CompileProcesses> processes = current.lock();
  if (processes == nullptr) current = processes = std::make_shared<CompileProcesses>(Options{.load = load});
  return processes;
}

CompileProcesses::CompileProcesses(Options options) {
  if (options.most == 0) options.most = std::max(std::thread::hardware_concurrency(), 1u);
  impl_ = std::make_unique<Impl>(std::move(options));
  impl_->give_back(impl_->borrow({}, impl_->options.load));
}

CompileProcesses::~CompileProcesses() = default;

const NvrtcFacts& CompileProcesses::facts() const { return impl_->facts; }
unsigned CompileProcesses::most() const { return impl_->options.most; }

unsigned CompileProcesses::started() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->started;
}

NvrtcResult CompileProcesses::compile(const NvrtcJob& job, const std::stop_token& stop) {
  bool killed = false;
  NvrtcResult result = impl_->compile(job, stop, killed);
  // By the kernel for want of memory, perhaps. A template that crashes the compiler does so again.
  if (killed) result = impl_->compile(job, stop, killed);
  return result;
}

}  // namespace moetune
