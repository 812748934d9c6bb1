// One choice of decode_attention, launched through the runtime and as barely as the driver allows.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/runtime_bench_files.h"
#include "launch/bound_plan.h"
#include "launch/driver.h"

namespace moetune::bench {

// All lengths are 0, so that the kernels themselves take little time.
class LaunchPair {
 public:
  LaunchPair(const std::filesystem::path& cache, const Family& family);

  int kernels() const { return kernels_; }
  void launch(int times) const;       // moetune_launch
  void launch_bare(int times) const;  // cuLaunchKernelEx with parameters that were made ready before
  void wait() const { cuda::synchronize(stream_); }

 private:
  void* allocate(std::int64_t bytes);
  void make_tensors(const Family& family);
  void bind_bare(const std::filesystem::path& cache, const Family& family);

  const Opened opened_;
  cuda::Context context_;
  cuda::Stream stream_;
  std::vector<cuda::Memory> memory_;
  moetune_choice choice_{};
  moetune_arguments arguments_{};
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::unique_ptr<LoadedCubin> cubin_;
  BoundPlan bare_;
  int kernels_ = 0;
};

}  // namespace moetune::bench
