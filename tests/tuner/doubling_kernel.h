// y = 2x in f32: the kernel that the stand-in for libcuda knows, and a device over that stand-in.
#pragma once

#include <memory>
#include <string>

#include "kernels/kernel.h"
#include "search/space.h"
#include "tests/named_kernel.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {

class DoublingKernel : public NamedKernel {
 public:
  // `exact` and `baseline` are entries of the references.
  explicit DoublingKernel(std::string exact = "double", std::string baseline = "double__rounded");

  using Kernel::buffers;
  using Kernel::reference;
  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override;
  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override;
  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits& limits) const override;
  Cost cost(const Problem& problem) const override;

  // What the parameter `entry` chooses from; empty: every configuration is "double".
  std::vector<std::string> entries;

 private:
  std::string exact_, baseline_;
};

// The same with one compilation unit a configuration, whose only define is the configuration's text.
class UnitPerConfigKernel final : public DoublingKernel {
 public:
  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override;
};

Problem doubling_problem(std::int64_t elements);

// A candidate whose one launch is `entry`; its cubin is bytes that no compiler made.
Candidate doubling_candidate(const std::string& entry, std::int64_t elements);

// Sets the environment of workers started from now on: the stand-in library with `script`.
void use_fake_cuda(const std::string& script = "");

CudaDevice fake_device();

// A device on the stand-in library with `script`, with a problem of kElements open.
struct OpenFake {
  static constexpr std::int64_t kElements = 1000;

  explicit OpenFake(const std::string& script = "");
  static Candidate candidate(const std::string& entry) { return doubling_candidate(entry, kElements); }
  TrialResult run(const std::string& entry, const MeasurePolicy& policy = {.time_limit_s = 5});

  DoublingKernel kernel;
  CudaDevice device;
};

// One parameter, `entry`, which chooses from the kernel's entries.
LegalSpace space_of_entries(const DoublingKernel& kernel);

// A compiler that is none: of the entry "broken" it says that it does not compile.
CompilePool::Compile doubling_compiler();

}  // namespace moetune
