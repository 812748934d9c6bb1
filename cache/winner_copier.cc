#include "cache/winner_copier.h"

namespace moetune {

void WinnerCopier::copy(std::int64_t theirs, std::int64_t ours) {
  Query row = from_.database.query(
      "SELECT v.config, v.time_us, v.interval_low_us, v.interval_high_us, v.default_time_us, v.roofline, v.plan,"
      " v.interface, v.fallback_config, v.fallback_plan, v.fallback_interface, v.contended, v.provenance, v.stored_at,"
      " v.timings, v.digest, c.digest, coalesce(f.digest, '') FROM winners v JOIN cubins c ON c.id = v.cubin"
      " LEFT JOIN cubins f ON f.id = v.fallback_cubin WHERE v.workload = ?",
      theirs);
  if (!row.step()) return;
  into_.database.run(
      "INSERT INTO winners (workload, config, time_us, interval_low_us, interval_high_us, default_time_us, roofline,"
      " plan, interface, fallback_config, fallback_plan, fallback_interface, contended, provenance, stored_at, timings,"
      " digest, cubin, fallback_cubin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0))",
      ours, row.view(0), row.real(1), row.real(2), row.real(3), row.real(4), row.real(5), row.view(6), row.view(7),
      row.view(8), row.view(9), row.view(10), row.integer(11), row.view(12), row.view(13), row.view(14), row.view(15),
      cubin(row.text(16)), cubin(row.text(17)));
}

std::int64_t WinnerCopier::cubin(const std::string& digest) {
  if (digest.empty()) return 0;
  std::int64_t& known = cubins_[digest];
  if (known != 0) return known;
  if (from_.cubins.find(from_.database, digest) == nullptr)
    throw DamagedWinner("cubin " + digest + " in " + from_.database.path().string() + " does not match its digest");
  Query frame = from_.database.query("SELECT frame, bytes FROM cubins WHERE digest = ?", digest);
  frame.step();
  // A damaged frame of that digest would stay; the sound one takes its place.
  Query row = into_.database.query(
      "INSERT INTO cubins (digest, frame, bytes) VALUES (?, ?, ?)"
      " ON CONFLICT (digest) DO UPDATE SET frame = excluded.frame, bytes = excluded.bytes RETURNING id",
      digest, frame.bytes(0), frame.integer(1));
  while (row.step()) known = row.integer(0);
  return known;
}

}  // namespace moetune
