// One update of a family: from what the files hold to a dispatch table, loading the cubins that are new.
// Lives for one call of Family::prepare, on its thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtime/family.h"
#include "runtime/family_defaults.h"

namespace moetune {

class FamilyBuilder {
 public:
  FamilyBuilder(Family& family, Layers& layers, std::vector<std::string>& warnings);

  // Throws RuntimeError (not_tuned) if nothing stored can serve.
  DispatchTable build();

 private:
  // A cubin that a file holds, loaded when it is first used.
  struct Stored {
    std::size_t layer = 0;
    std::int64_t cubin = 0;
    std::string digest;
    CompileUnit unit;
    bool broken = false;  // it did not load
  };

  // A stored configuration's launcher, and the extents at which its launches were found to be as the cubin expects.
  struct Matched {
    std::shared_ptr<const Launcher> launcher;
    std::vector<Extents> extents;  // Launcher::plan_extents
  };

  void choose_hardware();
  // Takes in the first range table that is sound, with all of its cells, or none of it.
  void take_range();
  bool take_range(const StoredRange& range);
  // Whether the range table replaces the winner: it was stored later, and measured around that problem.
  bool is_superseded(const StoredWinner& winner, const TablePoint& point) const;
  // Takes in a winner and its default: their cubins, and the winner as measured. What is wrong with it becomes
  // a warning.
  void take(const StoredWinner& winner);
  void take_winner(const StoredWinner& winner, const Problem& problem);
  void take_default(const StoredWinner& winner, const Problem& problem);
  // Throws BadInput if the moetune that stored the cubin passed its parameters in another way.
  std::shared_ptr<const Launcher> matching_launcher(const std::string& config, const std::string& interface,
                                                    const Problem& problem);
  const Variant* load(const Stored& stored, const Launcher& launcher, const Problem& problem);
  // By the first of the files' cubins that is compiled from the same unit and loads; nullopt if there is none.
  std::optional<std::uint32_t> add_config(const Config& config, const Problem& problem, ChoiceSource source);
  std::optional<DispatchTable::Default> default_at(FamilyDefaults& defaults, const TablePoint& point);
  DispatchTable::Default default_of(const Config& config, const Problem& problem);
  DispatchTable pinned_table();
  Config pinned_config() const;  // throws RuntimeError (invalid_argument) for one that cannot run
  [[noreturn]] void throw_not_tuned() const;

  Family& family_;
  Layers& layers_;
  std::vector<std::string>& warnings_;
  const Space& space_;
  std::vector<StoredWinner> winners_;
  std::string hardware_;  // key text of the winners in use
  bool inherited_ = false;
  std::map<std::pair<std::string, std::string>, Matched> matched_;  // by configuration and interface
  std::vector<Stored> cubins_;
  std::vector<DispatchTable::Measured> measured_;
  std::set<std::vector<std::int64_t>> taken_;  // positions of measured_, and whether they are uneven
  std::set<std::tuple<std::size_t, std::string, std::string>>
      stored_defaults_;  // layers, configurations and digests of their cubins
  std::unordered_map<const Config*, DispatchTable::Default> defaults_;  // of the table that is being built
  std::map<std::string, DispatchTable::Default> default_texts_;         // the same by configuration
  Timing range_timing_ = Timing::overlapped;
  std::string range_stored_at_;  // of the range table in use
  TablePoint range_low_, range_high_;
  Extents like_;  // extents of a measured problem
};

}  // namespace moetune
