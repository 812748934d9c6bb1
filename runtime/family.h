// A kernel family in a server: its cubins, its dispatch tables, and the hot paths pick() and launch().
//
// Thread-safe. pick() and pick_range() take no lock that waits; launch() waits for its workspace's turn, if the choice
// has scratch (runtime/workspace_turn.h). pick() and launch() allocate nothing unless they throw. prepare(), use() and
// the workspace functions are the runtime's slow path and are called under its lock.
// Everything handed out lives as long as the family. Errors: RuntimeError with the status for the C interface.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dispatch/dispatch_table.h"
#include "kernels/kernel.h"
#include "launch/driver.h"
#include "runtime/family_defaults.h"
#include "runtime/family_entries.h"
#include "runtime/launch_cache.h"
#include "runtime/layers.h"
#include "runtime/runtime_error.h"
#include "runtime/tensor_map_cache.h"
#include "runtime/usage.h"
#include "runtime/variant.h"
#include "search/space.h"

namespace moetune {

struct Choice {
  std::uint32_t entry = 0;
  ChoiceKind kind = ChoiceKind::exact;
  Extents extents;
};

// Overrides from the environment, for A/B tests: MOETUNE_RUNTIME=default, MOETUNE_PIN=KERNEL:CONFIG.
struct Experiment {
  bool defaults_only = false;
  std::string pinned_kernel, pinned_config;

  static Experiment from_environment();  // throws BadInput, RuntimeError (unknown_name) for a kernel
};

// The state that a family shares with the others of its runtime, which outlives it.
struct FamilyContext {
  const DeviceInfo& device;
  Usage& usage;
  const Experiment& experiment;
  bool allow_recorded = false;
};

using LaunchTensors = std::span<void* const, LaunchKey::kMaxTensors>;

class Family {
 public:
  // `problem` is any problem of the family. Loads nothing yet: prepare() does. Serves once use() gave it a table.
  Family(const Kernel& kernel, Problem problem, FamilyContext context);

  const Kernel& kernel() const { return kernel_; }
  const std::string& specialization() const { return specialization_; }
  const FamilyInterface& interface() const { return *interface_; }

  // Reads the layers, loads cubins that are new, and builds a table of them, which keeps every promise: picks take
  // it once it is given to use(). Returns an earlier table if that is equal. `warnings` gets a line for each winner
  // that was refused. Throws RuntimeError (not_tuned) if nothing can serve.
  const DispatchTable* prepare(Layers& layers, std::vector<std::string>& warnings);
  const DispatchTable* table() const { return table_.load(std::memory_order_acquire); }
  // Takes a table that prepare() returned.
  void use(const DispatchTable* table) { table_.store(table, std::memory_order_release); }
  // The problem at these extents; nullopt if none has them.
  std::optional<std::string> problem_at(const Extents& extents, bool ragged) const;
  // The same, or the specialization.
  std::string problem_text(const Extents& extents, bool ragged = false) const;
  // Tables with equal text make equal choices.
  std::string table_text(const DispatchTable& table) const;

  Choice pick(const Extents& extents, std::int64_t total) const;
  // One choice for all of a range (runtime/range_choice.h). `total` is that of `last`, and decides for the whole range.
  Choice pick_range(const Extents& extents, std::int64_t last, std::int64_t total) const;
  const FamilyEntry& entry(const Choice& choice) const;  // throws RuntimeError for a choice of no family

  std::int64_t workspace_bytes(const Choice& choice) const;
  // Enough for everything within `extents`, which later tables keep to. Throws RuntimeError (unsupported) if
  // MOETUNE_MAX_PROMISES other extents were promised; offer_workspace() too.
  std::int64_t promise_workspace(const Extents& extents);
  // Raises that promise to `bytes`, which the next table may use. Throws RuntimeError (out_of_memory) if that is less
  // than what was promised, or than the present table needs.
  void offer_workspace(const Extents& extents, std::size_t bytes);
  // The bytes with which no winner that prepare() read is left out, if the extents were promised before.
  std::int64_t wanted_workspace(const Extents& extents) const;
  // Throws RuntimeError (out_of_memory) if a choice of the table needs more than was promised since it was built.
  void require_promised(const DispatchTable& table) const;

  // Tensors by slot; those that the family lacks are ignored.
  void launch(const Choice& choice, const Call& call, LaunchTensors tensors, void* workspace,
              std::size_t workspace_bytes, cuda::StreamRef stream);

 private:
  struct Promise {
    Extents extents;
    std::int64_t bytes = 0;
    std::int64_t wanted = 0;  // by all choices that prepare() read last; 0 before, at most `bytes` if none was left out
  };
  static constexpr std::int64_t kUnfit = std::numeric_limits<std::int64_t>::max();

  friend class FamilyBuilder;  // what prepare() does

  void require_room(const Choice& choice, std::int64_t needed, std::size_t given) const;
  Extents extents_to_tune(const TablePoint& point, const Extents& extents) const;
  // kUnfit if a workspace has too few counters for it.
  std::int64_t workspace_at(std::uint32_t entry, const Extents& extents) const;
  // A choice that may be made somewhere, and what it needs at most there.
  struct Need {
    std::uint32_t entry = 0;
    std::int64_t bytes = 0;
  };
  using Entries = std::set<std::uint32_t>;
  // Goes through all extents up to `most`, the largest first: look() gets what may be chosen from some of them to
  // others, and returns whether to look closer. `is_last`: it gets no closer.
  using Look = std::function<bool(std::span<const Need> needs, bool is_last)>;
  void look_through(const DispatchTable& table, const Extents& most, const Look& look) const;
  std::vector<Need> needs_between(const DispatchTable& table, const Extents& low, const Extents& high,
                                  bool ragged) const;
  // The most that is needed; `bytes` if that is more. kUnfit choices count only if they are asked for.
  std::int64_t workspace_within(const DispatchTable& table, const Extents& extents, std::int64_t bytes,
                                bool with_unfit) const;
  std::int64_t workspace_within(const DispatchTable& table, const Extents& extents) const {
    return workspace_within(table, extents, kWorkspaceCounters, true);
  }
  Entries too_large(const DispatchTable& table, const Promise& promise) const;
  // A warning names each promise that keeps variants from being picked.
  std::unique_ptr<const DispatchTable> keep_promises(std::unique_ptr<const DispatchTable> made,
                                                     std::vector<std::string>& warnings);
  const Promise* find_promise(const Extents& extents) const;
  void promise(const Extents& extents, std::int64_t bytes);
  // The first promise that the table breaks, with the bytes that it needs there; nullopt if it keeps all.
  std::optional<Promise> broken_promise(const DispatchTable& table) const;
  // Binds the launch, which `place` keeps, and enqueues it.
  void launch_anew(LaunchCache::Held& place, const FamilyEntry& chosen, const LaunchKey& key, const Choice& choice,
                   std::size_t workspace_bytes, cuda::StreamRef stream) const;
  void check_pointers(const LaunchKey& key) const;
  BoundPlan bind(const FamilyEntry& entry, const LaunchKey& key, const Extents& plan_extents,
                 std::int64_t& needed) const;
  [[noreturn]] void throw_miss(const Extents& extents) const;

  const Kernel& kernel_;
  const Problem problem_;
  const std::string specialization_;
  const std::unique_ptr<const FamilyInterface> interface_;
  const FamilyContext context_;
  const std::array<std::uint64_t, LaunchKey::kMaxTensors>
      present_;  // by slot: all bits, or none if the family lacks it

  FamilyDefaults defaults_;
  std::deque<Variant> variants_;
  FamilyEntries entries_;
  std::vector<std::unique_ptr<const DispatchTable>> tables_;
  std::atomic<const DispatchTable*> table_{nullptr};
  std::vector<Promise> promises_;
  LaunchCache launches_;
  mutable TensorMapCache maps_;
};

}  // namespace moetune
