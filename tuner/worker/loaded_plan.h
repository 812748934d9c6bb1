// A plan with its cubin loaded and its arguments bound to device addresses, ready to be enqueued again and
// again.
//
// Lives in the worker; not thread-safe. Owns the module and the scratch memory; must die before the buffers
// it points into. Errors: cuda::CudaError (a missing entry, too little memory, an argument that names no
// buffer).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/plan.h"
#include "launch/driver.h"
#include "tuner/worker/harness.h"

namespace moetune {

// One buffer's copies between guard bands, all poisoned when allocated.
class Arena {
 public:
  Arena(std::string name, std::int64_t bytes, std::int64_t copies, const cuda::Stream& stream);

  const std::string& name() const { return name_; }
  const ArenaLayout& layout() const { return layout_; }
  cuda::Address base() const { return memory_.get(); }
  cuda::Address address(std::int64_t copy) const {
    return memory_.get() + static_cast<cuda::Address>(layout_.offset(copy));
  }

  // Which byte next to which copy was overwritten, in words; empty where none was.
  std::string damage(Harness& harness) const;

 private:
  std::string name_;
  ArenaLayout layout_;
  cuda::Memory memory_;
};

// The address of a buffer's copy by name; 0 where there is no such buffer.
using AddressOf = std::function<cuda::Address(const std::string& name, std::int64_t copy)>;

class LoadedPlan {
 public:
  LoadedPlan(const Plan& plan, std::span<const std::uint8_t> cubin, AddressOf buffers,
             const cuda::Stream& stream);

  // Enqueues every launch of the plan over copy `copy` of the rotating buffers.
  void enqueue(std::int64_t copy);

  std::string scratch_damage(Harness& harness) const;

 private:
  struct BoundLaunch {
    std::vector<cuda::EncodedTensorMap> slots;  // an argument's bytes start a slot
    std::vector<void*> parameters;
  };
  using BoundCopy = std::vector<BoundLaunch>;

  cuda::Address resolve(const std::string& name, std::int64_t copy) const;
  BoundLaunch bind(const Launch& launch, std::int64_t copy) const;
  const BoundCopy& bound(std::int64_t copy);

  Plan plan_;
  AddressOf buffers_;
  const cuda::Stream& stream_;
  cuda::Module module_;
  std::vector<cuda::Function> functions_;  // by launch
  std::vector<Arena> scratch_;
  std::vector<BoundCopy> bound_;  // by copy; empty until first enqueued
};

}  // namespace moetune
