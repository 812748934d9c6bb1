// The persistent store of trials, winners and compiled cubins: one SQLite file.
//
// Several processes may use one file at once: readers never block the writer, every trial is committed as it
// lands, and kill -9 at any moment loses no committed trial. One Cache object belongs to one thread at a
// time; open another for another thread. Errors: BrokenEnvironment names the file, what is wrong with it (not
// a database, another application's, a newer schema, damaged, full disk, read-only, a network file system)
// and what to do; the file is left as it was.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/pack_manifest.h"
#include "keys/key.h"

namespace moetune {

using Blob = std::vector<std::uint8_t>;

struct TrialRecord {
  std::string config;   // canonical text
  std::string outcome;  // outcome_name
  std::string message;  // why it failed; empty for ok
  double time_us = 0;   // median; 0 where there is none
  // 95% confidence of the median; of fewer than six samples their range (base/statistics.h)
  double interval_low_us = 0, interval_high_us = 0;
  int samples = 0;
  std::string facts;       // JSON: registers, spills, shared memory, seconds spent
  std::string provenance;  // JSON: strategy, seed, clocks
  bool contended =
      false;  // measured while somebody else used the GPU, or before a canary showed that it works
};

// A configuration with all that a launch of it needs.
struct StoredLaunch {
  std::string config;     // canonical text; "" if there is none
  std::string plan;       // JSON
  std::string interface;  // interface_digest of the plan: how the cubin expects to be called
  Blob cubin;
};

struct WinnerRecord : StoredLaunch {
  double time_us = 0, interval_low_us = 0, interval_high_us = 0;
  double default_time_us = 0;   // 0 if unknown
  double roofline = 0;          // fraction of the device's measured ceiling; 0 if unknown
  StoredLaunch default_launch;  // the space's default, if it was built and right; may be the winner itself
  std::string provenance;       // JSON: strategy, seed, trials, driver, date, moetune version
  std::string stored_at;        // UTC, ISO 8601, of its search; "": when it is stored
  std::string timings;     // JSON: its times by how launches follow each other; "" if only its own is known
  bool contended = false;  // measured while somebody else used the GPU: not for serving
};

// The parts of a winner to read.
enum class WinnerParts { all, without_cubins };

struct Workload {
  std::int64_t id = 0;
  WorkloadKey key;
  std::string family;  // as it was stored; "" if it is unknown
};

// A winner as a runtime looks for it: what chooses and what loads, without plans and cubins.
struct FamilyWinner {
  Workload workload;
  std::string config, interface;
  std::string default_config, default_interface;  // "" if there is none
  std::int64_t cubin = 0, default_cubin = 0;      // for Cache::cubin; 0 if there is none
  std::string cubin_digest, default_cubin_digest;
  double time_us = 0, default_time_us = 0;
  double interval_low_us = 0, interval_high_us = 0;
  double roofline = 0;
  std::string stored_at;
  bool contended = false;
};

struct BuildRecord {
  std::string outcome;  // outcome_name
  std::string facts;    // JSON
  std::string log;
  Blob cubin;  // empty where it failed
};

struct CacheOptions {
  std::int64_t max_build_bytes = std::int64_t{512}
                                 << 20;            // compressed builds kept; least-recently-used go first
  std::chrono::milliseconds busy_timeout{30'000};  // how long to wait for another process's lock
};

struct CacheProblem {
  std::string where;  // "winner 12 (decode_attention ...)"
  std::string what;
};

// By what a merge orders two tables of one key: sound before contended, then the finer one, then the smaller upper end
// of the loss that was seen, infinity if none was. A table of few cells, of which few shapes were measured, says little
// by its small loss.
struct RangeMerit {
  bool contended = false;
  int coarseness = 0;  // smaller: more cells
  double regret = 0;

  auto operator<=>(const RangeMerit&) const = default;
};

// The order by which a merge chooses between two equally sound records of one key (cache/merge.h).
enum class MergeOrder {
  faster,  // by the time, for files whose searches knew nothing of each other
  later,  // by the date, for a file that began with the records of the other and has settled some of them anew
};

struct FamilyRange;

// Conditions on a record beyond its digest, which only those who write records know. Each returns what is wrong with
// one, "" for nothing, and may be empty. The key of a record without its workload has no kernel.
struct RecordRules {
  std::function<std::string(const Workload&)> workload;
  std::function<std::string(const WorkloadKey&, const TrialRecord&)> trial;
  std::function<std::string(const Workload&, const WinnerRecord&, WinnerParts)> winner;
  std::function<std::string(const FamilyRange&)> range = {};
  // How good a range table is, for merges; if it is empty all are equal.
  std::function<RangeMerit(const std::string& table)> range_merit = {};
};

// A stored winner that does not match its digest: it is unusable, the rest of the file may well be sound.
class DamagedWinner : public BrokenEnvironment {
 public:
  using BrokenEnvironment::BrokenEnvironment;
};

struct DamagedRange;
struct GcRequest;
struct GcResult;
struct Generation;
struct MergeResult;
struct RangeGeneration;
struct RangeKey;
struct RangeRecord;

class Cache {
 public:
  enum class Mode {
    create,
    read_write,
    read_only,
    inspect,  // read-only, whatever was done to the tables: for check() alone
  };

  // Opens, creating file and folders for Mode::create, and makes the tables in an empty one.
  // Throws BadInput where there is no file to open (but for Mode::create) or the path cannot be one, and
  // BrokenEnvironment for a pack that is to be written to, or whose manifest is damaged or of a newer moetune.
  static Cache open(const std::filesystem::path& path, Mode mode, const CacheOptions& options = {});
  // A file as it lies, without a lock and nothing made beside it: for family_winners, family_ranges and cubin, each of
  // which holds only if is_unchanged() afterwards. nullopt for a file that was changed within `age`, that has a log
  // beside it, that lies on a network file system, or that does not open: open() reads it or says why not.
  static std::optional<Cache> open_settled(const std::filesystem::path& path,
                                           std::chrono::milliseconds age = std::chrono::seconds(2));
  // Whether the file is as open_settled() found it; always of a Cache that was opened otherwise.
  bool is_unchanged() const;
  // As open() of bytes that were read, for Mode::read_only or inspect; `path` names them in errors.
  static Cache open_content(const std::filesystem::path& path, std::string content, Mode mode);
  // An empty cache that is no file, to make a pack of.
  static Cache in_memory();
  // $XDG_CACHE_HOME/moetune/moetune.db, else ~/.cache/moetune/moetune.db. Where neither variable names a
  // folder the one gives nothing and the other throws BrokenEnvironment.
  static std::optional<std::filesystem::path> find_default_path();
  static std::filesystem::path default_path();

  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;
  ~Cache();

  const std::filesystem::path& path() const;
  // One sentence for the user where the file lies on a network file system, or is read where locks do not work; else
  // empty.
  const std::string& warning() const;
  // Whether the file is without the log of a search that wrote to it: it was copied alone while one went on, or after
  // one was killed. Then results of its last seconds may be missing.
  bool lacks_log() const;

  // From now on what breaks the rules for winners and range tables counts as damaged, whoever reads it: as if it did
  // not match its digest.
  void use_rules(RecordRules rules);
  bool has_rules() const;

  // The id of a workload, inserted if it is new. `family` names its kernel's family; "" if that is unknown.
  std::int64_t workload(const WorkloadKey& key, const std::string& family = "");
  // Gives a family to workloads that have none, which files of the first schema do not: `family_of` returns ""
  // for a workload that it does not know.
  void fill_families(const std::function<std::string(const WorkloadKey&)>& family_of);
  std::optional<std::int64_t> find_workload(const WorkloadKey& key) const;
  std::vector<Workload> workloads() const;

  // A later trial of the same configuration replaces the earlier one.
  void put_trial(std::int64_t workload, const TrialRecord& trial);
  // In the order they were first stored; one that does not match its digest, or whose workload or hardware does not,
  // counts as absent.
  std::vector<TrialRecord> trials(std::int64_t workload) const;
  // Throws BrokenEnvironment, and forgets nothing, while another search works on the workload.
  void clear_trials(std::int64_t workload);
  // Removes the workload with its trials and its winner. Throws BrokenEnvironment while a search works on it.
  void forget(std::int64_t workload);
  // Says that a search works on the workload until this Cache is closed or its process ends. From then on a thread
  // carries what is committed into the main file (cache/log_keeper.h), which is marked as written to.
  void begin_search(std::int64_t workload);

  // Replaces the workload's winner, but a sound one never by a contended one. The old one goes into the history, unless
  // it is the same configuration and cubin with other times.
  // It is stored now unless its record says when. The blob is stored compressed with its digest; the old winner stays
  // until the new one is committed.
  void put_winner(std::int64_t workload, const WinnerRecord& winner);
  // Throws DamagedWinner if anything of the record, its workload or its cubin does not match its digest, or if it
  // breaks the rules.
  std::optional<WinnerRecord> winner(std::int64_t workload, WinnerParts parts = WinnerParts::all) const;
  // The winners of a family that match their digests, latest first; the rules are for who reads them. Throws
  // BrokenEnvironment if the file is a pack whose manifest names others.
  std::vector<FamilyWinner> family_winners(const std::string& kernel, const std::string& family) const;
  // How many rows it has of them, the damaged ones with the others.
  std::size_t family_winner_rows(const std::string& kernel, const std::string& family) const;
  // Throws BrokenEnvironment if it is not there or does not match its digest.
  Blob cubin(std::int64_t id) const;
  Blob cubin(const std::string& digest) const;

  // Replaces the range table of that key (cache/ranges.h); the old one goes into its history, unless this object has
  // stored it itself.
  void put_range(const RangeKey& key, const RangeRecord& record);
  // The progress in the record; "" if there is none, or none that matches its digest.
  std::string range_progress(const RangeKey& key) const;
  // Whether there is a record of that key that does not match its digest.
  bool is_range_damaged(const RangeKey& key) const;
  // The undamaged range tables of a family, latest first. Throws as family_winners does.
  std::vector<FamilyRange> family_ranges(const std::string& kernel, const std::string& family) const;
  std::vector<FamilyRange> ranges() const;  // the same of all families
  // The range tables that ranges() leaves out, and why.
  std::vector<DamagedRange> damaged_ranges() const;
  // With its cubins, without its progress. Throws BrokenEnvironment for a damaged cubin.
  RangeRecord range_record(const FamilyRange& range) const;

  // The undamaged winners that others replaced, latest first. Never handed out, exported or merged.
  std::vector<Generation> history(std::int64_t workload) const;
  // Makes that generation, or the latest that launches anything else, the winner again; the present one goes into the
  // history. Returns it. Throws BadInput if there is none.
  Generation roll_back(std::int64_t workload, std::optional<std::int64_t> number = std::nullopt);

  // The same of range tables, by FamilyRange::id.
  std::vector<RangeGeneration> range_history(std::int64_t range) const;
  RangeGeneration roll_back_range(std::int64_t range, std::optional<std::int64_t> number = std::nullopt);

  // The manifest of a pack; null for a cache.
  const PackManifest* manifest() const;
  // Throws BrokenEnvironment for a pack that holds other winners or range tables than its manifest names.
  void require_as_sealed() const;
  // Makes a pack of this file, which from then on is only read: no trials and builds, one plain file.
  void seal(const std::string& made_by);
  // The bytes of the whole file, without a log. Throws BrokenEnvironment for want of memory.
  std::string content() const;

  // Takes the winners and trials of other caches and packs into the cache at `into`, which is made if it is new, as
  // cache/merge.h says. Every file is checked whole, against `rules` too, before `into` is touched; then one
  // transaction takes all of them or, whatever happens, none. Builds and calibrations stay where they are. Throws
  // BadInput for a file that is `into` itself, that does not exist or is past 16 GiB; BrokenEnvironment, naming file
  // and record, for one that is unsound.
  static MergeResult merge(const std::filesystem::path& into, const std::vector<std::filesystem::path>& files,
                           const RecordRules& rules, MergeOrder order = MergeOrder::faster,
                           const CacheOptions& options = {});

  // Compiled cubins by content digest of (source, headers, options, compiler version). The builds unused for
  // longest are dropped past CacheOptions::max_build_bytes.
  void put_build(const std::string& digest, const BuildRecord& build);
  std::optional<BuildRecord> find_build(const std::string& digest);  // a damaged one counts as absent

  // Named measurements of one device, such as the read ceiling: value and unit by name.
  void put_calibration(const HardwareKey& hardware, const std::string& name, double value);
  std::optional<double> calibration(const HardwareKey& hardware, const std::string& name) const;

  // PRAGMA integrity_check; tables, columns and indexes against those that moetune makes; references between
  // rows; every text for being UTF-8; every row and blob against its digest, and each table against the count and
  // digest of its rows; every workload, trial, winner and range table against `rules`.
  std::vector<CacheProblem> check(const RecordRules& rules = {}) const;

  // Takes out what cache/gc.h describes, and gives the space back to the file system. Winners stay. Needs a writable
  // file, unless it is a dry run.
  GcResult collect_garbage(const GcRequest& request);

  struct Summary {
    std::int64_t workloads = 0, trials = 0, winners = 0, builds = 0;
    std::int64_t file_bytes = 0, build_bytes = 0;
    int schema_version = 0;
  };
  Summary summary() const;

 private:
  struct Impl;
  explicit Cache(std::unique_ptr<Impl> impl);
  // A workload as one of the merged files holds it.
  struct Candidate {
    const Cache* from;
    std::int64_t workload;  // there
  };
  // Within a transaction of this cache.
  void take_winner(std::int64_t workload, const std::vector<Candidate>& candidates, MergeOrder order,
                   MergeResult& result);
  // As cache/merge.h says. Returns how many were taken.
  std::int64_t take_ranges(const Cache& from, const RecordRules& rules, MergeOrder order);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
