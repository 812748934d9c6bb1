// A launch plan bound to its caller: functions of a loaded cubin, the addresses behind every pointer, tensor
// maps encoded. It is enqueued on a stream as often as the caller likes, also under graph capture.
//
// A plain value of fixed size: binding and enqueueing allocate nothing. Owns nothing on the device: the module
// that the functions are from and the memory that the plan points into must outlive it. Immutable once bound;
// threads may enqueue it at once, but a caller with plans of several launches over one scratch enqueues one plan at a
// time. Errors: cuda::CudaError (an argument that names no buffer, a tensor map or launch that the driver refuses),
// std::length_error (more arguments than fit).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/fixed_vector.h"
#include "kernels/plan.h"
#include "launch/driver.h"

namespace moetune {

// A cubin on the device, with the functions of a plan's launches, in the plan's order. Permits each what its
// launch asks for.
class LoadedCubin {
 public:
  LoadedCubin(const LaunchPlan& plan, std::span<const std::uint8_t> cubin);

  std::span<const cuda::Function> functions() const { return functions_; }
  cuda::Address symbol(const Memset& memset) const;

 private:
  cuda::Module module_;
  std::vector<cuda::Function> functions_;
};

// The address of a buffer or scratch by name; 0 if nothing has that name.
using AddressOf = std::function<cuda::Address(std::string_view name)>;

// The address of the variable that a memset with a symbol copies to.
using SymbolOf = std::function<cuda::Address(const Memset& memset)>;

// How a tensor map is encoded against the address that it begins at.
using EncodeMap = std::function<cuda::EncodedTensorMap(const TensorMap& map, cuda::Address base)>;

class BoundPlan {
 public:
  // Holds nothing to launch.
  BoundPlan() = default;
  BoundPlan(const LaunchPlan& plan, std::span<const cuda::Function> functions, const AddressOf& addresses,
            const SymbolOf& symbols = {}, const EncodeMap& encode = cuda::encode_tensor_map);

  // Every memset and launch of the plan, in order.
  void enqueue(cuda::StreamRef stream) const;

 private:
  struct BoundLaunch {
    cuda::Function function = nullptr;
    LaunchShape shape;
    std::size_t first = 0, count = 0;  // of places_
  };
  struct BoundMemset {
    cuda::Address address = 0, symbol = 0;
    Memset memset;
  };
  // The place of an argument's value.
  struct Place {
    bool is_large = false;
    std::uint8_t index = 0;
  };

  Place store(const Argument& argument, const AddressOf& addresses, const EncodeMap& encode);

  FixedVector<cuda::EncodedTensorMap, LaunchPlan::kMaxLarge> large_;  // structs, too
  FixedVector<std::uint64_t, LaunchPlan::kMaxScalars> scalars_;
  // Those of all arguments of all launches, in order.
  FixedVector<Place, LaunchPlan::kMaxScalars + LaunchPlan::kMaxLarge> places_;
  FixedVector<BoundMemset, decltype(LaunchPlan::memsets)::capacity()> memsets_;
  FixedVector<BoundLaunch, decltype(LaunchPlan::launches)::capacity()> launches_;
};

}  // namespace moetune
