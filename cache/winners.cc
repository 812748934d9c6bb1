#include "cache/winners.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/digest.h"
#include "cache/cache_file.h"
#include "cache/cubins.h"
#include "cache/generations.h"
#include "cache/pack_rows.h"

namespace moetune {
namespace {

#define MOETUNE_WINNER_COLUMNS                                                                        \
  "workload, config, time_us, interval_low_us, interval_high_us, default_time_us, roofline, plan,"    \
  " interface, cubin, fallback_config, fallback_plan, fallback_interface, fallback_cubin, contended," \
  " provenance, stored_at, timings"

// With the workload, its hardware and both cubins joined as w, h, c and f.
#define MOETUNE_JOINED_DIGEST MOETUNE_WINNER_DIGEST_OF(MOETUNE_IDENTITY_OF("w", "h"), "c.digest", "f.digest")

std::vector<std::int64_t> cubins_of(const Database& database, std::int64_t workload) {
  Query row = database.query("SELECT cubin, fallback_cubin FROM winners WHERE workload = ?", workload);
  if (!row.step()) return {};
  return {row.integer(0), row.integer(1)};
}

bool holds_sound_winner(const Database& database, std::int64_t workload) {
  Query row = database.query(
      "SELECT 1 FROM winners v WHERE workload = ? AND contended = 0 AND digest = " MOETUNE_WINNER_DIGEST, workload);
  return row.step();
}

const char* reason_to_replace(const WinnerTimes& old, const WinnerRecord& winner) {
  if (old.contended && !winner.contended) return kReplacedContended;
  return old.config != winner.config && winner.time_us < old.time_us ? kReplacedFaster : kReplacedSearch;
}

// Whether the cubins of a generation are there and whole.
bool has_cubins(const Database& database, std::int64_t workload, std::int64_t generation) {
  Query row = database.query(
      "SELECT moetune_unpacked_digest(c.frame, c.bytes) = c.digest, f.id IS NULL OR"
      " moetune_unpacked_digest(f.frame, f.bytes) = f.digest FROM history y JOIN cubins c ON c.id = y.cubin"
      " LEFT JOIN cubins f ON f.id = y.fallback_cubin WHERE y.workload = ? AND y.generation = ?",
      workload, generation);
  return row.step() && row.integer(0) != 0 && row.integer(1) != 0;
}

// Whether the generation launches what the present winner does.
bool is_present_winner(const Database& database, std::int64_t workload, std::int64_t generation) {
  return database
      .query(
          "SELECT 1 FROM history y JOIN winners v ON v.workload = y.workload WHERE y.workload = ?"
          " AND y.generation = ? AND v.config = y.config AND v.cubin = y.cubin",
          workload, generation)
      .step();
}

// Whether the present winner is this configuration with this cubin.
bool launches_same(const Database& database, std::int64_t workload, const WinnerRecord& winner) {
  Query row = database.query(
      "SELECT v.config, c.digest FROM winners v JOIN cubins c ON c.id = v.cubin WHERE v.workload = ?", workload);
  return row.step() && row.text(0) == winner.config && row.text(1) == digest(winner.cubin);
}

// Hardware by row, of those that match their digests. Few devices have many winners.
std::map<std::int64_t, HardwareKey> sound_hardware(const Database& database) {
  std::map<std::int64_t, HardwareKey> all;
  Query row = database.query("SELECT h.id, " MOETUNE_HARDWARE_COLUMNS
                             " FROM hardware h WHERE h.digest = " MOETUNE_HARDWARE_DIGEST);
  while (row.step()) all.emplace(row.integer(0), hardware_of(row, 1));
  return all;
}

// By id within a second. Each is moved once.
void sort_latest_first(std::vector<FamilyWinner>& winners) {
  std::vector<FamilyWinner*> order;
  for (FamilyWinner& winner : winners) order.push_back(&winner);
  std::ranges::sort(order, std::ranges::greater(), [](const FamilyWinner* winner) {
    return std::tuple<std::string_view, std::int64_t>(winner->stored_at, winner->workload.id);
  });
  std::vector<FamilyWinner> sorted;
  sorted.reserve(winners.size());
  for (FamilyWinner* const winner : order) sorted.push_back(std::move(*winner));
  winners = std::move(sorted);
}

// Adds the present winner, unless there is none or it is damaged, to the history. Within a transaction.
void keep_winner(const Database& database, std::int64_t workload, const std::string& reason) {
  database.run("INSERT INTO history (generation, reason, replaced_at, digest, " MOETUNE_WINNER_COLUMNS
               ") SELECT"
               " (SELECT coalesce(max(generation), 0) + 1 FROM history WHERE workload = ?1), ?2,"
               " strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), '', " MOETUNE_WINNER_COLUMNS
               " FROM winners v WHERE workload = ?1 AND digest = " MOETUNE_WINNER_DIGEST,
               workload, reason);
  if (database.changes() > 0)
    database.run("UPDATE history AS y SET digest = " MOETUNE_HISTORY_DIGEST
                 " WHERE workload = ?1 AND generation = (SELECT max(generation) FROM history WHERE workload = ?1)",
                 workload);
}

// The rules' objection to it; "" without rules.
std::string why_untrue(CacheFile& file, std::int64_t workload, const WinnerRecord& winner, WinnerParts parts) {
  if (!file.rules.winner) return "";
  const std::optional<Workload> known = Workloads(file).find(workload);
  return known ? file.rules.winner(*known, winner, parts) : "";
}

void store_winner(CacheFile& file, std::int64_t workload, const WinnerRecord& winner) {
  const Database& database = file.database;
  const std::int64_t cubin = store_cubin(file, winner);
  const std::int64_t default_cubin = store_cubin(file, winner.default_launch);
  database.run("INSERT OR REPLACE INTO winners (" MOETUNE_WINNER_COLUMNS
               ", digest)"
               " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?,"
               " coalesce(nullif(?, ''), strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), ?, '')",
               workload, winner.config, winner.time_us, winner.interval_low_us, winner.interval_high_us,
               winner.default_time_us, winner.roofline, winner.plan, winner.interface, cubin,
               winner.default_launch.config, winner.default_launch.plan, winner.default_launch.interface, default_cubin,
               int{winner.contended}, winner.provenance, winner.stored_at, winner.timings);
  database.run("UPDATE winners AS v SET digest = " MOETUNE_WINNER_DIGEST " WHERE workload = ?", workload);
}

}  // namespace

std::optional<WinnerTimes> Winners::times(std::int64_t workload) const {
  Query row = file_->database.query(
      "SELECT v.config, v.time_us, v.interval_low_us, v.interval_high_us, v.contended, v.provenance,"
      " v.stored_at, v.digest"
      " FROM winners v JOIN workloads w ON w.id = v.workload JOIN hardware h ON h.id = w.hardware"
      " WHERE v.workload = ? AND v.digest = " MOETUNE_WINNER_DIGEST " AND h.digest = " MOETUNE_HARDWARE_DIGEST
      " AND w.digest = " MOETUNE_WORKLOAD_DIGEST,
      workload);
  if (!row.step()) return std::nullopt;
  return WinnerTimes{.config = row.text(0),
                     .time_us = row.real(1),
                     .low_us = row.real(2),
                     .high_us = row.real(3),
                     .contended = row.integer(4) != 0,
                     .provisional = is_provisional(row.text(5)),
                     .stored_at = row.text(6),
                     .record = row.text(7)};
}

bool is_provisional(std::string_view provenance) {
  constexpr std::string_view kMark = R"("provisional":true)";  // as nlohmann::json writes it
  return provenance.size() > kMark.size() &&
         ::memmem(provenance.data(), provenance.size(), kMark.data(), kMark.size()) != nullptr;
}

void Winners::put(std::int64_t workload, const WinnerRecord& winner, const char* reason) {
  const Database& database = file_->database;
  WriteTransaction transaction(database);
  if (winner.contended && holds_sound_winner(database, workload) && find_sound(workload)) return;
  const std::optional<WinnerTimes> old = times(workload);
  if (old && !launches_same(database, workload, winner))
    keep_winner(database, workload, reason != nullptr ? reason : reason_to_replace(*old, winner));
  const std::vector<std::int64_t> before = cubins_of(database, workload);
  store_winner(*file_, workload, winner);
  drop_unused(database, before);
  transaction.commit();
}

std::optional<WinnerRecord> Winners::find_sound(std::int64_t workload) const {
  try {
    return find(workload, WinnerParts::without_cubins);
  } catch (const DamagedWinner&) {
    return std::nullopt;
  }
}

std::optional<WinnerRecord> Winners::find(std::int64_t workload, WinnerParts parts) const {
  std::optional<WinnerRecord> winner = read(workload, parts);
  const std::string wrong = winner ? why_untrue(*file_, workload, *winner, parts) : "";
  if (wrong.empty()) return winner;
  throw DamagedWinner("the winner of workload " + std::to_string(workload) + " in " + file_->database.path().string() +
                      " cannot be true (" + wrong + "); search again to replace it");
}

std::optional<WinnerRecord> Winners::read(std::int64_t workload, WinnerParts parts) const {
  // One snapshot, so that a writer beside it cannot take a cubin away in between.
  std::optional<ReadTransaction> snapshot;
  if (parts == WinnerParts::all) snapshot.emplace(file_->database);
  Query row = file_->database.query(
      "SELECT config, time_us, interval_low_us, interval_high_us, default_time_us, roofline, plan,"
      " iif(?2, interface, ''), fallback_config, iif(?2, fallback_plan, ''), iif(?2, fallback_interface, ''),"
      " contended, provenance, stored_at,"
      " v.digest = " MOETUNE_WINNER_DIGEST_OF(
          MOETUNE_IDENTITY_OF("w", "h"), "c.digest",
          "f.digest") " AND h.digest = " MOETUNE_HARDWARE_DIGEST " AND w.digest = " MOETUNE_WORKLOAD_DIGEST
                      ", c.digest, f.digest, v.timings"
                      " FROM winners v JOIN workloads w ON w.id = v.workload JOIN hardware h ON h.id = w.hardware"
                      " LEFT JOIN cubins c ON c.id = v.cubin LEFT JOIN cubins f ON f.id = v.fallback_cubin"
                      " WHERE v.workload = ?1",
      workload, int{parts != WinnerParts::figures});
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
  winner.timings = row.text(17);
  bool sound = row.integer(14) != 0;
  const auto load = [&](int column, Blob& into) {
    const Blob* const cubin = file_->cubins.find(file_->database, row.text(column));
    sound = sound && cubin != nullptr;
    if (cubin != nullptr) into = *cubin;
  };
  if (sound && parts == WinnerParts::all) {
    load(15, winner.cubin);
    if (!winner.default_launch.config.empty()) load(16, winner.default_launch.cubin);
  }
  if (sound) return winner;
  throw DamagedWinner("the winner of workload " + std::to_string(workload) + " in " + file_->database.path().string() +
                      " is damaged (it does not match its digest); search again to replace it");
}

FamilyWinners Winners::of_family(const std::string& kernel, const std::string& family) const {
  const std::map<std::int64_t, HardwareKey> devices = sound_hardware(file_->database);
  FamilyWinners all;
  Query row = file_->database.query(
      "SELECT v.digest = " MOETUNE_JOINED_DIGEST " AND w.digest = " MOETUNE_WORKLOAD_DIGEST
      ", w.id, w.problem, w.hardware, w.source_digest, w.toolchain, w.timing, v.config, v.interface,"
      " v.fallback_config, v.fallback_interface, c.digest, coalesce(f.digest, ''), v.time_us, v.default_time_us,"
      " v.interval_low_us, v.interval_high_us, v.roofline, v.stored_at, v.contended, v.provenance"
      " FROM workloads w JOIN winners v ON v.workload = w.id"
      " LEFT JOIN hardware h ON h.id = w.hardware LEFT JOIN cubins c ON c.id = v.cubin"
      " LEFT JOIN cubins f ON f.id = v.fallback_cubin WHERE w.kernel = ? AND w.family = ?",
      kernel, family);
  while (row.step()) {
    const auto device = devices.find(row.integer(3));
    if (row.integer(0) == 0 || device == devices.end()) {
      ++all.damaged;
      continue;
    }
    all.sound.push_back(
        {.workload = {row.integer(1),
                      {kernel, row.text(2), device->second, row.text(4), row.text(5), stored_timing(row.text(6))},
                      family},
         .config = row.text(7),
         .interface = row.text(8),
         .default_config = row.text(9),
         .default_interface = row.text(10),
         .cubin_digest = row.text(11),
         .default_cubin_digest = row.text(12),
         .time_us = row.real(13),
         .default_time_us = row.real(14),
         .interval_low_us = row.real(15),
         .interval_high_us = row.real(16),
         .roofline = row.real(17),
         .stored_at = row.text(18),
         .contended = row.integer(19) != 0,
         .provisional = is_provisional(row.view(20))});
  }
  sort_latest_first(all.sound);
  if (file_->pack) require_manifest(file_->database, *file_->pack, kernel, family, {all.sound.size(), {}});
  return all;
}

Blob Winners::cubin(const std::string& digest) const { return read_cubin(file_->database, digest); }

std::vector<Generation> Winners::history(std::int64_t workload) const {
  std::vector<Generation> all;
  Query row = file_->database.query(
      "SELECT generation, reason, replaced_at, config, time_us, interval_low_us, interval_high_us, default_time_us,"
      " contended, provenance, stored_at FROM history y WHERE workload = ? AND digest = " MOETUNE_HISTORY_DIGEST
      " ORDER BY generation DESC",
      workload);
  while (row.step()) {
    all.push_back({row.integer(0), row.text(1), row.text(2), row.text(3), row.real(4), row.real(5), row.real(6),
                   row.real(7), row.integer(8) != 0, row.text(9), row.text(10)});
  }
  return all;
}

Generation Winners::roll_back(std::int64_t workload, std::optional<std::int64_t> number) {
  const Database& database = file_->database;
  WriteTransaction transaction(database);
  const std::string place = "workload " + std::to_string(workload) + " in " + database.path().string();
  Generation chosen = chosen_generation(history(workload), number, place, "winner", [&](const Generation& one) {
    return !is_present_winner(database, workload, one.number);
  });
  if (!has_cubins(database, workload, chosen.number)) refuse_damaged_generation(chosen.number, place);
  keep_winner(database, workload, kReplacedRollback);
  const std::vector<std::int64_t> before = cubins_of(database, workload);
  database.run("INSERT OR REPLACE INTO winners (digest, " MOETUNE_WINNER_COLUMNS ") SELECT '', " MOETUNE_WINNER_COLUMNS
               " FROM history WHERE workload = ? AND generation = ?",
               workload, chosen.number);
  database.run("UPDATE winners AS v SET digest = " MOETUNE_WINNER_DIGEST " WHERE workload = ?", workload);
  drop_unused(database, before);
  transaction.commit();
  return chosen;
}

}  // namespace moetune
