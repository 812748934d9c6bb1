// What several equal devices take their work from: one queue of workloads, longest or most valuable first, and for each
// device the winners of others that it is to check. Knows neither devices nor workloads.
//
// Thread-safe. A device is a position from 0; one thread of it takes items, another one checks. Both block while the
// turns of others may yet bring work: an item whose device failed, or a winner to check.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace moetune {

class WorkQueue {
 public:
  struct Turn {
    std::size_t item = 0;
    bool check = false;  // of a winner that another device has found
  };

  // Items are taken in order.
  WorkQueue(std::size_t items, std::size_t devices);

  // Whether there is an item that the device may take now, so that take() need not wait.
  bool has_item(std::size_t device) const;
  // An item. nullopt: none is left for the device.
  std::optional<Turn> take(std::size_t device);
  // A check, as soon as there is one, so that a winner that is slower elsewhere does not stay long. nullopt: no more
  // will come for the device.
  std::optional<Turn> take_check(std::size_t device);
  // Whether a check may yet come for the device, or is there.
  bool expects_check(std::size_t device) const;
  // A turn has ended. With `share` all other devices that are still there are to check the item's winner.
  void done(std::size_t device, const Turn& turn, bool share = false);
  // The device failed under it. Whether another device takes it: one that has not failed under it.
  bool failed(std::size_t device, const Turn& turn);
  // The device is gone, between turns of the calling thread. False if it was gone already.
  bool leave(std::size_t device);
  // From now on nothing more is taken.
  void stop();

  std::size_t devices_left() const;
  std::size_t waiting() const;  // threads that a take() or take_check() holds now
  // Once every thread's take() has returned nothing: the items that no device has done, because each that is left had
  // failed under them, in order. Empty after a stop, which leaves items to the next night.
  std::vector<std::size_t> lost() const;

 private:
  struct Device {
    bool gone = false;
    std::deque<std::size_t> checks;
  };

  std::deque<std::size_t>::const_iterator next_of(std::size_t device) const;
  bool has_taker(std::size_t item) const;
  bool may_share() const;  // whether an item is under way, or may be yet
  void wait(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> items_;
  std::vector<std::set<std::size_t>> failed_;  // by item, the devices
  std::vector<Device> devices_;
  std::size_t running_ = 0;  // items
  std::size_t waiting_ = 0;
  bool stopped_ = false;
};

}  // namespace moetune
