// Kernels about time itself: one holds the stream, one looks whether the GPU is this process's alone, one stands for
// what runs in front of a kernel in a server, one reads the SMs' clocks, one wipes what a kernel left in shared memory.
#pragma once

#include "templates/common/shared_memory.cuh"
#include "templates/common/types.cuh"

namespace {

__device__ u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// As tuner/worker/canary.h lays it out; one a block.
struct CanaryPartial {
  u64 begin_ns, end_ns;  // of the timer that all SMs share
  u64 lost_ns;           // in windows that took longer than a gap
  u64 longest_gap_ns;    // the longest of these windows
  u64 windows;           // the others
  u64 slow_windows;      // of these, the ones that took a quarter more cycles than the fastest before them
  u64 fastest_cycles;    // of one window
};

constexpr u32 kCanaryWarmup = 8;  // windows before slow ones count: the instructions come from memory first

// A fixed number of FMAs: 4 independent chains, which keep a scheduler busy with one warp.
__device__ __forceinline__ float canary_work(float seed) {
  float a = seed, b = seed + 1, c = seed + 2, d = seed + 3;
#pragma unroll 1
  for (int i = 0; i < 128; ++i) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      a = fmaf(a, 0.5f, 1.0f);
      b = fmaf(b, 0.5f, 2.0f);
      c = fmaf(c, 0.5f, 3.0f);
      d = fmaf(d, 0.5f, 4.0f);
    }
  }
  return a + b + c + d;
}

}  // namespace

// Holds the stream until the host has written `turn` to signal[0]. After `patience_ns` it gives up, so that a
// host that waits for the stream is no deadlock, and writes `turn` to signal[1].
extern "C" __global__ void moetune_hold(volatile u64* signal, u64 turn, u64 patience_ns) {
  const u64 begin = nanoseconds();
  while (signal[0] < turn) {
    if (nanoseconds() - begin > patience_ns) {
      signal[1] = turn;
      break;
    }
  }
}

// Writes `count` parts of memory, each (address, words of 16 bytes), with the values that they hold. It lets nothing
// start early: in a server few kernels do.
extern "C" __global__ void __launch_bounds__(256) moetune_produce(const u64* parts, u64 count) {
  for (u64 part = 0; part < count; ++part) {
    const u64 begin = parts[2 * part], words = parts[2 * part + 1];
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += u64(gridDim.x) * blockDim.x) {
      const u64 address = begin + 16 * i;
      u64 low, high;
      asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(address) : "memory");
      asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(low), "l"(high) : "memory");
    }
  }
}

// Writes (cycles of this SM, nanoseconds of the timer that all share) for each of the first `sms` SMs. Two of these
// tell at which clock what lies between them ran.
extern "C" __global__ void __launch_bounds__(32) moetune_tick(volatile u64* readings, u64 sms) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x != 0 || sm >= sms) return;
  const i64 cycles = clock64();
  const u64 now = nanoseconds();
  readings[2 * sm] = u64(cycles);
  readings[2 * sm + 1] = now;
}

// Overwrites the shared memory of the SM that it runs on: nothing that a kernel left there survives.
extern "C" __global__ void __launch_bounds__(1024) moetune_wipe_shared(u64 bytes) {
  volatile u32* const words = reinterpret_cast<volatile u32*>(dynamic_shared());
  for (u64 i = threadIdx.x; i < bytes / 4; i += blockDim.x) words[i] = ~0u;
}

// Works for `duration_ns` in windows of some 5 us, and looks at the clocks after each. Another process's time
// slice stops all SMs: a window with a gap in the shared timer. A process that runs at the same time (MPS)
// takes issue slots: windows of more cycles. Both are judged within the launch, so that a load that never
// pauses shows as well. A throttled GPU runs all windows at a lower clock: they take no more cycles, and a
// window is shorter than `gap_ns` at any clock.
extern "C" __global__ void __launch_bounds__(128) moetune_canary(u64 duration_ns, u64 gap_ns, CanaryPartial* partials) {
  CanaryPartial mine = {nanoseconds(), 0, 0, 0, 0, 0, ~0ull};
  float value = float(threadIdx.x);
  for (u64 before = mine.begin_ns; before - mine.begin_ns < duration_ns;) {
    asm volatile("" : "+f"(value));  // between these two the work stays between the clocks
    const i64 first_cycle = clock64();
    value = canary_work(value);
    asm volatile("" : "+f"(value));
    const u64 cycles = u64(clock64() - first_cycle), now = nanoseconds(), window_ns = now - before;
    before = mine.end_ns = now;
    if (window_ns > gap_ns) {
      mine.lost_ns += window_ns;
      if (window_ns > mine.longest_gap_ns) mine.longest_gap_ns = window_ns;
      continue;
    }
    if (++mine.windows > kCanaryWarmup && cycles > mine.fastest_cycles + mine.fastest_cycles / 4) ++mine.slow_windows;
    if (cycles < mine.fastest_cycles) mine.fastest_cycles = cycles;
  }
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = mine;
    // Never true: keeps the work.
    if (value == -1.0f) partials[blockIdx.x].windows = 0;
  }
}
