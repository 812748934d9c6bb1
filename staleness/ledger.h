// The findings of earlier nights, by workload: so that nothing is examined twice under the same templates, compiler
// and driver, and a night that was killed goes on. A JSON file beside the cache, replaced in one step after each
// workload.
//
// One process at a time writes it (night_lock.h); belongs to one thread. A file that is damaged is said so and begun
// afresh: what it forgets is examined once more. Errors: BrokenEnvironment if it cannot be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "keys/key.h"
#include "staleness/staleness.h"
#include "staleness/triage.h"

namespace moetune {

struct LedgerEntry {
  MadeWith made_with;       // when it was examined
  std::string verdict;      // "begun_patch", "tuned", "improved", "kept" ...
  std::int64_t at = 0;      // seconds since 1970
  double seconds = 0;       // that it took
  double best_us = 0;       // of what is served since; 0 if unknown
  std::string config = "";  // what is served since; "" if unknown, as of ranges and of ledgers of before

  bool operator==(const LedgerEntry&) const = default;
  // Whether it has examined that configuration: a merge may have put another in its place since.
  bool is_of(const std::string& served) const { return config.empty() || config == served; }
  bool is_done() const { return verdict == "tuned" || verdict == "improved" || verdict == "kept"; }
  // The remedy, if its search was begun and did not end.
  std::optional<Remedy> begun() const {
    if (verdict == begun_verdict(Remedy::patch)) return Remedy::patch;
    if (verdict == begun_verdict(Remedy::full)) return Remedy::full;
    return std::nullopt;
  }
  static std::string begun_verdict(Remedy remedy) { return "begun_" + std::string(remedy_name(remedy)); }
};

class Ledger {
 public:
  Ledger() = default;  // an empty one
  // Reads the file, if there is one.
  explicit Ledger(std::filesystem::path file);

  const std::string& damage() const { return damage_; }  // why what was there could not be read; or empty
  std::optional<LedgerEntry> find(const WorkloadKey& key) const;
  // Writes the file.
  void put(const WorkloadKey& key, const LedgerEntry& entry);
  // Visits the entries of the kernel on the hardware (HardwareKey::text).
  using Visitor = std::function<void(const std::string& kernel, const std::string& hardware, const LedgerEntry&)>;
  void each(const Visitor& visit) const;
  // The mean time of the kernel's entries that took time; 0 if there is none.
  double mean_seconds(const std::string& kernel, bool searched) const;

 private:
  friend Ledger ledgers_beside(const std::filesystem::path& cache);
  struct Id {
    std::string kernel, problem, hardware;
    auto operator<=>(const Id&) const = default;
  };
  static Id id_of(const WorkloadKey& key);
  void read();
  void write() const;
  void take_newer(const Ledger& other);

  std::filesystem::path file_;
  std::map<Id, LedgerEntry> entries_;
  std::string damage_;
};

// The entries of all GPUs' ledgers beside the cache, the latest of each workload; for reading alone.
Ledger ledgers_beside(const std::filesystem::path& cache);

}  // namespace moetune
