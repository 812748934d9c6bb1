// Warp collectives and barriers of Grid.
#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/simt/grid.h"

namespace moetune::testing {
namespace {

constexpr unsigned kLanes = 32;

bool same_call(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

std::string lane_list(std::uint32_t lanes) {
  return "lane " + std::to_string(std::countr_zero(lanes)) + " of its warp";
}

}  // namespace

const simt::Snapshot* Grid::exchange(const char* what, std::uint32_t mask, std::uint64_t value) {
  GridThread& thread = *running_;
  GridWarp& warp = *thread.warp;
  release_snapshot(thread);
  if ((mask & thread.bit()) == 0) fail(std::string(what) + " with a mask that does not name the lane that calls it");
  if ((mask & warp.absent) != 0)
    fail(std::string(what) + " waits for " + lane_list(mask & warp.absent) + ", which has ended");
  thread.what = what;
  thread.mask = mask;
  thread.value = value;
  warp.waiting |= thread.bit();
  if ((warp.waiting & mask) == mask && lanes_agree(warp, thread)) {
    complete_exchange(warp, thread);
    if (options_.seed != 0 && (random() & 1) != 0) pause();
  } else {
    thread.state = ThreadState::collective;
    leave();
  }
  return thread.held;
}

// Whether all lanes in the mask wait in this collective.
bool Grid::lanes_agree(const GridWarp& warp, const GridThread& thread) {
  for (std::uint32_t left = thread.mask; left != 0; left &= left - 1) {
    const GridThread& other = warp.lanes[std::countr_zero(left)];
    if (other.mask != thread.mask) return false;
    if (!same_call(other.what, thread.what))
      fail("calls " + std::string(thread.what) + " where " + name_of(other) + " with the same mask calls " +
           other.what);
  }
  return true;
}

void Grid::complete_exchange(GridWarp& warp, GridThread& last) {
  if (free_snapshots_.empty()) {
    snapshots_.push_back(std::make_unique<simt::Snapshot>());
    free_snapshots_.push_back(snapshots_.back().get());
  }
  simt::Snapshot* snapshot = free_snapshots_.back();
  free_snapshots_.pop_back();
  snapshot->mask = last.mask;
  snapshot->readers = std::popcount(last.mask);
  for (std::uint32_t left = last.mask; left != 0; left &= left - 1) {
    GridThread& lane = warp.lanes[std::countr_zero(left)];
    snapshot->values[lane.view.lane] = lane.value;
    lane.held = snapshot;
    if (&lane != &last) make_ready(lane);
  }
  warp.waiting &= ~last.mask;
  idle_dispatches_ = 0;
}

void Grid::release_snapshot(GridThread& thread) {
  if (thread.held != nullptr && --thread.held->readers == 0) free_snapshots_.push_back(thread.held);
  thread.held = nullptr;
}

simt::BarrierResult Grid::barrier(const char* what, int id, int threads, int value) {
  GridThread& thread = *running_;
  GridBarrier& barrier = count_in(what, id, threads, value);
  thread.what = what;
  thread.barrier = id;
  barrier.waiting.push_back(&thread);
  thread.state = ThreadState::barrier;
  if (!complete_barrier(*thread.block, barrier)) {
    leave();
  } else if (options_.seed != 0) {
    pause();
  }
  return thread.result;
}

void Grid::arrive(int id, int threads) {
  complete_barrier(*running_->block, count_in("barrier", id, threads, 0));
  step(true);
}

GridBarrier& Grid::count_in(const char* what, int id, int threads, int value) {
  if (id < 0 || id >= GridBlock::kBarriers) fail("there is no barrier " + std::to_string(id));
  if (threads % static_cast<int>(kLanes) != 0) fail("a barrier over part of a warp");
  GridBarrier& barrier = running_->block->barriers[static_cast<std::size_t>(id)];
  if (barrier.arrived == 0) {
    barrier.what = what;
    barrier.expected = threads;
  }
  if (barrier.expected != threads)
    fail("barrier " + std::to_string(id) + " over " + std::to_string(threads) + " threads, where others wait for " +
         std::to_string(barrier.expected));
  if (threads == 0 && !same_call(barrier.what, what))
    fail("calls " + std::string(what) + " where others of its block wait in " + barrier.what);
  ++barrier.arrived;
  barrier.nonzero += value != 0;
  return barrier;
}

bool Grid::complete_barrier(GridBlock& block, GridBarrier& barrier) {
  const int expected = barrier.expected == 0 ? block.alive : barrier.expected;
  if (barrier.arrived == 0 || barrier.arrived < expected) return false;
  for (GridThread* thread : barrier.waiting) {
    thread->result = {barrier.nonzero, barrier.arrived};
    if (thread != running_) make_ready(*thread);
  }
  barrier.waiting.clear();
  barrier.arrived = barrier.nonzero = 0;
  idle_dispatches_ = 0;
  return true;
}

void Grid::end_thread() {
  GridThread& thread = *running_;
  GridWarp& warp = *thread.warp;
  release_snapshot(thread);
  warp.absent |= thread.bit();
  for (std::uint32_t left = warp.waiting; left != 0; left &= left - 1) {
    const GridThread& other = warp.lanes[std::countr_zero(left)];
    if ((other.mask & thread.bit()) != 0) fail("ends where " + name_of(other) + " waits for it in " + other.what);
  }
  if (!thread.products.sums.empty()) fail("ends before it has waited for its wgmma");
  thread.state = ThreadState::ended;
  if (--thread.block->alive == 0) end_block(*thread.block);
  GridBarrier& whole = thread.block->barriers[0];
  if (whole.expected == 0) complete_barrier(*thread.block, whole);
  idle_dispatches_ = 0;
  leave();
  __builtin_unreachable();
}

}  // namespace moetune::testing
