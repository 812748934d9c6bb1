// Bound plans by everything that they depend on, so that a server's repeated launch costs a look-up and the
// driver's call. A fixed number of places, allocated at once; a newcomer takes the place of what hashes alike.
//
// Thread-safe: a place is used by one thread at a time, and another that wants it meanwhile does without.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/call.h"
#include "kernels/family_interface.h"
#include "launch/bound_plan.h"

namespace moetune {

// The key of a bound plan: everything it depends on, without padding, compared and hashed as bytes.
struct LaunchKey {
  static constexpr std::size_t kMaxTensors = 16;

  std::uint64_t entry;
  std::uint64_t workspace;
  std::array<std::int64_t, 4> extents;  // Launcher::plan_extents, and zeros
  std::array<std::uint64_t, kMaxTensors> tensors;
  Call call;
};
static_assert(std::has_unique_object_representations_v<std::array<std::int64_t, 4>> &&
              sizeof(LaunchKey) == 8 * (2 + 4 + LaunchKey::kMaxTensors) + sizeof(Call) &&
              sizeof(Call) == 8 * (Call::kMaxIntegers + Call::kMaxReals));

class LaunchCache {
 public:
  struct Bound {
    LaunchKey key;
    Extents checked;                   // that the call was found sound for
    std::int64_t workspace_bytes = 0;  // that it needs
    BoundPlan plan;
  };
  struct Place {
    std::atomic_flag busy;
    bool filled = false;
    Bound* bound = nullptr;  // raw memory until it is filled
  };

  // A place held by the calling thread, or nothing if another thread has it.
  class Held {
   public:
    Held(Place* place, bool holds_key) : place_(place), holds_key_(holds_key) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      if (place_ != nullptr) place_->busy.clear(std::memory_order_release);
    }
    bool holds_key() const { return holds_key_; }  // that was looked for
    Bound* get() const { return place_->bound; }   // of a place that holds it
    void fill(const Bound& bound);                 // if there is a place

   private:
    Place* place_;
    bool holds_key_;
  };

  LaunchCache();

  // The place of this key: the one that holds it, else one that it may take.
  Held hold(const LaunchKey& key);

 private:
  static constexpr std::size_t kPlaces = 1024;
  struct Release {
    void operator()(Bound* memory) const { std::allocator<Bound>().deallocate(memory, kPlaces); }
  };
  std::unique_ptr<Place[]> places_;
  std::unique_ptr<Bound, Release> memory_;  // not touched before it is needed: most places stay empty
};

}  // namespace moetune
