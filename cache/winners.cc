// The part of Cache that stores winners.
#include "base/digest.h"
#include "cache/blob.h"
#include "cache/cache_impl.h"

namespace moetune {

std::string winner_digest(const std::string& config, const std::string& plan, const Blob& cubin) {
  return DigestBuilder().add(config).add(plan).add(digest(cubin)).finish();
}

void Cache::put_winner(std::int64_t workload, const WinnerRecord& winner) {
  impl_->database.run(
      "INSERT INTO winners (workload, config, time_us, interval_low_us, interval_high_us, default_time_us, "
      "roofline,"
      " plan, cubin, cubin_bytes, digest, provenance, stored_at)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))"
      " ON CONFLICT (workload) DO UPDATE SET config = excluded.config, time_us = excluded.time_us,"
      " interval_low_us = excluded.interval_low_us, interval_high_us = excluded.interval_high_us,"
      " default_time_us = excluded.default_time_us, roofline = excluded.roofline, plan = excluded.plan,"
      " cubin = excluded.cubin, cubin_bytes = excluded.cubin_bytes, digest = excluded.digest,"
      " provenance = excluded.provenance, stored_at = excluded.stored_at",
      workload, winner.config, winner.time_us, winner.interval_low_us, winner.interval_high_us,
      winner.default_time_us, winner.roofline, winner.plan, compress(winner.cubin),
      static_cast<std::int64_t>(winner.cubin.size()), winner_digest(winner.config, winner.plan, winner.cubin),
      winner.provenance);
}

std::optional<WinnerRecord> Cache::winner(std::int64_t workload) const {
  Query row = impl_->database.query(
      "SELECT config, time_us, interval_low_us, interval_high_us, default_time_us, roofline, plan, "
      "provenance,"
      " stored_at, cubin, cubin_bytes, digest FROM winners WHERE workload = ?",
      workload);
  if (!row.step()) return std::nullopt;
  std::optional<Blob> cubin = decompress(row.bytes(9), row.integer(10));
  if (!cubin || winner_digest(row.text(0), row.text(6), *cubin) != row.text(11)) {
    throw DamagedWinner("the winner of workload " + std::to_string(workload) + " in " + path().string() +
                        " is damaged (it does not match its digest); search again to replace it");
  }
  return WinnerRecord{row.text(0), row.real(1), row.real(2),       row.real(3), row.real(4),
                      row.real(5), row.text(6), *std::move(cubin), row.text(7), row.text(8)};
}

}  // namespace moetune
