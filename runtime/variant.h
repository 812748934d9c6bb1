// A cubin on the device, and a configuration of it. Thread-safe except for add_entries(); they live as long as
// their runtime, because a captured graph may hold their functions.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "launch/driver.h"
#include "ranges/range_table.h"

namespace moetune {

class Variant {
 public:
  Variant(std::string cubin_digest, CompileUnit compiled, std::span<const std::uint8_t> cubin);

  const std::string& digest() const { return digest_; }
  const CompileUnit& unit() const { return unit_; }

  // Looks up the functions that a plan names; permits them whatever the device can do. One thread at a time,
  // beside any number that call function(). Throws CudaError for an entry that the cubin lacks.
  void add_entries(const LaunchPlan& plan, const DeviceLimits& limits);

  // The function of a launch. Throws std::logic_error for an entry that no plan named.
  cuda::Function function(const EntryName& entry) const;
  cuda::Address symbol(const Memset& memset) const;

 private:
  static constexpr std::size_t kMaxEntries = 16;
  struct Entry {
    EntryName name;
    cuda::Function function = nullptr;
  };

  std::string digest_;
  CompileUnit unit_;
  cuda::Module module_;
  std::set<std::string> mangled_;  // names of C++ functions in the cubin
  std::array<Entry, kMaxEntries> entries_;
  std::atomic<std::size_t> count_{0};  // those below it are there and stay
};

// The measured loss of the range table that a choice is from. 0.02 is 2%.
struct RangeLoss {
  std::string ranges;
  double bound = 0;       // that was asked for
  double cell = 0;        // in the choice's own cell
  RangeCertificate seen;  // at random shapes that are no cells
  bool operator==(const RangeLoss&) const = default;
};

// The origin of a choice, for explanations.
struct ChoiceSource {
  std::string problem;  // that it was measured on; "" for a default
  double time_us = 0;   // there
  double default_us = 0;
  std::string hardware;  // key text
  bool inherited = false;
  std::string stored_at, file;
  std::optional<RangeLoss> loss;  // nullopt for a winner of its own
  Timing timing = Timing::overlapped;
  bool provisional = false;  // no duel has confirmed it
  bool operator==(const ChoiceSource&) const = default;
};

// A cell's entry in a dispatch table: a cubin with its run-time values.
struct FamilyEntry {
  const Variant* variant = nullptr;
  std::shared_ptr<const Launcher> launcher;
  std::string config;
  ChoiceSource source;
};

// Bytes that a launch needs of a workspace, and where each scratch lies in it: zeroed ones in its first
// kWorkspaceCounters bytes, the others behind.
inline constexpr std::int64_t kWorkspaceCounters = std::int64_t{1} << 20;
inline constexpr std::int64_t kWorkspaceAlignment = 256;

struct WorkspaceLayout {
  explicit WorkspaceLayout(const LaunchPlan& plan);

  FixedVector<std::int64_t, 8> offsets;  // by scratch
  std::int64_t counter_bytes = 0;
  std::int64_t bytes = 0;  // in all
  bool fits() const { return counter_bytes <= kWorkspaceCounters; }
};

}  // namespace moetune
