// Stands in for templates/common/cluster.cuh on the CPU. The barrier's arrivals are counted, and a thread waits until
// all of the cluster's threads have arrived as often as it has. A shared address of another block has its rank, from 1,
// in bits 24 to 28.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ u32 cluster_size() { return simt::runtime->cluster()->size; }
__device__ __forceinline__ u32 cluster_rank() { return simt::current->cluster_rank; }

__device__ __forceinline__ void cluster_arrive() { atomicAdd(&simt::runtime->cluster()->arrivals, 1u); }

__device__ __forceinline__ void cluster_arrive_relaxed() { cluster_arrive(); }

__device__ __forceinline__ void cluster_wait() {
  simt::Cluster* const cluster = simt::runtime->cluster();
  simt::runtime->wait(&cluster->arrivals, ++simt::current->cluster_phases * cluster->threads, true);
}

__device__ __forceinline__ u32 cluster_address(u32 address, u32 rank) {
  if (address >> 24 != 0) simt::runtime->fail("cluster_address of what is no address of dynamic shared memory");
  if (rank >= cluster_size()) simt::runtime->fail("cluster_address in a block that the cluster does not have");
  return address | (rank + 1) << 24;
}

__device__ __forceinline__ void cluster_store(u32 address, u32 barrier, float4 value) {
  simt::runtime->store_async(address, barrier, &value, sizeof value);
}

__device__ __forceinline__ void cluster_store(u32 address, u32 barrier, float value) {
  simt::runtime->store_async(address, barrier, &value, sizeof value);
}
