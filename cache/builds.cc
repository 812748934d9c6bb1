#include "cache/builds.h"

#include "base/digest.h"
#include "cache/cache_file.h"

namespace moetune {
namespace {

// `used` is a counter, not a clock: clocks step.
constexpr const char* kTouch = "UPDATE builds SET used = (SELECT max(used) + 1 FROM builds) WHERE name = ?";

std::int64_t stored_bytes(const Database& database) {
  Query sum = database.query("SELECT coalesce(sum(stored_bytes), 0) FROM builds");
  sum.step();
  return sum.integer(0);
}

}  // namespace

void drop_unused_builds(const Database& database, std::int64_t limit) {
  if (stored_bytes(database) <= limit) return;
  database.run(
      "DELETE FROM builds WHERE id IN (SELECT id FROM (SELECT id, sum(stored_bytes) OVER (ORDER BY used DESC) AS"
      " total FROM builds) WHERE total > ?)",
      limit);
}

std::string build_digest(const std::string& name, const BuildRecord& build) {
  return DigestBuilder().add(name).add(build.outcome).add(build.facts).add(build.log).add(digest(build.cubin)).finish();
}

void Builds::put(const std::string& name, const BuildRecord& build) {
  const Blob frame = compress(build.cubin);
  const std::size_t size = frame.size() + build.log.size() + build.facts.size();
  WriteTransaction transaction(file_->database);
  file_->database.run(
      "INSERT OR REPLACE INTO builds (name, outcome, facts, log, cubin, cubin_bytes, digest, stored_bytes, used)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(used), 0) + 1 FROM builds))",
      name, build.outcome, build.facts, build.log, frame, static_cast<std::int64_t>(build.cubin.size()),
      build_digest(name, build), static_cast<std::int64_t>(size));
  drop_unused_builds(file_->database, file_->options.max_build_bytes);
  transaction.commit();
}

std::optional<BuildRecord> Builds::find(const std::string& name) {
  BuildRecord build;
  {
    Query row = file_->database.query(
        "SELECT outcome, facts, log, cubin, cubin_bytes, digest FROM builds WHERE name = ?", name);
    if (!row.step()) return std::nullopt;
    std::optional<Blob> cubin = decompress(row.bytes(3), row.integer(4));
    if (!cubin) return std::nullopt;
    build = {row.text(0), row.text(1), row.text(2), *std::move(cubin)};
    if (build_digest(name, build) != row.text(5)) return std::nullopt;
  }
  if (!file_->read_only) file_->database.run(kTouch, name);
  return build;
}

}  // namespace moetune
