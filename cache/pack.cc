#include "cache/pack.h"

#include "base/replace_file.h"
#include "base/version.h"
#include "cache/ranges.h"

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
bool is_servable(const Workload& workload, const WinnerRecord& winner, PackContents& contents) {
  if (winner.contended) {
    ++contents.contended;
  } else if (workload.family.empty() || winner.interface.empty()) {
    ++contents.without_family;
  } else {
    return true;
  }
  return false;
}

bool holds_winner(const Cache& source, const Workload& workload) {
  try {
    return source.winner(workload.id, WinnerParts::without_cubins).has_value();
  } catch (const DamagedWinner&) {
    return false;
  }
}

void copy_winner(const Cache& source, const Workload& workload, Cache& pack, PackContents& contents) {
  try {
    const std::optional<WinnerRecord> winner = source.winner(workload.id);
    if (!winner || !is_servable(workload, *winner, contents)) return;
    pack.put_winner(pack.workload(workload.key, workload.family), *winner);
    ++contents.winners;
  } catch (const DamagedWinner&) {
    ++contents.damaged;
  }
}

bool takes(const PackFilter& filter, const std::string& kernel, const HardwareKey& hardware) {
  return (filter.kernel.empty() || kernel == filter.kernel) &&
         hardware.name.find(filter.hardware) != std::string::npos;
}

void copy_ranges(const Cache& source, const PackFilter& filter, Cache& pack, PackContents& contents) {
  for (const FamilyRange& range : source.ranges()) {
    if (!takes(filter, range.key.kernel, range.key.hardware)) continue;
    if (range.key.hardware.origin != "gpu" && !filter.recorded) continue;
    try {
      pack.put_range(range.key, source.range_record(range));
      ++contents.ranges;
    } catch (const BrokenEnvironment&) {
      ++contents.damaged_ranges;
    }
  }
  for (const DamagedRange& one : source.damaged_ranges())
    contents.damaged_ranges += takes(filter, one.range.key.kernel, one.range.key.hardware);
}

}  // namespace

MadePack make_pack(const Cache& source, const PackFilter& filter) {
  source.require_as_sealed();
  Cache pack = Cache::in_memory();
  PackContents contents;
  for (const Workload& workload : source.workloads()) {
    const WorkloadKey& key = workload.key;
    if (!takes(filter, key.kernel, key.hardware)) continue;
    if (is_recording(key)) continue;  // trials alone
    if (key.hardware.origin == "gpu" || filter.recorded)
      copy_winner(source, workload, pack, contents);
    else
      contents.recorded += holds_winner(source, workload);
  }
  if (contents.winners == 0)
    throw NoWinners("there is no winner to export in " + source.path().string() +
                    (contents.recorded > 0 ? " but of recordings, which no server launches" : ""));
  copy_ranges(source, filter, pack, contents);
  pack.seal(std::string(version()));
  contents.families = static_cast<std::int64_t>(pack.manifest()->families.size());
  MadePack made{pack.content(), contents};
  made.contents.bytes = static_cast<std::int64_t>(made.bytes.size());
  return made;
}

PackContents export_pack(const Cache& source, const fs::path& path, const PackFilter& filter) {
  require_replaceable(path);
  const MadePack made = make_pack(source, filter);
  remove_left_overs(path);
  replace_file(path, made.bytes);
  return made.contents;
}

}  // namespace moetune
