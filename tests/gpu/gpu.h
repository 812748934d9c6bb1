// The GPU under test, shared by all cases of test_gpu. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/compile/compile_pool.h"
#include "tuner/compile/compiler.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {

// Says why and returns true where there is nothing to test on; every case asks first.
bool no_gpu();

// The first GPU, opened on first use.
CudaDevice& gpu();

// NVRTC for it, over the embedded templates and those in tests/gpu/planted*.cc.
CompilePool& gpu_compiler();
BuildPtr compile_for_gpu(const CompileUnit& unit);

// Whether an output agrees with the answer in float64: within `share` of the largest value, which is not 0, NaN and
// infinities in the same places. Checks with doctest.
void check_close(const std::vector<double>& actual, const std::vector<double>& expected, double share);

// How many values are not the same. Checks with doctest that there are as many of both.
std::size_t count_differences(const std::vector<double>& actual, const std::vector<double>& expected);

// Whether a kernel's exact reference on the GPU, with a problem open, agrees with float64 on the CPU: integers
// exactly, others within 2e-5 of the largest value. Checks with doctest.
void check_exact_reference(const Kernel& kernel, const Problem& problem, const Call& call, std::uint64_t seed);

// CUDA source: 50 us, for a kernel that lets the next one begin before it writes.
inline constexpr const char* kTakeAWhile = R"cuda(
__device__ __forceinline__ void take_a_while() {
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < 50000);
}
)cuda";

// Short trials: these tests ask whether a result is right, not how fast it is.
MeasurePolicy one_sample();

// Configurations to try a problem: MOETUNE_GPU_SAMPLE, or `default_value`.
std::size_t sample_size(std::size_t default_value);

}  // namespace moetune
