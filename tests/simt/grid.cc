#include "tests/simt/grid.h"

#include <algorithm>
#include <cstring>

namespace moetune::testing {
namespace {

constexpr std::uint32_t kWarp = 32;
constexpr std::uint32_t kThreadsAlive = 16384;
constexpr std::uint8_t kSharedPoison = 0xCD;
constexpr std::uint64_t kMostIdleDispatches = 2'000'000;
constexpr std::uint64_t kIdleBeforeDelivery = 100'000;  // threads that poll let nobody else be idle
constexpr std::size_t kCompactAfter = 4096;
constexpr std::size_t kSharedAlignment = 128;

Grid* active = nullptr;

simt::Index index_of(const Dim3& extent, std::uint64_t number) {
  const auto at = [](std::uint64_t value) { return static_cast<unsigned>(value); };
  return {at(number % extent[0]), at(number / extent[0] % extent[1]), at(number / extent[0] / extent[1])};
}

simt::Index index_of(const Dim3& extent) { return {extent[0], extent[1], extent[2]}; }

}  // namespace

Grid::Grid(const GridLaunch& launch, const SimtOptions& options, FiberStacks& stacks)
    : launch_(launch),
      options_(options),
      stacks_(stacks),
      random_state_(options.seed),
      predecessor_ended_(!launch.shape.programmatic_dependent) {
  const Dim3 &grid = launch.shape.grid, &block = launch.shape.block;
  block_threads_ = block[0] * block[1] * block[2];
  block_count_ = std::uint64_t{grid[0]} * grid[1] * grid[2];
  const std::uint32_t fit = std::max(1u, kThreadsAlive / block_threads_);
  const std::uint32_t wanted = options.resident_blocks == 0 ? fit : options.resident_blocks;
  const std::uint32_t resident = std::max(1u, wanted / cluster_size()) * cluster_size();
  for (std::size_t slot = 0; slot < std::min<std::uint64_t>(resident, block_count_); ++slot) {
    blocks_.push_back(std::make_unique<GridBlock>());
    start_block(*blocks_.back(), slot);
  }
}

Grid::~Grid() = default;

void Grid::start_block(GridBlock& block, std::size_t slot) {
  if (block.threads.empty()) {
    block.threads.resize(block_threads_);
    block.warps.resize((block_threads_ + kWarp - 1) / kWarp);
    block.shared = std::make_unique<GuardedMemory>(launch_.shape.dynamic_shared, kSharedAlignment);
    block.static_shared.resize(static_cast<std::size_t>(launch_.module.shared_end - launch_.module.shared_begin));
    for (std::uint32_t i = 0; i < block_threads_; ++i) block.threads[i].stack = stacks_.at(slot * block_threads_ + i);
  }
  block.shared->make_intact();
  std::memset(block.shared->data(), kSharedPoison, block.shared->bytes().size());
  std::fill(block.static_shared.begin(), block.static_shared.end(), kSharedPoison);
  if (in_place_ == &block) in_place_ = nullptr;
  block.number = started_++;
  block.alive = static_cast<int>(block_threads_);
  block.has_waited = false;
  block.ready.clear();
  block.next = 0;
  block.mbarriers.clear();
  join_cluster(block);
  for (GridWarp& warp : block.warps) warp = {};
  for (std::uint32_t i = 0; i < block_threads_; ++i) prepare_thread(block, i);
  for (std::uint32_t i = block_threads_; i < block.warps.size() * kWarp; ++i)
    block.warps.back().absent |= 1u << i % kWarp;
}

std::uint32_t Grid::cluster_size() const {
  const Dim3& cluster = launch_.shape.cluster;
  return cluster[0] * cluster[1] * cluster[2];
}

// Blocks start cluster by cluster.
simt::Index Grid::block_index(std::uint64_t number) const {
  const Dim3 &grid = launch_.shape.grid, &cluster = launch_.shape.cluster;
  const simt::Index within = index_of(cluster, number % cluster_size());
  const simt::Index of =
      index_of({grid[0] / cluster[0], grid[1] / cluster[1], grid[2] / cluster[2]}, number / cluster_size());
  return {of.x * cluster[0] + within.x, of.y * cluster[1] + within.y, of.z * cluster[2] + within.z};
}

void Grid::join_cluster(GridBlock& block) {
  const std::uint32_t size = cluster_size();
  const auto rank = block.number % size;
  if (rank == 0) {
    cluster_ = std::make_shared<GridCluster>();
    cluster_->view = {.size = size, .threads = size * block_threads_};
  }
  cluster_->blocks[rank] = &block;
  block.cluster = cluster_;
}

void Grid::prepare_thread(GridBlock& block, std::uint32_t position) {
  GridThread& thread = block.threads[position];
  thread.view = {.thread = index_of(launch_.shape.block, position),
                 .block = block_index(block.number),
                 .block_dim = index_of(launch_.shape.block),
                 .grid_dim = index_of(launch_.shape.grid),
                 .lane = position % kWarp,
                 .dynamic_shared = block.shared->data(),
                 .cluster_rank = static_cast<unsigned>(block.number % cluster_size())};
  thread.products = {};
  thread.block = &block;
  thread.warp = &block.warps[position / kWarp];
  if (thread.view.lane == 0) thread.warp->lanes = &thread;
  prepare_fiber(thread.fiber, thread.stack, thread_main);
  make_ready(thread);
}

void Grid::run() {
  active = this;
  launch_.hide_memory(!predecessor_ended_);
  {
    FaultCatcher catcher(may_catch, options_.patience_seconds);
    if (sigsetjmp(catcher.landing(), 1) == 0) {
      schedule();
    } else {
      error_ = explain(catcher.fault());
    }
  }
  active = nullptr;
  launch_.hide_memory(false);
  if (!error_.empty()) throw SimtError(launch_.shape.entry.text() + ": " + error_);
}

// Until all blocks have ended or one has failed. A fault jumps out of here: no variable owns anything.
void Grid::schedule() {
  while (!blocks_.empty()) {
    bool ran = false;
    for (std::size_t turn = 0; turn < blocks_.size() && error_.empty(); ++turn) {
      if (options_.seed != 0) std::swap(blocks_[turn], blocks_[turn + random() % (blocks_.size() - turn)]);
      ran |= take_turn(*blocks_[turn]);
    }
    const bool idle = !ran || idle_dispatches_ > kIdleBeforeDelivery;
    if (error_.empty() && !(idle && (deliver() || end_predecessor())) && !ran)
      error_ = "deadlock, no thread can go on" + waiting_threads();
    if (!error_.empty()) return;
    retire_ended();
  }
}

// The launch in front ends as late as it can: once no thread of this one gets any further without that. False if it
// has ended before.
bool Grid::end_predecessor() {
  if (predecessor_ended_) return false;
  predecessor_ended_ = true;
  launch_.hide_memory(false);
  for (const auto& block : blocks_) {
    for (GridThread& thread : block->threads) {
      if (thread.state == ThreadState::predecessor) make_ready(thread);
    }
  }
  return true;
}

// Whether any thread ran.
bool Grid::take_turn(GridBlock& block) {
  std::erase_if(block.polling, [&](GridThread* thread) {
    if (!thread->sees_wanted()) return false;
    idle_dispatches_ = 0;
    make_ready(*thread);
    return true;
  });
  for (GridThread* thread : block.yielded) make_ready(*thread);
  block.yielded.clear();
  // Shuffled, blocks meet in the middle of their work; and some are at its end before others have begun.
  const bool has_limit = options_.seed != 0 && random() % 4 != 0;
  std::uint64_t left = has_limit ? 1 + random() % (2 * block_threads_) : ~std::uint64_t{0};
  bool ran = false;
  for (GridThread* thread; left > 0 && (thread = next_ready(block)) != nullptr; --left) {
    place_static_shared(block);
    dispatch(*thread);
    ran = true;
    if (!error_.empty()) break;
    if (++idle_dispatches_ > kMostIdleDispatches) {
      error_ = "threads spin, and none gets any further" + waiting_threads();
      break;
    }
  }
  return ran;
}

GridThread* Grid::next_ready(GridBlock& block) {
  if (block.next == block.ready.size()) return nullptr;
  if (options_.seed != 0) {
    const std::size_t other = block.next + random() % (block.ready.size() - block.next);
    std::swap(block.ready[block.next], block.ready[other]);
  }
  GridThread* thread = block.ready[block.next++];
  if (block.next == block.ready.size() || block.next >= kCompactAfter) {
    block.ready.erase(block.ready.begin(), block.ready.begin() + static_cast<std::ptrdiff_t>(block.next));
    block.next = 0;
  }
  return thread;
}

void Grid::make_ready(GridThread& thread) {
  thread.state = ThreadState::ready;
  thread.block->ready.push_back(&thread);
}

void Grid::dispatch(GridThread& thread) {
  running_ = &thread;
  *launch_.module.current = &thread.view;
  switch_fiber(home_, thread.fiber);
  running_ = nullptr;
}

void Grid::leave() { switch_fiber(running_->fiber, home_); }

void Grid::pause() {
  make_ready(*running_);
  leave();
}

// Puts new blocks where others have ended, and checks what those left.
void Grid::retire_ended() {
  for (std::size_t slot = 0; slot < blocks_.size();) {
    GridBlock& block = *blocks_[slot];
    if (block.alive > 0) {
      ++slot;
      continue;
    }
    if (launch_.shape.programmatic_dependent && !block.has_waited) {
      error_ = "block " + format_index(block.threads[0].view.block) +
               " has ended without waiting for the launch in front; what follows relies on that";
      return;
    }
    if (!block.shared->is_intact()) {
      error_ = "block " + format_index(block.threads[0].view.block) + " wrote before or past its " +
               std::to_string(launch_.shape.dynamic_shared) + " bytes of dynamic shared memory";
      return;
    }
    if (started_ < block_count_) {
      start_block(block, slot++);
    } else {
      if (in_place_ == &block) in_place_ = nullptr;
      std::swap(blocks_[slot], blocks_.back());
      blocks_.pop_back();
    }
  }
}

void Grid::place_static_shared(GridBlock& block) {
  if (in_place_ == &block || block.static_shared.empty()) return;
  std::uint8_t* place = launch_.module.shared_begin;
  if (in_place_ != nullptr) std::memcpy(in_place_->static_shared.data(), place, block.static_shared.size());
  std::memcpy(place, block.static_shared.data(), block.static_shared.size());
  in_place_ = &block;
}

// A thread that has run for too long is not torn out of the emulator's own functions.
bool Grid::may_catch(int signal) {
  return active != nullptr && active->running_ != nullptr && !(signal == SIGVTALRM && active->in_call_);
}

Grid::Call::Call() { active->in_call_ = true; }
Grid::Call::~Call() { active->in_call_ = false; }

void Grid::thread_main() {
  active->in_call_ = false;
  active->launch_.entry->call(active->launch_.arguments);
  active->end_thread();
}

// SplitMix64.
std::uint64_t Grid::random() {
  std::uint64_t word = random_state_ += 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

// --- what the running thread calls ----------------------------------------------------------------------------

template <auto method, typename... Arguments>
auto Grid::call(Arguments... arguments) {
  const Call call;
  return (active->*method)(arguments...);
}

const simt::Runtime* Grid::runtime() {
  static const simt::Runtime calls = {
      .exchange = call<&Grid::exchange, const char*, unsigned, unsigned long long>,
      .barrier = call<&Grid::barrier, const char*, int, int, int>,
      .arrive = call<&Grid::arrive, int, int>,
      .wait = call<&Grid::wait, const unsigned*, unsigned, bool>,
      .await_predecessor = call<&Grid::await_predecessor>,
      .allow_dependents = call<&Grid::allow_dependents>,
      .may_read = call<&Grid::may_read>,
      .cluster = call<&Grid::cluster>,
      .mbarrier_init = call<&Grid::mbarrier_init, unsigned, unsigned>,
      .mbarrier_expect = call<&Grid::mbarrier_expect, unsigned, unsigned>,
      .mbarrier_arrive = call<&Grid::mbarrier_arrive, unsigned>,
      .mbarrier_wait = call<&Grid::mbarrier_wait, unsigned, unsigned>,
      .bulk_copy = call<&Grid::bulk_copy, const simt::BulkCopy*>,
      .check_map = call<&Grid::check_map, const void*, int>,
      .store_async = call<&Grid::store_async, unsigned, unsigned, const void*, unsigned>,
      .make_copies = call<&Grid::make_copies, unsigned>,
      .await_copies = call<&Grid::await_copies>,
      .multiply_begin = call<&Grid::multiply_begin>,
      .multiply = call<&Grid::multiply, const simt::Multiply*>,
      .multiply_commit = call<&Grid::multiply_commit>,
      .multiply_wait = call<&Grid::multiply_wait, unsigned>,
      .yield = call<&Grid::yield>,
      .step = call<&Grid::step, bool>,
      .fail = call<&Grid::fail, const char*>};
  return &calls;
}

void Grid::await_predecessor() {
  running_->block->has_waited = true;
  if (predecessor_ended_) return;
  running_->state = ThreadState::predecessor;
  leave();
}

void Grid::allow_dependents() { allowed_dependents_early_ |= !predecessor_ended_; }

bool Grid::may_read() { return predecessor_ended_; }

simt::Cluster* Grid::cluster() { return &running_->block->cluster->view; }

void Grid::yield() {
  running_->what = "runs, and lets others run";
  running_->block->yielded.push_back(running_);
  leave();
}

// Maybe: to others of its block alone, so that the block may come far in one turn.
void Grid::give_way() {
  if (options_.seed != 0 && (random() & 3) == 0) pause();
}

// A thread that spins on an atomic must let others run, now and then.
void Grid::step(bool changed) {
  if (changed) idle_dispatches_ = 0;
  if (options_.seed != 0 ? (random() & 3) == 0 : ++steps_ % 16 == 0) yield();
}

void Grid::wait(const unsigned* address, unsigned value, bool reaches) {
  GridThread& thread = *running_;
  thread.address = address;
  thread.wanted = value;
  thread.reaches = reaches;
  if (thread.sees_wanted()) return step(false);
  thread.state = ThreadState::polling;
  thread.block->polling.push_back(&thread);
  leave();
}

void Grid::fail(const std::string& message) {
  error_ = name_of(*running_) + ": " + message;
  leave();
  __builtin_unreachable();
}

}  // namespace moetune::testing
