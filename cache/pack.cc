#include "cache/pack.h"

#include "base/replace_file.h"
#include "base/version.h"
#include "cache/cache_file.h"
#include "cache/cubins.h"
#include "cache/pack_rows.h"
#include "cache/schema/schema.h"
#include "cache/tallies.h"
#include "cache/winner_copier.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

void require_replaceable(const fs::path& path) {
  if (std::error_code absent; !fs::exists(fs::symlink_status(path, absent))) return;
  const BadInput occupied(path.string() + " exists and is no pack; name another file");
  try {
    if (Cache::open(path, Cache::Mode::read_only).manifest() != nullptr) return;
  } catch (const BrokenEnvironment&) {
    throw occupied;
  }
  throw occupied;
}

// Whether a server may launch the winner; counts it if not.
bool is_servable(const WinnerRecord& winner, PackContents& contents) {
  if (winner.contended) {
    ++contents.contended;
  } else if (is_provisional(winner.provenance)) {
    ++contents.provisional;
  } else if (winner.interface.empty()) {
    ++contents.without_family;
  } else {
    return true;
  }
  return false;
}

void copy_winner(const Cache& source, const Workload& workload, Cache& pack, WinnerCopier& copier,
                 PackContents& contents) {
  const RecordRules& rules = source.file().rules;
  try {
    const std::optional<WinnerRecord> winner = source.winners.read(workload.id, WinnerParts::all);
    if (!winner) return;
    if (rules.winner && !rules.winner(workload, *winner, WinnerParts::all).empty()) {
      ++contents.damaged;
    } else if (is_servable(*winner, contents)) {
      copier.copy(workload.id, pack.workloads.id(workload.key, workload.family));
      ++contents.winners;
    }
  } catch (const DamagedWinner&) {
    ++contents.damaged;
  }
}

bool takes(const PackFilter& filter, const std::string& kernel, const HardwareKey& hardware) {
  return !filter.takes || filter.takes(kernel, hardware);
}

void copy_ranges(const Cache& source, const PackFilter& filter, Cache& pack, PackContents& contents) {
  const JudgedRanges all = source.ranges.judged();
  for (const FamilyRange& range : all.sound) {
    if (!takes(filter, range.key.kernel, range.key.hardware)) continue;
    if (range.key.hardware.origin != "gpu" && !filter.recorded) continue;
    try {
      pack.ranges.put(range.key, source.ranges.record(range));
      ++contents.ranges;
    } catch (const BrokenEnvironment&) {
      ++contents.damaged_ranges;
    }
  }
  for (const DamagedRange& one : all.damaged)
    contents.damaged_ranges += takes(filter, one.range.key.kernel, one.range.key.hardware);
}

std::map<std::string, std::string> descriptions(const Cache& source, const PackFilter& filter, const Cache& pack) {
  std::map<std::string, std::string> all;
  for (const PackFamily& family : families_of(pack.file().database)) {
    if (all.contains(family.kernel)) continue;
    std::string text = filter.description ? filter.description(family.kernel) : "";
    if (const PackManifest* const known = source.manifest(); text.empty() && known != nullptr)
      if (const auto found = known->kernels.find(family.kernel); found != known->kernels.end()) text = found->second;
    if (!text.empty()) all.emplace(family.kernel, std::move(text));
  }
  return all;
}

// Throws BrokenEnvironment for a pack that holds other winners or range tables than its manifest names.
void require_as_sealed(const Cache& cache) {
  if (!cache.file().pack) return;
  std::vector<PackFamily> families = cache.file().pack->families;
  for (PackFamily& held : families_of(cache.file().database)) families.push_back(std::move(held));
  for (const PackFamily& one : families) {
    cache.winners.of_family(one.kernel, one.family);
    cache.ranges.of_family(one.kernel, one.family);
  }
}

}  // namespace

void seal(Cache& cache, const std::string& made_by, std::map<std::string, std::string> kernels) {
  const Database& database = cache.file().database;
  {
    WriteTransaction transaction(database);
    database.execute(kDropCacheSchema);
    database.run("DELETE FROM trials");
    database.run("DELETE FROM builds");
    database.run("DELETE FROM history");
    database.run("DELETE FROM range_history_cubins");
    database.run("DELETE FROM range_history");
    database.run("UPDATE ranges SET progress = ''");
    database.run("UPDATE ranges AS g SET digest = " MOETUNE_RANGE_DIGEST);
    database.run(kDropUnusedCubins);
    PackManifest manifest{made_by, families_of(database), std::move(kernels)};
    database.run("INSERT INTO pack (id, manifest, digest) VALUES (1, ?1, moetune_digest(?1))", manifest.text());
    transaction.commit();
    cache.file().pack = std::move(manifest);
  }
  if (cache.path() != ":memory:" && !database.set_journal("delete"))
    throw BrokenEnvironment("cannot finish the pack " + cache.path().string() + ": somebody else has it open");
  constexpr int kMostFree = 20;  // a twentieth
  if (kMostFree * database.integer_pragma("freelist_count") > database.integer_pragma("page_count"))
    database.execute("VACUUM");
}

MadePack make_pack(const Cache& source, const PackFilter& filter) {
  const std::shared_ptr<const void> snapshot = source.snapshot();
  require_as_sealed(source);
  Cache pack = Cache::in_memory();
  stop_tallies(pack.file().database);
  PackContents contents;
  WinnerCopier copier(source.file(), pack.file());
  WriteTransaction whole(pack.file().database);
  for (const Workload& workload : source.workloads.all()) {
    const WorkloadKey& key = workload.key;
    if (!takes(filter, key.kernel, key.hardware)) continue;
    if (is_recording(key)) continue;  // trials alone
    if (key.hardware.origin == "gpu" || filter.recorded)
      copy_winner(source, workload, pack, copier, contents);
    else
      contents.recorded += source.winners.find_sound(workload.id).has_value();
  }
  copy_ranges(source, filter, pack, contents);
  recount_tallies(pack.file().database);
  whole.commit();
  keep_tallies(pack.file().database);
  if (contents.winners == 0 && contents.ranges == 0)
    throw NoWinners("there is no winner and no range table to export in " + source.path().string() +
                    (filter.takes ? " of what is selected" : "") +
                    (contents.recorded > 0      ? " but of recordings, which no server launches"
                     : contents.provisional > 0 ? " but of interrupted searches; search again"
                     : contents.contended > 0   ? " but measured beside somebody else's work; search again"
                                                : ""));
  seal(pack, std::string(version()), descriptions(source, filter, pack));
  contents.families = static_cast<std::int64_t>(pack.manifest()->families.size());
  MadePack made{pack.content(), contents};
  made.contents.bytes = static_cast<std::int64_t>(made.bytes.size());
  return made;
}

std::string pack_state(const Cache& source) {
  Query row = source.file().database.query(
      "SELECT group_concat(name || ' ' || rows || ' ' || digest, ';') FROM (SELECT * FROM tallies WHERE name IN"
      " ('hardware', 'workloads', 'winners', 'ranges', 'cubins') ORDER BY name)");
  return row.step() ? row.text(0) + ";" : "";
}

PackContents export_pack(const Cache& source, const fs::path& path, const PackFilter& filter) {
  require_replaceable(path);
  const MadePack made = make_pack(source, filter);
  remove_left_overs(path);
  replace_file(path, made.bytes);
  return made.contents;
}

}  // namespace moetune
