// The part of Cache that stores winners, and the cubins that they share.
#include "base/digest.h"
#include "cache/cache_impl.h"
#include "cache/file/blob.h"
#include "cache/history.h"
#include "cache/pack_rows.h"

namespace moetune {
namespace {

bool has_winner(const Database& database, std::int64_t workload) {
  return database.query("SELECT 1 FROM winners WHERE workload = ?", workload).step();
}

bool holds_sound_winner(const Database& database, std::int64_t workload) {
  Query row = database.query(
      "SELECT 1 FROM winners v WHERE workload = ? AND contended = 0 AND digest = " MOETUNE_WINNER_DIGEST,
      workload);
  return row.step();
}

const char* reason_to_replace(const WinnerTimes& old, const WinnerRecord& winner) {
  if (old.contended && !winner.contended) return kReplacedContended;
  return old.config != winner.config && winner.time_us < old.time_us ? kReplacedFaster : kReplacedSearch;
}

// From the columns frame, bytes and digest that begin at `column`; nullopt if they do not agree.
std::optional<Blob> unpacked(const Query& row, int column) {
  std::optional<Blob> cubin = decompress(row.bytes(column), row.integer(column + 1));
  if (cubin && digest(*cubin) != row.text(column + 2)) return std::nullopt;
  return cubin;
}

// The cubin of that digest, if it is stored and sound; else 0.
std::int64_t find_cubin(const Database& database, const std::string& name) {
  Query row = database.query("SELECT id, frame, bytes, digest FROM cubins WHERE digest = ?", name);
  return row.step() && unpacked(row, 1) ? row.integer(0) : 0;
}

}  // namespace

std::int64_t Cache::Impl::store_cubin(const StoredLaunch& launch) const {
  if (launch.config.empty()) return 0;
  const std::string name = digest(launch.cubin);
  if (const std::int64_t known = find_cubin(database, name); known != 0) return known;
  // A damaged frame under this digest would stay; the sound one takes its place.
  database.run(
      "INSERT INTO cubins (digest, frame, bytes) VALUES (?, ?, ?)"
      " ON CONFLICT (digest) DO UPDATE SET frame = excluded.frame, bytes = excluded.bytes",
      name, compress(launch.cubin), static_cast<std::int64_t>(launch.cubin.size()));
  return find_cubin(database, name);
}

void Cache::Impl::store_winner(std::int64_t workload, const WinnerRecord& winner) const {
  const std::int64_t cubin = store_cubin(winner);
  const std::int64_t default_cubin = store_cubin(winner.default_launch);
  database.run(
      "INSERT OR REPLACE INTO winners (workload, config, time_us, interval_low_us, interval_high_us,"
      " default_time_us, roofline, plan, interface, cubin, fallback_config, fallback_plan,"
      " fallback_interface, fallback_cubin, contended, provenance, stored_at, timings, digest)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?,"
      " coalesce(nullif(?, ''), strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), ?, '')",
      workload, winner.config, winner.time_us, winner.interval_low_us, winner.interval_high_us,
      winner.default_time_us, winner.roofline, winner.plan, winner.interface, cubin,
      winner.default_launch.config, winner.default_launch.plan, winner.default_launch.interface,
      default_cubin, int{winner.contended}, winner.provenance, winner.stored_at, winner.timings);
  database.run("UPDATE winners AS v SET digest = " MOETUNE_WINNER_DIGEST " WHERE workload = ?", workload);
}

bool Cache::Impl::launches_same(std::int64_t workload, const WinnerRecord& winner) const {
  Query row = database.query(
      "SELECT v.config, c.digest FROM winners v JOIN cubins c ON c.id = v.cubin WHERE v.workload = ?",
      workload);
  return row.step() && row.text(0) == winner.config && row.text(1) == digest(winner.cubin);
}

std::optional<WinnerTimes> find_winner_times(const Database& database, std::int64_t workload) {
  Query row = database.query(
      "SELECT v.config, v.time_us, v.interval_low_us, v.interval_high_us, v.contended, v.stored_at, v.digest"
      " FROM winners v JOIN workloads w ON w.id = v.workload JOIN hardware h ON h.id = w.hardware"
      " WHERE v.workload = ? AND v.digest = " MOETUNE_WINNER_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
      " AND w.digest = " MOETUNE_WORKLOAD_DIGEST,
      workload);
  if (!row.step()) return std::nullopt;
  return WinnerTimes{row.text(0),         row.real(1), row.real(2), row.real(3),
                     row.integer(4) != 0, row.text(5), row.text(6)};
}

void Cache::put_winner(std::int64_t workload, const WinnerRecord& winner) {
  const Database& database = impl_->database;
  WriteTransaction transaction(database);
  if (winner.contended && holds_sound_winner(database, workload) && impl_->is_true(workload)) return;
  const bool replaces = has_winner(database, workload);
  const std::optional<WinnerTimes> old = find_winner_times(database, workload);
  if (old && !impl_->launches_same(workload, winner))
    impl_->keep_winner(workload, reason_to_replace(*old, winner));
  impl_->store_winner(workload, winner);
  if (replaces) database.run(kDropUnusedCubins);
  transaction.commit();
}

std::string Cache::Impl::why_untrue(std::int64_t workload, const WinnerRecord& winner,
                                    WinnerParts parts) const {
  if (!rules.winner) return "";
  const std::optional<Workload> known = find_workload(workload);
  return known ? rules.winner(*known, winner, parts) : "";
}

bool Cache::Impl::is_true(std::int64_t workload) const {
  try {
    const std::optional<WinnerRecord> winner = read_winner(workload, WinnerParts::without_cubins);
    return winner && why_untrue(workload, *winner, WinnerParts::without_cubins).empty();
  } catch (const DamagedWinner&) {
    return false;
  }
}

std::optional<WinnerRecord> Cache::winner(std::int64_t workload, WinnerParts parts) const {
  std::optional<WinnerRecord> winner = impl_->read_winner(workload, parts);
  const std::string wrong = winner ? impl_->why_untrue(workload, *winner, parts) : "";
  if (wrong.empty()) return winner;
  throw DamagedWinner("the winner of workload " + std::to_string(workload) + " in " + path().string() +
                      " cannot be true (" + wrong + "); search again to replace it");
}

std::optional<WinnerRecord> Cache::Impl::read_winner(std::int64_t workload, WinnerParts parts) const {
  // One statement, so that a writer beside it cannot take a cubin away in between.
  Query row = database.query(
      "SELECT config, time_us, interval_low_us, interval_high_us, default_time_us, roofline, plan, interface,"
      " fallback_config, fallback_plan, fallback_interface, contended, provenance, stored_at,"
      " v.digest = " MOETUNE_WINNER_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
      " AND w.digest = " MOETUNE_WORKLOAD_DIGEST
      ", c.frame, c.bytes, c.digest, f.frame, f.bytes, f.digest, v.timings"
      " FROM winners v JOIN workloads w ON w.id = v.workload JOIN hardware h ON h.id = w.hardware"
      " LEFT JOIN cubins c ON c.id = iif(?2, v.cubin, NULL)"
      " LEFT JOIN cubins f ON f.id = iif(?2, v.fallback_cubin, NULL) WHERE v.workload = ?1",
      workload, parts == WinnerParts::all ? 1 : 0);
  if (!row.step()) return std::nullopt;
  WinnerRecord winner;
  winner.config = row.text(0);
  winner.time_us = row.real(1);
  winner.interval_low_us = row.real(2);
  winner.interval_high_us = row.real(3);
  winner.default_time_us = row.real(4);
  winner.roofline = row.real(5);
  winner.plan = row.text(6);
  winner.interface = row.text(7);
  winner.default_launch = {row.text(8), row.text(9), row.text(10), {}};
  winner.contended = row.integer(11) != 0;
  winner.provenance = row.text(12);
  winner.stored_at = row.text(13);
  winner.timings = row.text(21);
  bool sound = row.integer(14) != 0;
  const auto load = [&](int column, Blob& into) {
    std::optional<Blob> loaded = unpacked(row, column);
    sound = sound && loaded;
    if (loaded) into = *std::move(loaded);
  };
  if (sound && parts == WinnerParts::all) {
    load(15, winner.cubin);
    if (!winner.default_launch.config.empty()) load(18, winner.default_launch.cubin);
  }
  if (sound) return winner;
  throw DamagedWinner("the winner of workload " + std::to_string(workload) + " in " +
                      database.path().string() +
                      " is damaged (it does not match its digest); search again to replace it");
}

std::size_t Cache::family_winner_rows(const std::string& kernel, const std::string& family) const {
  Query row = impl_->database.query(
      "SELECT count(*) FROM workloads w JOIN winners v ON v.workload = w.id"
      " WHERE w.kernel = ? AND w.family = ?",
      kernel, family);
  return row.step() ? static_cast<std::size_t>(row.integer(0)) : 0;
}

std::vector<FamilyWinner> Cache::family_winners(const std::string& kernel, const std::string& family) const {
  std::vector<FamilyWinner> all;
  // Few devices have many winners: each device's own digest is checked once.
  Query row = impl_->database.query(
      "WITH devices AS MATERIALIZED (SELECT * FROM hardware h WHERE h.digest = " MOETUNE_HARDWARE_DIGEST
      ") SELECT w.id, w.problem, w.source_digest, w.toolchain, h.name, h.compute_capability, h.sm_count,"
      " h.l2_bytes, h.memory_bytes, h.sm_clock_khz, h.memory_clock_khz, h.origin, h.driver, v.config,"
      " v.interface, v.fallback_config, v.fallback_interface, v.cubin, coalesce(v.fallback_cubin, 0),"
      " c.digest, coalesce(f.digest, ''), v.time_us, v.default_time_us,"
      " v.stored_at, v.contended, w.timing, v.interval_low_us, v.interval_high_us, v.roofline"
      " FROM workloads w JOIN winners v ON v.workload = w.id"
      " JOIN devices h ON h.id = w.hardware LEFT JOIN cubins c ON c.id = v.cubin"
      " LEFT JOIN cubins f ON f.id = v.fallback_cubin WHERE w.kernel = ? AND w.family = ?"
      " AND v.digest = " MOETUNE_WINNER_DIGEST_OF(MOETUNE_IDENTITY_OF("w", "h"), "c.digest",
                                                  "f.digest") " AND w.digest = " MOETUNE_WORKLOAD_DIGEST
                                                              " ORDER BY v.stored_at DESC, w.id DESC",
      kernel, family);
  while (row.step()) {
    FamilyWinner winner;
    winner.workload.id = row.integer(0);
    winner.workload.key = {kernel, row.text(1), {}, row.text(2), row.text(3)};
    winner.workload.key.hardware = {
        row.text(4),    static_cast<int>(row.integer(5)), static_cast<int>(row.integer(6)),  row.integer(7),
        row.integer(8), static_cast<int>(row.integer(9)), static_cast<int>(row.integer(10)), row.text(11),
        row.text(12)};
    winner.config = row.text(13);
    winner.interface = row.text(14);
    winner.default_config = row.text(15);
    winner.default_interface = row.text(16);
    winner.cubin = row.integer(17);
    winner.default_cubin = row.integer(18);
    winner.cubin_digest = row.text(19);
    winner.default_cubin_digest = row.text(20);
    winner.time_us = row.real(21);
    winner.default_time_us = row.real(22);
    winner.stored_at = row.text(23);
    winner.contended = row.integer(24) != 0;
    winner.workload.key.timing = stored_timing(row.text(25));
    winner.workload.family = family;
    winner.interval_low_us = row.real(26);
    winner.interval_high_us = row.real(27);
    winner.roofline = row.real(28);
    all.push_back(std::move(winner));
  }
  if (impl_->pack) require_manifest(impl_->database, *impl_->pack, kernel, family, {all.size(), {}});
  return all;
}

Blob Cache::cubin(const std::string& digest) const {
  Query row = impl_->database.query("SELECT frame, bytes, digest FROM cubins WHERE digest = ?", digest);
  if (row.step()) {
    if (std::optional<Blob> cubin = unpacked(row, 0)) return *std::move(cubin);
  }
  throw BrokenEnvironment("cubin " + digest + " in " + path().string() +
                          " is damaged (it does not match its digest) or gone");
}

Blob Cache::cubin(std::int64_t id) const {
  Query row = impl_->database.query("SELECT frame, bytes, digest FROM cubins WHERE id = ?", id);
  if (row.step()) {
    if (std::optional<Blob> cubin = unpacked(row, 0)) return *std::move(cubin);
  }
  throw BrokenEnvironment("cubin " + std::to_string(id) + " in " + path().string() +
                          " is damaged (it does not match its digest) or gone");
}

}  // namespace moetune
