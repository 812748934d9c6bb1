// The part of Cache that looks at the whole file: what it holds, and whether it is sound.
#include "cache/blob.h"
#include "cache/cache_impl.h"

namespace moetune {
namespace {

using Problems = std::vector<CacheProblem>;

void check_pages(const Database& database, Problems& problems) {
  Query row = database.query("PRAGMA integrity_check");
  while (row.step()) {
    if (row.text(0) != "ok") problems.push_back({"database", row.text(0)});
  }
}

void check_references(const Database& database, Problems& problems) {
  Query row = database.query("PRAGMA foreign_key_check");
  while (row.step()) {
    problems.push_back(
        {row.text(0) + " " + std::to_string(row.integer(1)), "belongs to a missing row of " + row.text(2)});
  }
}

void check_winners(const Database& database, Problems& problems) {
  Query row = database.query(
      "SELECT n.workload, w.kernel, w.problem, n.config, n.plan, n.cubin, n.cubin_bytes, n.digest"
      " FROM winners n JOIN workloads w ON w.id = n.workload ORDER BY n.workload");
  while (row.step()) {
    const std::optional<Blob> cubin = decompress(row.bytes(5), row.integer(6));
    if (cubin && winner_digest(row.text(3), row.text(4), *cubin) == row.text(7)) continue;
    problems.push_back(
        {"winner " + std::to_string(row.integer(0)) + " (" + row.text(1) + " " + row.text(2) + ")",
         "does not match its digest"});
  }
}

void check_builds(const Database& database, Problems& problems) {
  Query row =
      database.query("SELECT name, outcome, facts, log, cubin, cubin_bytes, digest FROM builds ORDER BY id");
  while (row.step()) {
    const std::optional<Blob> cubin = decompress(row.bytes(4), row.integer(5));
    if (cubin && build_digest({row.text(1), row.text(2), row.text(3), *cubin}) == row.text(6)) continue;
    problems.push_back({"build " + row.text(0), "does not match its digest"});
  }
}

}  // namespace

std::vector<CacheProblem> Cache::check() const {
  Problems problems;
  for (const auto& part : {check_pages, check_references, check_winners, check_builds}) {
    try {
      part(impl_->database, problems);
    } catch (const BrokenEnvironment& damage) {
      problems.push_back({"database", damage.what()});
    }
  }
  return problems;
}

Cache::Summary Cache::summary() const {
  Summary summary;
  Query row = impl_->database.query(
      "SELECT (SELECT count(*) FROM workloads), (SELECT count(*) FROM trials), (SELECT count(*) FROM "
      "winners),"
      " (SELECT count(*) FROM builds), (SELECT coalesce(sum(stored_bytes), 0) FROM builds)");
  row.step();
  summary.workloads = row.integer(0);
  summary.trials = row.integer(1);
  summary.winners = row.integer(2);
  summary.builds = row.integer(3);
  summary.build_bytes = row.integer(4);
  summary.schema_version = static_cast<int>(impl_->database.integer_pragma("user_version"));
  for (const char* part : {"", "-wal"}) {
    std::error_code absent;
    const auto size = std::filesystem::file_size(path().string() + part, absent);
    if (!absent) summary.file_bytes += static_cast<std::int64_t>(size);
  }
  return summary;
}

}  // namespace moetune
