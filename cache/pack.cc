#include "cache/pack.h"

#include "base/version.h"
#include "base/work_folder.h"
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

void copy_ranges(const Cache& source, const PackFilter& filter, Cache& pack, PackContents& contents) {
  for (const FamilyRange& range : source.ranges()) {
    const HardwareKey& hardware = range.key.hardware;
    if ((hardware.origin != "gpu" && !filter.recorded) ||
        hardware.name.find(filter.hardware) == std::string::npos)
      continue;
    if (!filter.kernel.empty() && range.key.kernel != filter.kernel) continue;
    try {
      pack.put_range(range.key, source.range_record(range));
      ++contents.ranges;
    } catch (const BrokenEnvironment&) {
      ++contents.damaged;
    }
  }
}

}  // namespace

PackContents export_pack(const Cache& source, const fs::path& path, const PackFilter& filter) {
  require_replaceable(path);
  source.require_as_sealed();
  const WorkFolder folder(path);  // SQLite keeps its own files beside the pack
  const fs::path made = folder.file("pack");
  PackContents contents;
  {
    Cache pack = Cache::open(made, Cache::Mode::create);
    for (const Workload& workload : source.workloads()) {
      const WorkloadKey& key = workload.key;
      if (!filter.kernel.empty() && key.kernel != filter.kernel) continue;
      if (key.hardware.name.find(filter.hardware) == std::string::npos) continue;
      if (is_recording(key)) continue;  // trials alone
      if (key.hardware.origin != "gpu" && !filter.recorded) {
        contents.recorded += source.winner(workload.id, WinnerParts::without_cubins).has_value();
        continue;
      }
      copy_winner(source, workload, pack, contents);
    }
    if (contents.winners == 0)
      throw NoWinners("there is no winner to export in " + source.path().string() +
                      (contents.recorded > 0 ? " but of recordings, which no server launches" : ""));
    copy_ranges(source, filter, pack, contents);
    pack.seal(std::string(version()));
    contents.families = static_cast<std::int64_t>(pack.manifest()->families.size());
  }
  contents.bytes = static_cast<std::int64_t>(fs::file_size(made));
  std::error_code failure;
  fs::rename(made, path, failure);
  if (failure) throw BrokenEnvironment("cannot write " + path.string() + ": " + failure.message());
  return contents;
}

}  // namespace moetune
