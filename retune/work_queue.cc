#include "retune/work_queue.h"

#include <algorithm>
#include <utility>

namespace moetune {

WorkQueue::WorkQueue(std::size_t items, std::size_t devices) : failed_(items), devices_(devices) {
  for (std::size_t i = 0; i < items; ++i) items_.push_back(i);
}

// The first item that the device has not failed under.
std::deque<std::size_t>::const_iterator WorkQueue::next_of(std::size_t device) const {
  return std::find_if(items_.begin(), items_.end(),
                      [&](std::size_t item) { return !failed_[item].contains(device); });
}

bool WorkQueue::has_item(std::size_t device) const {
  const std::lock_guard lock(mutex_);
  return !stopped_ && !devices_[device].gone && next_of(device) != items_.end();
}

std::optional<WorkQueue::Turn> WorkQueue::take(std::size_t device) {
  std::unique_lock lock(mutex_);
  while (!stopped_ && !devices_[device].gone) {
    const auto next = next_of(device);
    if (next != items_.end()) {
      const Turn turn{.item = *next};
      items_.erase(next);
      ++running_;
      return turn;
    }
    if (running_ == 0) break;
    wait(lock);
  }
  changed_.notify_all();  // nobody may be left to take what others wait for
  return std::nullopt;
}

std::optional<WorkQueue::Turn> WorkQueue::take_check(std::size_t device) {
  std::unique_lock lock(mutex_);
  Device& mine = devices_[device];
  while (!stopped_ && !mine.gone) {
    if (!mine.checks.empty()) {
      const Turn turn{.item = mine.checks.front(), .check = true};
      mine.checks.pop_front();
      return turn;
    }
    if (!may_share()) break;
    wait(lock);
  }
  return std::nullopt;
}

bool WorkQueue::expects_check(std::size_t device) const {
  const std::lock_guard lock(mutex_);
  return !stopped_ && !devices_[device].gone && (!devices_[device].checks.empty() || may_share());
}

void WorkQueue::wait(std::unique_lock<std::mutex>& lock) {
  ++waiting_;
  changed_.wait(lock);
  --waiting_;
}

bool WorkQueue::may_share() const {
  return running_ > 0 ||
         std::any_of(items_.begin(), items_.end(), [this](std::size_t item) { return has_taker(item); });
}

void WorkQueue::done(std::size_t device, const Turn& turn, bool share) {
  const std::lock_guard lock(mutex_);
  running_ -= turn.check ? 0 : 1;
  for (std::size_t i = 0; share && i < devices_.size(); ++i)
    if (i != device && !devices_[i].gone) devices_[i].checks.push_back(turn.item);
  changed_.notify_all();
}

bool WorkQueue::has_taker(std::size_t item) const {
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (!devices_[i].gone && !failed_[item].contains(i)) return true;
  return false;
}

bool WorkQueue::failed(std::size_t device, const Turn& turn) {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  if (turn.check) return false;
  --running_;
  failed_[turn.item].insert(device);
  if (!has_taker(turn.item)) return false;
  items_.push_front(turn.item);
  return true;
}

bool WorkQueue::leave(std::size_t device) {
  const std::lock_guard lock(mutex_);
  devices_[device].checks.clear();
  changed_.notify_all();
  return !std::exchange(devices_[device].gone, true);
}

void WorkQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::size_t WorkQueue::devices_left() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(devices_.begin(), devices_.end(), [](const Device& one) { return !one.gone; }));
}

std::size_t WorkQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

std::vector<std::size_t> WorkQueue::lost() const {
  const std::lock_guard lock(mutex_);
  if (stopped_) return {};
  std::vector<std::size_t> left(items_.begin(), items_.end());
  std::sort(left.begin(), left.end());
  return left;
}

}  // namespace moetune
