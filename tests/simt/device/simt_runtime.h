// What a compiled template and the emulator say to each other. Both sides include this, the template's without
// any standard header.
#pragma once

namespace simt {

struct Index {
  unsigned x, y, z;
};

// An asynchronous copy of 16 bytes that has not been made yet.
struct PendingCopy {
  const void* source;  // null: zeros
  unsigned destination, group;
  PendingCopy* next;
};

// A thread as it sees itself.
struct Thread {
  Index thread, block, block_dim, grid_dim;
  unsigned lane;
  unsigned char* dynamic_shared;
  unsigned cluster_rank;
  mutable unsigned cluster_phases;  // barriers of the cluster that this thread has waited for
  mutable PendingCopy *oldest_copy, *newest_copy;
  mutable unsigned copy_group;  // of the next copy
};

// The blocks that share a cluster with the running thread's.
struct Cluster {
  static constexpr unsigned kMostBlocks = 16;

  unsigned size, threads, arrivals;
  unsigned char* shared[kMostBlocks];  // by rank
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
  Cluster* (*cluster)();
  void (*yield)();                    // lets the others run
  void (*step)(bool changed);         // maybe: after a look at what other threads change, or a change of it
  void (*fail)(const char* message);  // ends the run; does not return
};

struct Parameter {
  char kind;  // p(ointer), i(nteger), f(loat) or ? for what a plan cannot pass
  unsigned size;
};

struct Entry {
  const char* name;
  void (*call)(void* const* arguments);
  const Parameter* parameters;
  int count;
};

// The compiled unit.
struct Module {
  const Entry* entries;
  int entry_count;
  const Thread** current;                    // the running thread
  unsigned char *shared_begin, *shared_end;  // static shared memory: one block's at a time
};

}  // namespace simt
