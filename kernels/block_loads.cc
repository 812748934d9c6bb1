#include "kernels/block_loads.h"

#include <algorithm>
#include <functional>

namespace moetune {
namespace {

// Blocks that run and end together.
struct Ending {
  double at = 0;  // bytes that one block has read by then since the launch began
  std::int64_t blocks = 0;
  bool operator>(const Ending& other) const { return at > other.at; }
};

// Blocks that run, by when they end. All are equally fast, so that bytes order them whatever the rate.
class RunningBlocks {
 public:
  RunningBlocks(const BlockLoads& loads, const BlockPace& pace)
      : pace_(pace), next_(loads.runs.begin()), end_(loads.runs.end()) {
    if (next_ != end_) left_ = next_->blocks;
  }

  std::int64_t count() const { return running_; }

  // Starts up to `blocks` at `now`.
  void start(double now, std::int64_t blocks) {
    while (blocks > 0 && next_ != end_) {
      const std::int64_t started = std::min(blocks, left_);
      if (started > 0) {
        const double bytes = next_->bytes > 0 ? next_->bytes + pace_.block_bytes : pace_.idle_block_bytes;
        endings_.push_back({now + bytes, started});
        std::ranges::push_heap(endings_, std::greater<>());
      }
      running_ += started;
      blocks -= started;
      left_ -= started;
      if (left_ == 0 && ++next_ != end_) left_ = next_->blocks;
    }
  }

  // Ends those that end first, all of them.
  Ending end_first() {
    Ending first{.at = endings_.front().at};
    while (!endings_.empty() && endings_.front().at == first.at) {
      first.blocks += endings_.front().blocks;
      std::ranges::pop_heap(endings_, std::greater<>());
      endings_.pop_back();
    }
    running_ -= first.blocks;
    return first;
  }

 private:
  const BlockPace& pace_;
  std::vector<Ending> endings_;  // a heap, the first in front
  std::vector<BlockLoads::Run>::const_iterator next_, end_;
  std::int64_t left_ = 0;  // blocks of the next run that have not started
  std::int64_t running_ = 0;
};

}  // namespace

void BlockLoads::add(std::int64_t blocks, double bytes) {
  if (blocks <= 0) return;
  if (!runs.empty() && runs.back().bytes == bytes)
    runs.back().blocks += blocks;
  else
    runs.push_back({blocks, bytes});
}

double makespan(const BlockLoads& loads, std::int64_t sm_count, const BlockPace& pace) {
  const auto sms = static_cast<double>(std::max<std::int64_t>(1, sm_count));
  RunningBlocks running(loads, pace);
  running.start(0, std::max<std::int64_t>(1, sm_count) * std::max<std::int64_t>(1, loads.resident));
  double time = 0, before = 0;
  while (running.count() > 0) {
    const double slower = std::max(1.0, static_cast<double>(running.count()) / (pace.saturating * sms));
    const Ending ending = running.end_first();
    time += (ending.at - before) * slower;
    before = ending.at;
    running.start(before, ending.blocks);
  }
  return time;
}

double mean_makespan(const std::vector<BlockLoads>& orders, std::int64_t sm_count, const BlockPace& pace) {
  double sum = 0;
  for (const BlockLoads& loads : orders) sum += makespan(loads, sm_count, pace);
  return orders.empty() ? 0 : sum / static_cast<double>(orders.size());
}

}  // namespace moetune
