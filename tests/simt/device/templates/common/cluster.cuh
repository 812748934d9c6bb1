// Stands in for templates/common/cluster.cuh on the CPU: the barrier; of the stores nothing. Its arrivals are counted,
// and a thread waits until all of the cluster's threads have arrived as often as it has.
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
  simt::runtime->fail("cluster_address is not supported");
  return address;
}

__device__ __forceinline__ void cluster_store(u32 address, u32 barrier, float4 value) {
  simt::runtime->fail("cluster_store is not supported");
}

__device__ __forceinline__ void cluster_store(u32 address, u32 barrier, float value) {
  simt::runtime->fail("cluster_store is not supported");
}
