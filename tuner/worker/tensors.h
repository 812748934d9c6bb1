// One problem's tensors on the device: rotating copies of the inputs, outputs, the exact reference outputs,
// and the checks that a candidate wrote the right values and nothing else.
//
// Lives in the worker; not thread-safe. Owns all its device memory. Errors: BrokenEnvironment where the
// device cannot hold the problem or the references contradict each other; cuda::CudaError otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "launch/driver.h"
#include "tuner/worker/harness.h"
#include "tuner/worker/loaded_plan.h"

namespace moetune {

struct TensorsSpec {
  std::vector<Buffer> buffers;
  std::uint64_t seed = 0;
  std::int64_t copies = 0;  // of rotating buffers; 0: as many as keep the caches cold
  Tolerance tolerance;
};

struct Program {
  Plan plan;
  std::vector<std::uint8_t> cubin;
};

struct Validation {
  bool right = false;
  bool damaged = false;  // something but the outputs was written: the problem must be opened again
  std::string reason;
  double max_error = 0, dissimilarity = 0;  // of the worst output
};

// Copies of the rotating buffers so that a whole turn exceeds L2 several times, at least two, as `memory`
// allows; one where nothing rotates; 0 where not even one fits.
std::int64_t copies_for(std::int64_t rotating_bytes, std::int64_t fixed_bytes, std::int64_t l2_bytes,
                        std::int64_t memory);

class Tensors {
 public:
  Tensors(TensorsSpec spec, const Program& exact, const Program& baseline, const DeviceLimits& limits,
          std::int64_t free_memory, Harness& harness, const cuda::Stream& stream);
  Tensors(const Tensors&) = delete;  // loaded plans point into it
  Tensors& operator=(const Tensors&) = delete;

  std::int64_t copies() const { return copies_; }
  LoadedPlan load(const Plan& plan, std::span<const std::uint8_t> cubin) const;

  // Before a run that is to be validated: no output keeps what an earlier candidate wrote.
  void poison_outputs();
  // After runs whose last was over copy 0.
  Validation validate(const LoadedPlan& plan);

  // A tensor as it is now; `exact` asks for the reference's f32 output instead. Throws BadInput for an
  // unknown name.
  std::vector<std::uint8_t> fetch(const std::string& name, std::int64_t copy, bool exact) const;

 private:
  struct Tensor {
    Arena arena;
    std::uint64_t checksum = 0;  // inputs
  };
  struct Output {
    std::size_t position = 0;  // in spec_.buffers
    Arena exact;
    std::uint64_t checksum = 0;  // of `exact`
    double baseline_error = 0;
  };

  void allocate(const DeviceLimits& limits, std::int64_t free_memory);
  void fill_inputs();
  void run_references(const Program& exact, const Program& baseline);
  cuda::Address address(std::string_view name, std::int64_t copy) const;
  cuda::Address reference_address(std::string_view name) const;
  std::int64_t copies_of(const Buffer& buffer) const { return buffer.rotates ? copies_ : 1; }
  ErrorFigures compare(const Output& output);
  std::string damage(const LoadedPlan& plan);

  TensorsSpec spec_;
  Harness& harness_;
  const cuda::Stream& stream_;
  std::int64_t copies_ = 1;
  std::vector<Tensor> tensors_;  // as spec_.buffers
  std::vector<Output> outputs_;
};

}  // namespace moetune
