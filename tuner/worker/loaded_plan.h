// A plan with its cubin and scratch memory on the device, bound to the buffers of one turn after
// another.
//
// Lives in the worker; not thread-safe. Owns the module and the scratch memory; must die before the buffers
// it points into. Errors: cuda::CudaError (a missing entry, too little memory, an argument that names no
// buffer).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/plan.h"
#include "launch/bound_plan.h"
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

  // Names the first guard byte, and its copy, that is no longer `guard`; "" if all are intact.
  std::string damage(Harness& harness, std::uint8_t guard = kPoisonByte) const;

 private:
  std::string name_;
  ArenaLayout layout_;
  cuda::Memory memory_;
};

// The address of a buffer by name in a turn of a measurement (Tensors::turns); 0 if there is no such buffer.
using TurnAddress = std::function<cuda::Address(std::string_view name, std::int64_t turn)>;

class LoadedPlan {
 public:
  LoadedPlan(const LaunchPlan& plan, std::span<const std::uint8_t> cubin, TurnAddress buffers,
             const cuda::Stream& stream);

  // Enqueues every launch of the plan over the buffers of a turn.
  void enqueue(std::int64_t turn);
  // The same, but the first launch begins only once what is in front of it has ended.
  void enqueue_alone(std::int64_t turn);

  // Forgets what earlier launches left in scratch, except for counters, which stay at zero.
  void poison_scratch();

  // Names damage that the launches did to scratch: writes outside of it, or counters, which kernels share, left at
  // anything but zero. "" if there is none. Waits for the stream.
  std::string scratch_damage(Harness& harness) const;

 private:
  cuda::Address resolve(std::string_view name, std::int64_t turn) const;
  using BoundPlans = std::vector<std::optional<BoundPlan>>;  // by turn; empty until first enqueued
  const BoundPlan& bound(BoundPlans& plans, const LaunchPlan& plan, std::int64_t turn);

  LaunchPlan plan_, alone_;
  TurnAddress buffers_;
  const cuda::Stream& stream_;
  LoadedCubin cubin_;
  std::vector<Arena> scratch_;
  BoundPlans bound_, bound_alone_;
};

}  // namespace moetune
