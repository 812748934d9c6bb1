// One launch on the CPU: the fibers of the blocks that are alive, their turns, and what they wait for.
//
// Blocks take turns, and within its turn a block runs until none of its threads can. A thread gives way only in a
// call of simt::Runtime. What the copy engine brings lands once no thread can go on without it (by the seed, up to all
// of it at once), and its place is poisoned until then. Not thread-safe; one runs at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
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
struct GridThread;
struct GridWarp;

enum class ThreadState { ready, collective, barrier, mbarrier, polling, predecessor, ended };

// An mbarrier. Its 8 bytes in shared memory hold a mark, by which overwriting them is found.
struct GridMbarrier {
  unsigned expected = 0, pending = 0;  // arrivals of a phase
  std::int64_t bytes = 0;              // that the phase expects and that have not landed
  unsigned phase = 0;
  std::vector<GridThread*> waiting;
};

// What lands in a block's shared memory as late as it can, or the arrival behind a thread's pending copies.
struct GridDelivery {
  GridBlock* block = nullptr;
  std::uint32_t destination = 0, barrier = 0;  // of the block
  unsigned swizzle_bytes = 0;
  std::shared_ptr<const std::vector<std::uint8_t>> bytes;
  GridThread* copier = nullptr;  // whose copies come first; then nothing else lands
  std::string asked_by;
};

// Accumulators of a lane's products: what they are while the lane sees poison.
struct GridSums {
  float* place = nullptr;
  unsigned group = 0;  // the last that adds to them
  std::vector<float> values;
};

struct GridMultiply {
  simt::Multiply one{};
  unsigned group = 0;
  std::array<std::uint32_t, 4> a_words{};
};

// The products that a lane has under way.
struct GridLane {
  bool has_begun = false;
  unsigned group = 0;  // of the next commit
  std::vector<GridMultiply> issued;
  std::vector<GridSums> sums;
};

// What one product of a warp reads in shared memory, which must not change until it has ended.
struct GridOperands {
  simt::Multiply one{};
  unsigned group = 0;
  std::vector<std::uint8_t> a, b;
};

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
  // Of a wait for an mbarrier.
  std::uint32_t mbarrier = 0;
  unsigned parity = 0;
  GridLane products;
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
  unsigned groups = 0;        // of products that were computed
  std::vector<GridOperands> operands;
  // All products so far: the same in all warps of a warpgroup.
  unsigned products = 0;
  std::uint64_t product_digest = 0;
};

struct GridBarrier {
  const char* what = "";
  int arrived = 0, nonzero = 0, expected = 0;  // 0: all that have not ended
  std::vector<GridThread*> waiting;
};

struct GridCluster {
  simt::Cluster view{};
  std::array<GridBlock*, simt::Cluster::kMostBlocks>
      blocks{};  // by rank; null before they begin and once they have ended
};

struct GridBlock {
  static constexpr int kBarriers = 16;

  std::uint64_t number = 0;  // of the grid
  std::vector<GridThread> threads;
  std::vector<GridWarp> warps;
  std::array<GridBarrier, kBarriers> barriers;
  int alive = 0;
  bool has_waited = false;  // for the launch in front: one of its threads, at least
  std::shared_ptr<GridCluster> cluster;
  std::map<std::uint32_t, GridMbarrier> mbarriers;  // by shared address
  std::vector<GridThread*> ready;                   // from `next` on
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
  std::function<void(bool hidden)> hide_memory;      // what the launch in front may write: any access faults
};

std::string format_index(const simt::Index& index);  // "(1,0,0)"

class Grid {
 public:
  Grid(const GridLaunch& launch, const SimtOptions& options, FiberStacks& stacks);
  ~Grid();

  // Throws SimtError.
  void run();
  // Whether the next launch may have begun before the launch in front of this one has ended.
  bool allowed_dependents_early() const { return allowed_dependents_early_; }

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
  void allow_dependents();
  bool may_read();
  simt::Cluster* cluster();
  void mbarrier_init(unsigned address, unsigned arrivals);
  void mbarrier_expect(unsigned address, unsigned bytes);
  void mbarrier_arrive(unsigned address);
  void mbarrier_wait(unsigned address, unsigned parity);
  void bulk_copy(const simt::BulkCopy* copy);
  void check_map(const void* map, int rank);
  void store_async(unsigned address, unsigned barrier, const void* words, unsigned bytes);
  void make_copies(unsigned group);
  void await_copies();
  void multiply_begin();
  void multiply(const simt::Multiply* one);
  void multiply_commit();
  void multiply_wait(unsigned pending);
  void yield();
  void step(bool changed);
  [[noreturn]] void fail(const std::string& message);

  static bool may_catch(int signal);
  static void thread_main();
  [[noreturn]] void end_thread();

  void schedule();
  bool end_predecessor();
  bool take_turn(GridBlock& block);
  void dispatch(GridThread& thread);
  void leave();  // the running thread gives way to the scheduler
  void pause();  // the same, and is ready at once
  void give_way();
  GridThread* next_ready(GridBlock& block);
  void make_ready(GridThread& thread);
  void start_block(GridBlock& block, std::size_t slot);
  void prepare_thread(GridBlock& block, std::uint32_t position);
  simt::Index block_index(std::uint64_t number) const;
  void join_cluster(GridBlock& block);
  void end_block(GridBlock& block);
  void retire_ended();
  void place_static_shared(GridBlock& block);

  bool lanes_agree(const GridWarp& warp, const GridThread& thread);
  void complete_exchange(GridWarp& warp, GridThread& last);
  void release_snapshot(GridThread& thread);
  GridBarrier& count_in(const char* what, int id, int threads, int value);
  bool complete_barrier(GridBlock& block, GridBarrier& barrier);

  std::uint32_t cluster_size() const;
  // The block that has `bytes` bytes of dynamic shared memory at a shared address, which becomes the block's own. Fails
  // if none has.
  GridBlock& owner_of(std::uint32_t& address, std::size_t bytes, std::size_t alignment, const char* what);
  std::uint8_t* shared_bytes(GridBlock& block, std::uint32_t address);
  // Null, and `error` says why, if no mbarrier is there.
  GridMbarrier* mbarrier_at(GridBlock& block, std::uint32_t address, std::string& error);
  // Counts arrivals, and bytes: expected ones, or, negative, landed ones. Says what is wrong.
  std::string count(GridBlock& block, std::uint32_t address, unsigned arrivals, std::int64_t bytes);
  void send(GridDelivery delivery, const void* from);
  std::string land(const GridDelivery& delivery);
  bool deliver();  // whether anything was under way
  std::string make_next_copy(GridThread& thread);

  void compute(GridWarp& warp, unsigned group);
  void compute_one(GridWarp& warp, std::size_t at, const std::vector<std::size_t>& first);
  void read_operands(const GridWarp& warp, GridOperands& operands);
  std::size_t warp_number(const GridWarp& warp) const;
  void check_warpgroups(const GridBlock& block);

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
  std::shared_ptr<GridCluster> cluster_;            // that the last block to start has joined
  GridBlock* in_place_ = nullptr;                   // whose static shared memory is there
  GridThread* running_ = nullptr;
  bool predecessor_ended_, allowed_dependents_early_ = false;
  std::list<GridDelivery> deliveries_;  // in the order in which they were asked for
  bool in_call_ = false;                // the running thread is in one of the emulator's functions
  Fiber home_;
  std::uint64_t idle_dispatches_ = 0;  // since a thread last got further or changed what others can see
  unsigned steps_ = 0;
  std::vector<std::unique_ptr<simt::Snapshot>> snapshots_;
  std::vector<simt::Snapshot*> free_snapshots_;
  std::string error_;
};

}  // namespace moetune::testing
