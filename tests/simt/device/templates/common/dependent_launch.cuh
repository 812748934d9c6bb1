// Stands in for templates/common/dependent_launch.cuh on the CPU, where a plan's launches run one after the other, and
// one that may begin early comes as far as it can before the one in front counts as ended. If that one has waited for
// its own before it allowed this, the plan's inputs can be read at once.
#pragma once

__device__ __forceinline__ void allow_dependent_launch() { simt::runtime->allow_dependents(); }

__device__ __forceinline__ void wait_for_predecessor() { simt::runtime->await_predecessor(); }

__device__ __forceinline__ int read_settled(const int* from) { return *from; }

// Before the launch in front has ended, whatever.
__device__ __forceinline__ int read_hint(const int* from) { return simt::runtime->may_read() ? *from : 0x5eed'5eed; }

template <typename Parameter>
__device__ __forceinline__ void read_one_early(Parameter parameter) {}

template <typename... Parameters>
__device__ __forceinline__ void read_early(Parameters... parameters) {}
