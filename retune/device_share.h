// What one device's search and its checks of other devices' winners share, so that they can go on beside each other: a
// search mostly waits for its compiler, and leaves the GPU idle meanwhile.
//
// They take turns with all that computes on the GPU or holds its memory: contexts, inputs, trials, duels, canaries, and
// a worker's end. They do not take turns with what only asks: a worker that starts its driver and lists the GPUs
// (choose_device, find_gpu) reads properties and NVML, without a context, a launch or memory of the GPU.
//
// Thread-safe, but for the device that take_turns() returns, which belongs to one thread as every Device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "retune/rework.h"
#include "tuner/device.h"

namespace moetune {

// `device`, each call of which holds `turn`, its end included, but for info() and set_stop(): of devices with one
// `turn` one at a time computes on the GPU, so that none disturbs what another measures. `turn` must outlive it.
std::unique_ptr<Device> take_turns(std::unique_ptr<Device> device, std::mutex& turn);

// The GPU's memory, of which jobs take what they need, first come first served.
class MemoryRoom {
 public:
  explicit MemoryRoom(std::optional<std::int64_t> bytes) : bytes_(bytes) {}  // nullopt: no limit

  class Hold {
   public:
    Hold(MemoryRoom& room, std::int64_t bytes, std::uint64_t ticket, bool joined)
        : room_(room), bytes_(bytes), ticket_(ticket), joined_(joined) {}
    ~Hold() { room_.give_back(bytes_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    // Whether somebody else held some meanwhile.
    bool was_shared() const;

   private:
    MemoryRoom& room_;
    std::int64_t bytes_;
    std::uint64_t ticket_;
    bool joined_;
  };

  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max() / 4;

  // Waits until `bytes` fit beside what others hold. Who asks for more than there is has it alone.
  Hold take(std::int64_t bytes);

  struct Use {
    std::uint64_t asked = 0,
                  served = 0;  // calls of take(): all, and those that have returned or are about to
    int holders = 0;
  };
  Use use() const;

  // Does `work`, and if it breaks down (BrokenEnvironment) beside others, once more alone: the GPU may take one process
  // at a time, or a worker may need more than was expected.
  template <typename Work>
  auto work_beside(std::int64_t bytes, const Work& work) {
    {
      const Hold beside = take(bytes);
      try {
        return work();
      } catch (const BrokenEnvironment&) {
        if (!beside.was_shared()) throw;
      }
    }
    const Hold alone = take(kAll);
    return work();
  }

 private:
  void give_back(std::int64_t bytes);

  const std::optional<std::int64_t> bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0, served_ = 0;  // tickets
  std::int64_t held_ = 0;
  int holders_ = 0;
};

// `work` of `bytes` in `room`, as work_beside(). If it breaks down for good while `shortage` names who lacks memory,
// somebody else has taken it, and the workload is postponed. A shortage counts only once `work` had the room alone:
// before that it may be what holds memory beside it. `shortage` may throw BrokenEnvironment, as a lost GPU does.
ReworkResult rework_or_postpone(MemoryRoom& room, std::int64_t bytes,
                                const std::function<ReworkResult()>& work,
                                const std::function<std::string()>& shortage);

}  // namespace moetune
