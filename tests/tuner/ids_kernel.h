// Kernels of the stand-in for libcuda whose outputs are integers, or are read and written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/named_kernel.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {

// to = from, a permutation of `elements` integers, as the entries `ids...` write it; segments for a check by
// sets are in `offsets`.
class IdsKernel : public NamedKernel {
 public:
  IdsKernel(DType type, OutputCheck check);

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override;
  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override;
  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits& limits) const override;
  Cost cost(const Problem& problem) const override;

  // `bug` is what is appended to the entry's name.
  Candidate candidate(const std::string& bug, std::int64_t elements) const;

 private:
  virtual Plan plan_of(const std::string& bug, std::int64_t elements) const;

  DType type_;
  OutputCheck check_;
};

// sum += x in f32: an in_out buffer.
class AccumulateKernel final : public IdsKernel {
 public:
  AccumulateKernel() : IdsKernel(DType::f32, {}) {}
  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override;

 private:
  Plan plan_of(const std::string& bug, std::int64_t elements) const override;
};

}  // namespace moetune
