#include "cache/check.h"

#include <map>
#include <set>

#include "base/digest.h"
#include "base/format.h"
#include "base/stored_time.h"
#include "base/utf8.h"
#include "cache/cache_file.h"
#include "cache/pack_rows.h"
#include "cache/schema/schema.h"
#include "cache/schema/schema_check.h"
#include "cache/tallies.h"

namespace moetune {
namespace {

using Problems = std::vector<CacheProblem>;

constexpr const char* kMismatch = "does not match its digest";

void check_pages(const Database& database, Problems& problems) {
  Query row = database.query("PRAGMA integrity_check");
  while (row.step()) {
    if (row.text(0) != "ok") problems.push_back({"database", row.text(0)});
  }
}

void check_schema(const Database& database, Problems& problems) {
  for (std::string& difference : schema_differences(database)) problems.push_back({"schema", std::move(difference)});
}

void check_references(const Database& database, Problems& problems) {
  Query row = database.query("PRAGMA foreign_key_check");
  while (row.step()) {
    const std::string number = row.text(1);  // none in a table without row numbers
    problems.push_back(
        {row.text(0) + (number.empty() ? "" : " " + number), "belongs to a missing row of " + row.text(2)});
  }
}

// "trial 7 of workload 2 (decode_attention batch=64)"
std::string place(const std::string& what, const std::string& workload, const WorkloadKey& key) {
  const std::string name = key.kernel + (key.problem.empty() ? "" : " " + key.problem);
  return what + " " + workload + (key.kernel.empty() ? "" : " (" + to_utf8(name) + ")");
}

// Whether the row's texts can be read; says so where they cannot.
bool check_texts(const Query& row, const std::string& where, Problems& problems) {
  const std::string column = row.broken_text();
  if (!column.empty()) problems.push_back({where, "its " + column + " is not UTF-8 text"});
  return column.empty();
}

void check_hardware(const Database& database, Problems& problems) {
  Query row = database.query(
      "SELECT id, key, name, compute_capability, sm_count, l2_bytes, memory_bytes, sm_clock_khz,"
      " memory_clock_khz, origin, driver, digest = " MOETUNE_HARDWARE_DIGEST " FROM hardware h ORDER BY id");
  while (row.step()) {
    const std::string where = "hardware " + row.text(0);
    if (!check_texts(row, where, problems)) continue;
    const HardwareKey key = hardware_of(row, 2);
    if (key.text() != row.text(1)) {
      problems.push_back({where, "its key does not say what its columns say"});
    } else if (row.integer(11) == 0) {
      problems.push_back({where, kMismatch});
    }
  }
}

void check_calibrations(const Database& database, Problems& problems) {
  Query row = database.query("SELECT c.hardware, c.name, c.value, c.digest = " MOETUNE_CALIBRATION_DIGEST
                             " FROM calibrations c JOIN hardware h ON h.id = c.hardware ORDER BY c.hardware, c.name");
  while (row.step()) {
    const std::string where = "calibration " + to_utf8(row.text(1)) + " of hardware " + row.text(0);
    if (!check_texts(row, where, problems)) continue;
    const double value = row.real(2);
    if (!is_calibration(value))
      problems.push_back({where, (value > 0 ? "cannot be: " : "is no positive number: ") + row.text(2)});
    else if (row.integer(3) == 0)
      problems.push_back({where, kMismatch});
  }
}

using Keys = std::map<std::int64_t, Workload>;

Workload workload_at(const Keys& keys, std::int64_t workload) {
  const auto found = keys.find(workload);
  return found == keys.end() ? Workload() : found->second;  // the missing row is said elsewhere
}

const WorkloadKey& key_of(const Keys& keys, std::int64_t workload) {
  static const WorkloadKey kNone;
  const auto found = keys.find(workload);
  return found == keys.end() ? kNone : found->second.key;
}

// Returns the ids of those that are named.
std::set<std::int64_t> check_workloads(const Database& database, const Keys& keys, const RecordRules& rules,
                                       Problems& problems) {
  std::set<std::int64_t> named;
  Query row = database.query(
      "SELECT id, kernel, problem, source_digest, toolchain, timing, family, digest = " MOETUNE_WORKLOAD_DIGEST
      " FROM workloads w ORDER BY id");
  while (row.step()) {
    const Workload workload = workload_at(keys, row.integer(0));
    const std::string where = place("workload", row.text(0), workload.key);
    const std::size_t before = problems.size();
    if (!check_texts(row, where, problems)) {
    } else if (row.integer(7) == 0) {
      problems.push_back({where, kMismatch});
    } else if (!timing_from_name(row.text(5))) {
      problems.push_back({where, "its timing '" + to_utf8(row.text(5)) + "' is unknown"});
    } else if (rules.workload && !workload.key.kernel.empty()) {
      const std::string wrong = rules.workload(workload);
      if (!wrong.empty()) problems.push_back({where, wrong});
    }
    if (problems.size() > before) named.insert(workload.id);
  }
  return named;
}

// A row's identity is made once a workload, and its place only for the row that is named. Returns their tally.
Tally check_trials(const Database& database, const Keys& keys, const RecordRules& rules, Problems& problems) {
  Tally tally;
  TrialRecord trial;  // one for all, so that its texts are allocated once
  std::map<std::int64_t, std::map<std::string, std::int64_t>> counts;
  Query row = database.query("WITH identities AS MATERIALIZED (SELECT i.id, " MOETUNE_IDENTITY_OF(
      "i", "j") " AS identity FROM workloads i"
                " JOIN hardware j ON j.id = i.hardware) SELECT t.id, t.workload, t.digest = " MOETUNE_TRIAL_DIGEST_OF(
                    "n.identity") ", " MOETUNE_TRIAL_COLUMNS
                                  ", t.digest FROM trials t LEFT JOIN identities n ON n.id = t.workload ORDER BY t.id");
  while (row.step()) {
    const std::int64_t workload = row.integer(1);
    tally.add(row.view(13));
    const WorkloadKey& key = key_of(keys, workload);
    const auto where = [&] { return place("trial " + row.text(0) + " of workload", std::to_string(workload), key); };
    if (const std::string column = row.broken_text(); !column.empty()) {
      problems.push_back({where(), "its " + column + " is not UTF-8 text"});
      continue;
    }
    read_trial(row, trial, 3);
    ++counts[workload][trial.outcome];
    const std::string wrong = row.integer(2) == 0 ? kMismatch : rules.trial ? rules.trial(key, trial) : "";
    if (!wrong.empty()) problems.push_back({where(), wrong});
  }
  if (!has_cache_schema(database)) return tally;
  Query stored = database.query("SELECT workload, outcome, trials FROM trial_counts WHERE trials <> 0");
  while (stored.step()) {
    std::map<std::string, std::int64_t>& of = counts[stored.integer(0)];
    const auto found = of.find(stored.text(1));
    if (found != of.end() && found->second == stored.integer(2))
      of.erase(found);
    else
      problems.push_back({"trial counts of workload " + stored.text(0), "are not those of its trials"});
  }
  for (const auto& [workload, left] : counts) {
    for (std::size_t i = 0; i < left.size(); ++i)
      problems.push_back({"trial counts of workload " + std::to_string(workload), "are not those of its trials"});
  }
  return tally;
}

// Those of workloads that are named need not be named again.
void check_winners(const Winners& winners, const Database& database, const Keys& keys,
                   const std::set<std::int64_t>& named, const RecordRules& rules, Problems& problems) {
  std::vector<std::pair<std::int64_t, std::string>> readable;
  {
    Query row = database.query(
        "SELECT workload, config, plan, interface, fallback_config, fallback_plan, fallback_interface, provenance,"
        " stored_at, timings FROM winners ORDER BY workload");
    while (row.step()) {
      const std::string where = place("winner", row.text(0), key_of(keys, row.integer(0)));
      if (check_texts(row, where, problems)) readable.emplace_back(row.integer(0), where);
    }
  }
  for (const auto& [workload, where] : readable) {
    try {
      const std::optional<WinnerRecord> winner = winners.read(workload, WinnerParts::all);
      if (!winner || !rules.winner) continue;  // gone since, or its workload is, which is said elsewhere
      if (named.contains(workload)) continue;
      const std::string wrong = rules.winner(workload_at(keys, workload), *winner, WinnerParts::all);
      if (!wrong.empty()) problems.push_back({where, wrong});
    } catch (const DamagedWinner&) {
      problems.push_back({where, kMismatch});
    }
  }
}

// Checks the times of records that the rules do not see.
std::string wrong_times(double time_us, double low_us, double high_us) {
  const bool can_be = is_stored_time(time_us) && is_stored_time(low_us) && is_stored_time(high_us);
  return can_be && low_us <= high_us ? "" : format("its time is %g µs, within %g to %g µs", time_us, low_us, high_us);
}

void check_history(const Database& database, const Keys& keys, Problems& problems) {
  Query row = database.query(
      "SELECT workload, generation, reason, replaced_at, config, plan, interface, fallback_config, fallback_plan,"
      " fallback_interface, provenance, stored_at, timings, digest = " MOETUNE_HISTORY_DIGEST
      ", time_us, interval_low_us, interval_high_us FROM history y ORDER BY workload, generation");
  while (row.step()) {
    const std::string where =
        place("generation " + row.text(1) + " of workload", row.text(0), key_of(keys, row.integer(0)));
    if (!check_texts(row, where, problems)) continue;
    const std::string wrong = row.integer(13) == 0 ? kMismatch : wrong_times(row.real(14), row.real(15), row.real(16));
    if (!wrong.empty()) problems.push_back({where, wrong});
  }
}

void check_ranges(const Database& database, const std::vector<FamilyRange>& tables, const RecordRules& rules,
                  Problems& problems) {
  std::set<std::string> named;
  Query row = database.query(
      "SELECT id, kernel, family, source_digest, toolchain, timing, plan, progress, stored_at,"
      " provenance, digest = " MOETUNE_RANGE_DIGEST " FROM ranges g ORDER BY id");
  while (row.step()) {
    const std::string where = "range table " + row.text(0) + " (" + to_utf8(row.text(1) + " " + row.text(2)) + ")";
    const std::size_t before = problems.size();
    if (check_texts(row, where, problems)) {
      if (row.integer(10) == 0)
        problems.push_back({where, kMismatch});
      else if (!timing_from_name(row.text(5)))
        problems.push_back({where, "its timing '" + to_utf8(row.text(5)) + "' is unknown"});
    }
    if (problems.size() > before) named.insert(where);
  }
  if (!rules.range) return;
  for (const FamilyRange& table : tables) {
    if (named.contains(place_of(table))) continue;
    const std::string wrong = rules.range(table);
    if (!wrong.empty()) problems.push_back({place_of(table), wrong});
  }
}

void check_range_history(const Database& database, Problems& problems) {
  Query row = database.query(
      "SELECT range, generation, reason, replaced_at, plan, provenance, stored_at,"
      " digest = " MOETUNE_RANGE_HISTORY_DIGEST " FROM range_history y ORDER BY range, generation");
  while (row.step()) {
    const std::string where = "generation " + row.text(1) + " of range table " + row.text(0);
    if (check_texts(row, where, problems) && row.integer(7) == 0) problems.push_back({where, kMismatch});
  }
}

void check_cubins(const Database& database, Problems& problems) {
  Query row = database.query("SELECT id, digest, frame, bytes FROM cubins ORDER BY id");
  while (row.step()) {
    const std::string where = "cubin " + row.text(0);
    const std::optional<Blob> cubin = decompress(row.bytes(2), row.integer(3));
    if (!cubin || digest(*cubin) != row.text(1)) problems.push_back({where, kMismatch});
  }
}

void check_builds(const Database& database, Problems& problems) {
  Query row = database.query("SELECT name, outcome, facts, log, cubin, cubin_bytes, digest FROM builds ORDER BY id");
  while (row.step()) {
    const std::string where = "build " + to_utf8(row.text(0));
    if (!check_texts(row, where, problems)) continue;
    const std::optional<Blob> cubin = decompress(row.bytes(4), row.integer(5));
    if (cubin && build_digest(row.text(0), {row.text(1), row.text(2), row.text(3), *cubin}) == row.text(6)) continue;
    problems.push_back({where, kMismatch});
  }
}

void check_tallies(const Database& database, const Tally& trials, Problems& problems) {
  for (TallyDifference& one : tally_differences(database, trials))
    problems.push_back({"table " + one.table, std::move(one.what)});
}

void check_pack(const Database& database, Problems& problems) {
  const std::optional<PackManifest> pack = read_manifest(database);
  if (!pack) return;
  for (const PackFamily& held : families_of(database)) {
    const PackFamily* named = pack->find(held.kernel, held.family);
    const std::string where = "pack's family " + held.kernel + " " + to_utf8(held.family);
    if (named == nullptr)
      problems.push_back({where, "is not in the manifest"});
    else if (named->digest != held.digest)
      problems.push_back({where, "does not hold the results that the manifest names"});
  }
  for (const PackFamily& named : pack->families) {
    const PackFamily held = family_of(database, named.kernel, named.family);
    if (held.winners != 0 || held.ranges != 0) continue;
    problems.push_back({"pack's family " + named.kernel + " " + to_utf8(named.family), "is missing"});
  }
}

}  // namespace

std::vector<CacheProblem> check_cache(const Cache& cache, const RecordRules& rules) {
  const Database& database = cache.file().database;
  const ReadTransaction snapshot(database);
  Problems problems;
  const auto attempt = [&](const auto& part) {
    try {
      part();
    } catch (const BrokenEnvironment& damage) {
      problems.push_back({"database", damage.what()});
    }
  };
  attempt([&] { check_pages(database, problems); });
  const std::size_t before = problems.size();
  attempt([&] { check_schema(database, problems); });
  if (problems.size() > before) return problems;  // what reads the rows would stumble over the same again
  attempt([&] { check_references(database, problems); });
  attempt([&] { check_hardware(database, problems); });
  attempt([&] { check_calibrations(database, problems); });
  Keys keys;
  attempt([&] {
    for (Workload& workload : cache.workloads.all()) keys.emplace(workload.id, std::move(workload));
  });
  std::set<std::int64_t> named;
  attempt([&] { named = check_workloads(database, keys, rules, problems); });
  std::optional<Tally> trials;  // unless they cannot be read
  attempt([&] { trials = check_trials(database, keys, rules, problems); });
  attempt([&] { check_winners(cache.winners, database, keys, named, rules, problems); });
  attempt([&] { check_history(database, keys, problems); });
  attempt([&] { check_ranges(database, cache.ranges.read(), rules, problems); });
  attempt([&] { check_range_history(database, problems); });
  attempt([&] { check_cubins(database, problems); });
  attempt([&] { check_builds(database, problems); });
  attempt([&] { check_pack(database, problems); });
  attempt([&] {
    if (trials) check_tallies(database, *trials, problems);
  });
  return problems;
}

CacheSummary summary_of(const Cache& cache) {
  const Database& database = cache.file().database;
  CacheSummary summary;
  Query row = database.query(
      "SELECT (SELECT count(*) FROM workloads), (SELECT rows FROM tallies WHERE name = 'trials'),"
      " (SELECT count(*) FROM winners),"
      " (SELECT count(*) FROM builds), (SELECT coalesce(sum(stored_bytes), 0) FROM builds)");
  row.step();
  summary.workloads = row.integer(0);
  summary.trials = row.integer(1);
  summary.winners = row.integer(2);
  summary.builds = row.integer(3);
  summary.build_bytes = row.integer(4);
  summary.schema_version = static_cast<int>(database.integer_pragma("user_version"));
  for (const char* part : {"", "-wal"}) {
    std::error_code absent;
    const auto size = std::filesystem::file_size(cache.path().string() + part, absent);
    if (!absent) summary.file_bytes += static_cast<std::int64_t>(size);
  }
  return summary;
}

}  // namespace moetune
