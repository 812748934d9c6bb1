// Combining the splits of a sequence inside a thread-block cluster (sm_90+): every block sends each other
// block its part of the rows that the other one writes, straight into that block's shared memory. No scratch
// memory, no second kernel, and one crossing of the cluster between the last product and the result.
//
// Item i, four neighbouring dimensions of a row, belongs to block i % splits. The inbox lies behind what
// SHARED_BYTES counts and exists only where a cluster was launched: a barrier, the parts, their log-sum-exps.
#pragma once

#include "templates/common/cluster.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/reduce.cuh"
#include "templates/decode_attention/combine.cuh"

constexpr int kQuads = kHeadDim / 4;

__device__ __forceinline__ void write_quad(Element* row, int quad, const float4& value, float factor) {
  reinterpret_cast<uint2*>(row)[quad] =
      make_uint2(Element::pack(value.x * factor, value.y * factor), Element::pack(value.z * factor, value.w * factor));
}

class Inbox {
 public:
  __device__ __forceinline__ explicit Inbox(u8* shared)
      : shared_(shared), splits_(cluster_size()), rank_(cluster_rank()), slots_(ceil_div(kRows * kQuads, splits_)) {}

  __device__ __forceinline__ bool exists() const { return splits_ > 1; }

  // By every thread, before anything is sent and as early as can be: others wait for it.
  __device__ __forceinline__ void open(const Work& work) const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      mbarrier_init(shared_address(shared_ + SHARED_BYTES), 1);
      mbarrier_arrive_expect(shared_address(shared_ + SHARED_BYTES), owned(work) * splits_ * kItemBytes);
      mbarrier_init_fence();
    }
    __syncwarp();
    cluster_arrive_relaxed();  // of the barrier alone, which the fence has released
#endif
  }

  // By every thread, before it sends or ends.
  __device__ __forceinline__ void wait_for_others() const {
    __syncwarp();
    cluster_wait();
  }

  // `value` is normalized; `lse` is minus infinity where this block had no tokens.
  __device__ __forceinline__ void send(int item, const float4& value, float lse) const {
    const u32 to = item % splits_;
    const int place = rank_ * slots_ + item / splits_;
    const u32 barrier = cluster_address(shared_address(shared_ + SHARED_BYTES), to);
    cluster_store(cluster_address(shared_address(parts() + place), to), barrier, value);
    cluster_store(cluster_address(shared_address(lses() + place), to), barrier, lse);
  }

  // Waits for all parts of this block's items and writes their sums. Called by the first kWarps warps.
  __device__ __forceinline__ void receive(const Work& work, const Outputs& outputs) const {
#if __CUDA_ARCH__ >= 900
    mbarrier_wait_cluster(shared_address(shared_ + SHARED_BYTES), 0);
#endif
#pragma unroll 1
    for (int slot = threadIdx.x; slot < owned(work); slot += kWarps * kWarpSize) {
      float highest = lowest();
#pragma unroll 4
      for (int split = 0; split < splits_; ++split) highest = fmaxf(highest, lses()[split * slots_ + slot]);
      float weight = 0;
      float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 4
      for (int split = 0; split < splits_; ++split) {
        const float factor = exp2_fast(lses()[split * slots_ + slot] - highest);
        const float4 part = parts()[split * slots_ + slot];
        weight += factor;
        total.x += factor * part.x;
        total.y += factor * part.y;
        total.z += factor * part.z;
        total.w += factor * part.w;
      }
      const int item = slot * splits_ + rank_, row = item / kQuads, quad = item % kQuads;
      const Softmax softmax(highest, weight, outputs.sinks, work.query_head(row));
      write_quad(outputs.o + work.row_offset(outputs.strides, row), quad, total, softmax.inverse);
      if (kWantsLse && quad == 0) outputs.lse[work.output_row(row)] = softmax.lse();
    }
  }

 private:
  static constexpr int kItemBytes = 20;  // a part and its log-sum-exp

  __device__ __forceinline__ int owned(const Work& work) const { return ceil_div(work.rows * kQuads - rank_, splits_); }
  __device__ __forceinline__ float4* parts() const { return reinterpret_cast<float4*>(shared_ + SHARED_BYTES + 16); }
  __device__ __forceinline__ float* lses() const { return reinterpret_cast<float*>(parts() + splits_ * slots_); }

  u8* shared_;
  int splits_;
  int rank_;
  int slots_;  // items of a block, rounded up
};
