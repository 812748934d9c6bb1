// One launch on the CPU: the fibers of the blocks that are alive, their turns, and what they wait for.
//
// Blocks take turns, and within its turn a block runs until none of its threads can. A thread gives way only in a
// call of simt::Runtime. Not thread-safe; one runs at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/plan.h"
#include "tests/simt/device/simt_runtime.h"
#include "tests/simt/fault.h"
#include "tests/simt/fiber.h"
#include "tests/simt/guarded_memory.h"
#include "tests/simt/simt_device.h"

namespace moetune::testing {

struct GridBlock;
struct GridWarp;

enum class ThreadState { ready, collective, barrier, polling, predecessor, ended };

struct GridThread {
  Fiber fiber;
  FiberStack stack;
  simt::Thread view;
  GridBlock* block = nullptr;
  GridWarp* warp = nullptr;
  ThreadState state = ThreadState::ready;
  const char* what = "";  // the call that it waits in
  // Of a collective: what it gave, and what it got last.
  std::uint32_t mask = 0;
  std::uint64_t value = 0;
  simt::Snapshot* held = nullptr;
  // Of a barrier.
  int barrier = 0;
  simt::BarrierResult result{};
  // Of a wait for a value.
  const unsigned* address = nullptr;
  unsigned wanted = 0;
  bool reaches = false;

  std::uint32_t bit() const { return 1u << view.lane; }
  bool sees_wanted() const { return reaches ? static_cast<int>(*address - wanted) >= 0 : *address == wanted; }
};

struct GridWarp {
  GridThread* lanes = nullptr;
  std::uint32_t waiting = 0;  // in a collective
  std::uint32_t absent = 0;   // ended, or never there
};

struct GridBarrier {
  const char* what = "";
  int arrived = 0, nonzero = 0, expected = 0;  // 0: all that have not ended
  std::vector<GridThread*> waiting;
};

struct GridBlock {
  static constexpr int kBarriers = 16;

  std::uint64_t number = 0;  // of the grid
  std::vector<GridThread> threads;
  std::vector<GridWarp> warps;
  std::array<GridBarrier, kBarriers> barriers;
  int alive = 0;
  bool has_waited = false;  // for the launch in front: one of its threads, at least
  std::shared_ptr<simt::Cluster> cluster;
  std::vector<GridThread*> ready;  // from `next` on
  std::size_t next = 0;
  std::vector<GridThread*> yielded;  // ready at the block's next turn
  std::vector<GridThread*> polling;
  std::unique_ptr<GuardedMemory> shared;
  std::vector<std::uint8_t> static_shared;  // while another block's is in place
};

struct GridLaunch {
  simt::Module module;
  const simt::Entry* entry = nullptr;
  void* const* arguments = nullptr;
  LaunchShape shape;
  std::function<std::string(const void*)> describe;  // what lies at an address; "" if that is unknown
  std::function<void(bool hidden)> hide_memory;      // buffers and scratch: any access faults
};

std::string format_index(const simt::Index& index);  // "(1,0,0)"

class Grid {
 public:
  Grid(const GridLaunch& launch, const SimtOptions& options, FiberStacks& stacks);
  ~Grid();

  // Throws SimtError.
  void run();

  static const simt::Runtime* runtime();

 private:
  // A call of the running thread.
  struct Call {
    Call();
    ~Call();
  };
  template <auto method, typename... Arguments>
  static auto call(Arguments... arguments);

  const simt::Snapshot* exchange(const char* what, std::uint32_t mask, std::uint64_t value);
  simt::BarrierResult barrier(const char* what, int id, int threads, int value);
  void arrive(int id, int threads);
  void wait(const unsigned* address, unsigned value, bool reaches);
  void await_predecessor();
  simt::Cluster* cluster();
  void yield();
  void step(bool changed);
  [[noreturn]] void fail(const std::string& message);

  static bool may_catch(int signal);
  static void thread_main();
  [[noreturn]] void end_thread();

  void schedule();
  void end_predecessor();
  bool take_turn(GridBlock& block);
  void dispatch(GridThread& thread);
  void leave();  // the running thread gives way to the scheduler
  void pause();  // the same, and is ready at once
  GridThread* next_ready(GridBlock& block);
  void make_ready(GridThread& thread);
  void start_block(GridBlock& block, std::size_t slot);
  void prepare_thread(GridBlock& block, std::uint32_t position);
  void join_cluster(GridBlock& block);
  void retire_ended();
  void place_static_shared(GridBlock& block);

  bool lanes_agree(const GridWarp& warp, const GridThread& thread);
  void complete_exchange(GridWarp& warp, GridThread& last);
  void release_snapshot(GridThread& thread);
  GridBarrier& count_in(const char* what, int id, int threads, int value);
  bool complete_barrier(GridBlock& block, GridBarrier& barrier);

  std::uint64_t random();
  std::string name_of(const GridThread& thread) const;
  std::string waits_for(const GridThread& thread) const;
  std::string waiting_threads() const;
  std::string explain(const Fault& fault) const;
  std::string explain_address(const void* address) const;

  const GridLaunch& launch_;
  const SimtOptions& options_;
  FiberStacks& stacks_;
  std::uint64_t random_state_;
  std::uint32_t block_threads_;
  std::uint64_t block_count_, started_ = 0;
  std::vector<std::unique_ptr<GridBlock>> blocks_;  // alive
  std::shared_ptr<simt::Cluster> cluster_;          // that the last block to start has joined
  GridBlock* in_place_ = nullptr;                   // whose static shared memory is there
  GridThread* running_ = nullptr;
  bool predecessor_ended_;
  bool in_call_ = false;  // the running thread is in one of the emulator's functions
  Fiber home_;
  std::uint64_t idle_dispatches_ = 0;  // since a thread last got further or changed what others can see
  unsigned steps_ = 0;
  std::vector<std::unique_ptr<simt::Snapshot>> snapshots_;
  std::vector<simt::Snapshot*> free_snapshots_;
  std::string error_;
};

}  // namespace moetune::testing
