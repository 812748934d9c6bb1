// A launch plan bound to its caller: functions of a loaded cubin, the addresses behind every pointer, tensor
// maps encoded. It is enqueued on a stream as often as the caller likes, also under graph capture.
//
// Owns nothing on the device: the module that the functions are from and the memory that the plan points into
// must outlive it. One thread at a time. Errors: cuda::CudaError (an argument that names no buffer, a tensor
// map or launch that the driver refuses).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kernels/plan.h"
#include "launch/driver.h"

namespace moetune {

// A cubin on the device, with the functions of a plan's launches, in the plan's order. Permits each what its
// launch asks for.
class LoadedCubin {
 public:
  LoadedCubin(const LaunchPlan& plan, std::span<const std::uint8_t> cubin);

  std::span<const cuda::Function> functions() const { return functions_; }

 private:
  cuda::Module module_;
  std::vector<cuda::Function> functions_;
};

// The address of a buffer or scratch by name; 0 if there is none of that name.
using AddressOf = std::function<cuda::Address(std::string_view name)>;

class BoundPlan {
 public:
  BoundPlan(const LaunchPlan& plan, std::span<const cuda::Function> functions, const AddressOf& addresses);

  // Parameters point into the plan's own values, which a move leaves where they are and a copy would not.
  BoundPlan(BoundPlan&&) noexcept = default;
  BoundPlan& operator=(BoundPlan&&) noexcept = default;
  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  // Every memset and launch of the plan, in order.
  void enqueue(const cuda::Stream& stream) const;

 private:
  // The largest argument is a tensor map, which is also the most aligned.
  using Slot = cuda::EncodedTensorMap;
  struct BoundLaunch {
    cuda::Function function;
    Launch launch;
    std::vector<Slot> values;
    std::vector<void*> parameters;
  };
  struct BoundMemset {
    cuda::Address address;
    Memset memset;
  };

  std::vector<BoundMemset> memsets_;
  std::vector<BoundLaunch> launches_;
};

}  // namespace moetune
