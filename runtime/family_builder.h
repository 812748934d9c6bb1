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

namespace moetune {

// Call in a handler: rethrows driver failures, which are no cubin's fault. A rank that skipped a cubin for one would
// pick otherwise than the others.
void rethrow_if_of_device(const std::runtime_error& error);

class FamilyBuilder {
 public:
  FamilyBuilder(Family& family, Layers& layers, std::vector<std::string>& warnings);

  // Throws RuntimeError (not_tuned) if nothing stored can serve.
  std::unique_ptr<const DispatchTable> build();

 private:
  // Hardware whose results serve here.
  struct Origin {
    HardwareKey key;
    std::string text;
    bool inherited = false;  // not this very hardware
  };

  // A cubin that a file holds, loaded when it is first used.
  struct Stored {
    std::size_t origin = 0;
    std::size_t layer = 0;
    std::string digest;
    std::size_t unit = 0;  // its number (units_)
    bool broken = false;   // it did not load
  };

  // A stored configuration, and its launcher, which serves all of the family.
  struct Launchable {
    Config config;
    std::shared_ptr<const Launcher> launcher;
    std::size_t unit = 0;  // the number of its unit (units_)
  };

  // The range table in use.
  struct TakenRange {
    std::size_t origin = 0, layer = 0;
    Timing timing = Timing::overlapped;
    std::string stored_at;
    PointHull hull;
  };

  void choose_hardware();
  bool is_of(const HardwareKey& key, std::size_t origin) const { return origins_[origin].key.is_same(key); }
  // Takes in the first range table of the hardware that is sound, with all of its cells, or none of it.
  void take_range(std::size_t origin);
  bool take_range(const StoredRange& range, std::size_t origin);
  const Stored& cubin_among(const std::vector<Stored>& cubins, std::size_t unit,
                            const std::string& config) const;  // throws BadInput if there is none
  // Whether the range table replaces the winner: it was measured around that problem, on this hardware if the winner
  // was not, or else in the same file or one before it, later or closer to how a server launches.
  bool is_superseded(const StoredWinner& winner, std::size_t origin, const TablePoint& point) const;
  // Takes in a winner and its default: their cubins, and the winner as measured. Any fault becomes
  // a warning.
  void take(const StoredWinner& winner, std::size_t origin);
  void take_winner(const StoredWinner& winner, std::size_t origin, const Problem& problem);
  // DispatchTable::Measured::met of a result whose default took `default_us`; nullopt if that is 0. A configuration
  // that is not stored is the space's at that problem.
  std::optional<std::uint32_t> met_default(double default_us, const std::string& config);
  void take_default(const StoredWinner& winner, std::size_t origin, const Problem& problem);
  // A stored problem. Throws BadInput for text that is no problem, or one of another family.
  Problem problem_of(const std::string& text);
  const Launchable& launchable(const std::string& config, const Problem& problem);
  const Launchable& launchable(const Config& config, const std::string& text, const Problem& problem);
  // Throws BadInput if the moetune that stored the cubin passed its parameters in another way.
  const Launchable& matching(const std::string& config, const std::string& interface, const Problem& problem);
  void keep(Stored stored);  // in cubins_, unless it is there
  const Variant* load(const Stored& stored, const Launcher& launcher, const Problem& problem);
  Variant& variant_of(const Stored& stored, const CompileUnit& unit);
  void require_runnable(const Config& config, const Problem& problem);  // throws BadInput
  // By the first of the files' cubins that is compiled from the same unit and loads; nullopt if there is none.
  std::optional<std::uint32_t> add_config(const Config& config, const std::string& text, const Problem& problem);
  std::vector<std::uint32_t> default_entries();
  std::unique_ptr<const DispatchTable> pinned_table();
  Config pinned_config() const;  // throws RuntimeError (invalid_argument) for one that cannot run
  [[noreturn]] void throw_not_tuned() const;

  Family& family_;
  Layers& layers_;
  std::vector<std::string>& warnings_;
  const Space& space_;
  StoredFamily stored_;
  std::vector<Origin> origins_;                    // in order of precedence
  std::vector<Problem> own_problems_;              // some of the family, none alike
  std::map<std::string, Launchable> launchables_;  // by configuration
  // Extents (Launcher::plan_extents) at which a configuration's launches were found to be as a cubin of that interface
  // expects, and at which a variant has all their entries.
  std::map<std::pair<const Launcher*, std::string>, std::set<Extents>> matched_;
  std::map<std::pair<const Variant*, const Launcher*>, std::set<Extents>> loaded_;
  struct UnitHash {
    std::size_t operator()(const CompileUnit& unit) const;
  };
  std::unordered_map<CompileUnit, std::size_t, UnitHash> units_;  // numbers, for quick comparisons
  std::vector<Stored> cubins_;
  std::set<std::tuple<std::size_t, std::string, std::size_t>> known_;  // layers, digests and units of cubins_
  std::unordered_map<std::string, Variant*> variants_;                 // the family's, by digest
  std::vector<DispatchTable::Measured> measured_;
  std::map<TablePoint, std::size_t> cells_;  // of the range table, in measured_
  std::set<TablePoint> taken_;               // of winners
  std::set<std::tuple<std::size_t, std::string, std::string>>
      stored_defaults_;  // layers, configurations and digests of their cubins
  std::optional<TakenRange> range_;
  Extents like_;  // extents of a measured problem
};

}  // namespace moetune
