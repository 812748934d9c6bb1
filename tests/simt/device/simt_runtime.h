// What a compiled template and the emulator say to each other. Both sides include this, the template's without
// any standard header.
#pragma once

namespace simt {

struct Index {
  unsigned x, y, z;
};

// An asynchronous copy that has not been made yet.
struct PendingCopy {
  const void* source;  // null: zeros
  unsigned bytes, destination, group;
  bool arrives;  // no copy: once those before it are made, the mbarrier at `destination` counts an arrival
  PendingCopy* next;
};

// A store by the bulk engine that has not been made yet.
struct PendingStore {
  void* destination;
  unsigned bytes, source, group;
  PendingStore* next;
};

// A copy by the bulk engine into shared memory, counted by an mbarrier.
struct BulkCopy {
  unsigned destination, barrier;  // shared addresses, in each of the blocks
  const void* source;             // the bytes, or the tensor map
  unsigned bytes;                 // without a tensor map
  int rank;                       // of the tensor; 0: without a tensor map
  int at[5];                      // where the box begins, innermost first
  unsigned blocks;                // of the cluster, a bit each; 0: this block
};

// A wgmma of M 64 as one lane issues it.
struct Multiply {
  char element;  // b(f16), h(alf) or e(4m3)
  bool add, transposed_a, transposed_b;
  unsigned columns;
  float* sum;               // columns / 2 values
  const unsigned* a_words;  // A in registers: 4 of them; null: in shared memory
  unsigned long long a, b;  // matrix descriptors
};

// A tensor map as the emulator encodes it, in 128 bytes like the driver's.
struct alignas(64) TensorMap {
  static constexpr unsigned kMark = 0x50616d54;

  const unsigned char* base;
  unsigned long long dims[5];     // elements, innermost first
  unsigned long long strides[4];  // bytes, of dims 1..
  unsigned box[5];
  unsigned mark;
  unsigned char rank, element_bytes;
  unsigned char swizzle_bytes;  // 32, 64 or 128; 0: none
};
static_assert(sizeof(TensorMap) == 128);

// A thread as it sees itself.
struct Thread {
  Index thread, block, block_dim, grid_dim;
  unsigned lane;
  unsigned char* dynamic_shared;
  unsigned cluster_rank;
  mutable unsigned cluster_phases;  // barriers of the cluster that this thread has waited for
  mutable PendingCopy *oldest_copy, *newest_copy;
  mutable unsigned copy_group;  // of the next copy
  mutable PendingStore *oldest_store, *newest_store;
  mutable unsigned store_group;  // of the next store
};

// The blocks that share a cluster with the running thread's.
struct Cluster {
  static constexpr unsigned kMostBlocks = 16;

  unsigned size, threads, arrivals;
};

// What the lanes of a warp gave to a collective. Valid until this thread's next call.
struct Snapshot {
  unsigned long long values[32];
  unsigned mask;
  int readers;  // the emulator's own
};

struct BarrierResult {
  int nonzero, threads;
};

// The emulator, as the running thread calls it.
struct Runtime {
  // Waits until all lanes in `mask` have called with the same `what` and mask.
  const Snapshot* (*exchange)(const char* what, unsigned mask, unsigned long long value);
  // Barrier `id` of the block, over `threads` threads; 0: over all that have not ended.
  BarrierResult (*barrier)(const char* what, int id, int threads, int value);
  void (*arrive)(int id, int threads);  // counts, and goes on
  // Waits until *address equals `value`, or (`reaches`) has come less than 2^31 past it.
  void (*wait)(const unsigned* address, unsigned value, bool reaches);
  // Waits until the launch in front has ended, where this one may begin before.
  void (*await_predecessor)();
  void (*allow_dependents)();  // lets the next launch begin
  bool (*may_read)();          // whether the launch in front has ended: global memory holds what it wrote
  Cluster* (*cluster)();

  // mbarriers, by shared address; one to arrive at may be another block's of the cluster.
  void (*mbarrier_init)(unsigned address, unsigned arrivals);
  void (*mbarrier_expect)(unsigned address, unsigned bytes);
  void (*mbarrier_arrive)(unsigned address);
  void (*mbarrier_wait)(unsigned address, unsigned parity);

  // Copies that land later, the bytes at their destination poisoned until then.
  void (*bulk_copy)(const BulkCopy* copy);
  void (*check_map)(const void* map, int rank);  // rank 0: any
  void (*store_async)(unsigned address, unsigned barrier, const void* words, unsigned bytes);
  void (*make_copies)(unsigned group);  // the pending ones of this thread before the group
  void (*await_copies)();               // this thread has pending copies, the last of them an arrival

  // Products that appear when they are waited for, the sums poisoned until then.
  void (*multiply_begin)();
  void (*multiply)(const Multiply* one);
  void (*multiply_commit)();
  void (*multiply_wait)(unsigned pending);  // groups that may go on

  void (*yield)();                    // lets the others run
  void (*step)(bool changed);         // maybe: after a look at what other threads change, or a change of it
  void (*fail)(const char* message);  // ends the run; does not return
};

struct Parameter {
  char kind;  // p(ointer), i(nteger), f(loat), m(ap of a tensor) or ? for what a plan cannot pass
  unsigned size;
};

struct Entry {
  const char* name;
  void (*call)(void* const* arguments);
  const Parameter* parameters;
  int count;                 // of a variable its bytes
  void* variable = nullptr;  // in place of a kernel
};

// The compiled unit.
struct Module {
  const Entry* entries;
  int entry_count;
  const Thread** current;                    // the running thread
  unsigned char *shared_begin, *shared_end;  // static shared memory: one block's at a time
};

}  // namespace simt
