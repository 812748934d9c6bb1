#include "cache/cache.h"

#include <stdexcept>

#include "base/environment.h"
#include "cache/cache_impl.h"
#include "cache/file/companions.h"
#include "cache/file/file_system.h"
#include "cache/file/journal.h"
#include "cache/pack_rows.h"
#include "cache/schema/schema.h"
#include "cache/tallies.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    throw BrokenEnvironment("cannot make the folder " + folder.string() +
                            " for the cache: " + failure.message());
  }
}

// Absolute, so that SQLite sees neither ":memory:" nor "file:" nor its empty name for a temporary database.
fs::path require_plausible(const fs::path& given, Cache::Mode mode) {
  if (given.empty()) throw BadInput("a cache needs the path of a file");
  const fs::path path = fs::absolute(given);
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status)) throw BrokenEnvironment(path.string() + " is a folder, not a cache file");
  if (fs::exists(status)) {
    if (fs::is_regular_file(status)) return path;
    throw BrokenEnvironment(path.string() + " is not a regular file; name another for the cache");
  }
  if (status.type() == fs::file_type::none) {
    throw BrokenEnvironment("cannot look at " + path.string() + ": " + failure.message());
  }
  if (mode != Cache::Mode::create) throw BadInput("there is no cache at " + path.string());
  make_folder(path.parent_path());
  return path;
}

Database::Access access_for(Cache::Mode mode) {
  switch (mode) {
    case Cache::Mode::create:
      return Database::Access::create;
    case Cache::Mode::read_write:
      return Database::Access::read_write;
    case Cache::Mode::read_only:
    case Cache::Mode::inspect:
      return Database::Access::read_only;
  }
  throw std::logic_error("an enumerator without a meaning");
}

// A pack is never changed.
void refuse_pack(const Database& database) {
  if (database.integer_pragma("user_version") == 0) return;  // a new file
  require_readable(database);
  if (read_manifest(database))
    throw BrokenEnvironment(database.path().string() +
                            " is a pack, which is only read; name a cache to write to");
}

// The columns of workload_of().
#define SELECT_WORKLOADS                                                                                      \
  "SELECT w.id, w.kernel, w.problem, w.source_digest, w.toolchain, h.name, h.compute_capability, h.sm_count," \
  " h.l2_bytes, h.memory_bytes, h.sm_clock_khz, h.memory_clock_khz, h.origin, h.driver, w.family, w.timing"   \
  " FROM workloads w JOIN hardware h ON h.id = w.hardware "

Workload workload_of(const Query& row) {
  Workload workload;
  workload.id = row.integer(0);
  workload.key = {row.text(1), row.text(2), {}, row.text(3), row.text(4)};
  workload.key.hardware = {
      row.text(5),    static_cast<int>(row.integer(6)),  static_cast<int>(row.integer(7)),  row.integer(8),
      row.integer(9), static_cast<int>(row.integer(10)), static_cast<int>(row.integer(11)), row.text(12),
      row.text(13)};
  workload.family = row.text(14);
  workload.key.timing = stored_timing(row.text(15));
  return workload;
}

}  // namespace

Cache::Cache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;
Cache::~Cache() = default;

Cache Cache::open(const fs::path& given, Mode mode, const CacheOptions& options) {
  const fs::path path = require_plausible(given, mode);
  require_sound_companions(path);
  if (std::error_code absent; fs::file_size(path, absent) > 0 && !absent) refuse_foreign(path);
  auto impl = std::make_unique<Impl>(Database(path, access_for(mode), options.busy_timeout),
                                     mode == Mode::read_only || mode == Mode::inspect, options);
  if (mode == Mode::inspect) {
    require_version(impl->database);
  } else if (mode == Mode::read_only) {
    require_readable(impl->database);
  } else {
    refuse_pack(impl->database);
    make_schema(impl->database);
    impl->warning = choose_journal(impl->database, network_file_system(path));
    impl->has_log = impl->warning.empty();
    keep_tallies(impl->database);
    impl->end_writing();  // of a search that was killed
  }
  if (const std::string& why = impl->database.missing_locks(); !why.empty())
    impl->warning = "locks do not work where " + path.string() + " lies (" + why +
                    "): it is read as it is, and what a search writes meanwhile may show as damage";
  if (mode == Mode::read_only) impl->pack = read_manifest(impl->database);  // check() reads it in its turn
  return Cache(std::move(impl));
}

Cache Cache::in_memory() {
  const fs::path nowhere = ":memory:";
  auto impl = std::make_unique<Impl>(
      Database(nowhere, Database::Access::create, std::chrono::milliseconds(0)), false);
  make_schema(impl->database);
  keep_tallies(impl->database);
  return Cache(std::move(impl));
}

std::string Cache::content() const { return impl_->database.content(); }

void Cache::use_rules(RecordRules rules) { impl_->rules = std::move(rules); }

bool Cache::has_rules() const { return static_cast<bool>(impl_->rules.winner); }

Cache Cache::open_content(const fs::path& path, std::string content, Mode mode) {
  auto impl = std::make_unique<Impl>(Database(path, std::move(content)), true);
  mode == Mode::inspect ? require_version(impl->database) : require_readable(impl->database);
  if (mode == Mode::read_only) impl->pack = read_manifest(impl->database);
  return Cache(std::move(impl));
}

std::optional<Cache> Cache::open_settled(const fs::path& given, std::chrono::milliseconds age) {
  if (given.empty()) return std::nullopt;
  const fs::path path = fs::absolute(given);
  const std::optional<FileState> state = FileState::of_settled(path, age, network_file_system(path));
  if (!state) return std::nullopt;
  try {
    auto impl = std::make_unique<Impl>(
        Database(path, Database::Access::immutable, std::chrono::milliseconds(0)), true);
    require_readable(impl->database);
    impl->pack = read_manifest(impl->database);
    impl->settled = state;
    if (Cache cache(std::move(impl)); cache.is_unchanged()) return cache;
  } catch (const BrokenEnvironment&) {
    // open() looks again, under locks, and says what is wrong.
  }
  return std::nullopt;
}

bool Cache::is_unchanged() const { return !impl_->settled || FileState::of(path()) == impl_->settled; }

std::optional<fs::path> Cache::find_default_path() {
  const auto variable = [](const char* name) {
    const char* value = environment_variable(name);
    return fs::path(value == nullptr ? "" : value);
  };
  // The XDG base directory specification: a relative path is invalid and ignored.
  if (const fs::path base = variable("XDG_CACHE_HOME"); base.is_absolute())
    return base / "moetune" / "moetune.db";
  if (const fs::path home = variable("HOME"); home.is_absolute())
    return home / ".cache" / "moetune" / "moetune.db";
  return std::nullopt;
}

fs::path Cache::default_path() {
  if (std::optional<fs::path> path = find_default_path()) return *std::move(path);
  throw BrokenEnvironment(
      "neither XDG_CACHE_HOME nor HOME names a folder for the cache; set one, or name a cache file");
}

const fs::path& Cache::path() const { return impl_->database.path(); }

const std::string& Cache::warning() const { return impl_->warning; }

std::optional<std::int64_t> Cache::Impl::find_hardware(const HardwareKey& key) const {
  Query found = database.query("SELECT id FROM hardware WHERE key = ?", key.text());
  return found.step() ? std::optional(found.integer(0)) : std::nullopt;
}

std::int64_t Cache::Impl::hardware(const HardwareKey& key) const {
  database.run(
      "INSERT INTO hardware (key, name, compute_capability, sm_count, l2_bytes, memory_bytes, sm_clock_khz,"
      " memory_clock_khz, origin, driver) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
      " ON CONFLICT (key) DO UPDATE SET driver = excluded.driver WHERE driver <> excluded.driver",
      key.text(), key.name, key.compute_capability, key.sm_count, key.l2_bytes, key.memory_bytes,
      key.sm_clock_khz, key.memory_clock_khz, key.origin, key.driver);
  // Marks a new row, and one whose driver changed. A damaged row stays damaged.
  if (database.changes() > 0)
    database.run("UPDATE hardware AS h SET digest = " MOETUNE_HARDWARE_DIGEST " WHERE key = ?", key.text());
  return find_hardware(key).value();
}

std::optional<std::int64_t> Cache::Impl::find_workload(const WorkloadKey& key) const {
  Query found = database.query(
      "SELECT w.id FROM workloads w JOIN hardware h ON h.id = w.hardware WHERE w.kernel = ? AND w.problem = ?"
      " AND h.key = ? AND w.source_digest = ? AND w.toolchain = ? AND w.timing = ?",
      key.kernel, key.problem, key.hardware.text(), key.source_digest, key.toolchain,
      std::string(timing_name(key.timing)));
  return found.step() ? std::optional(found.integer(0)) : std::nullopt;
}

std::int64_t Cache::Impl::insert_workload(const WorkloadKey& key, const std::string& family) const {
  database.run(
      "INSERT INTO workloads AS w (kernel, problem, hardware, source_digest, toolchain, family, timing, digest)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, moetune_digest(?1, ?2, ?3, ?4,"
      " ?5 || iif(?7 = 'overlapped', '', char(10) || ?7), ?6))"
      " ON CONFLICT DO UPDATE SET family = excluded.family, digest = excluded.digest"
      " WHERE w.family = '' AND w.digest = " MOETUNE_WORKLOAD_DIGEST,
      key.kernel, key.problem, hardware(key.hardware), key.source_digest, key.toolchain, family,
      std::string(timing_name(key.timing)));
  return find_workload(key).value();
}

std::optional<std::int64_t> Cache::find_workload(const WorkloadKey& key) const {
  return impl_->find_workload(key);
}

std::int64_t Cache::workload(const WorkloadKey& key, const std::string& family) {
  WriteTransaction transaction(impl_->database);
  const std::int64_t id = impl_->insert_workload(key, family);
  transaction.commit();
  return id;
}

void Cache::fill_families(const std::function<std::string(const WorkloadKey&)>& family_of) {
  {
    Query any = impl_->database.query("SELECT count(*) FROM workloads WHERE family = ''");
    any.step();
    if (any.integer(0) == 0) return;
  }
  for (const Workload& known : workloads()) {
    if (const std::string family = family_of(known.key); !family.empty()) workload(known.key, family);
  }
}

std::vector<Workload> Cache::workloads() const {
  std::vector<Workload> all;
  Query row = impl_->database.query(SELECT_WORKLOADS "ORDER BY w.id");
  while (row.step()) all.push_back(workload_of(row));
  return all;
}

std::optional<Workload> Cache::Impl::find_workload(std::int64_t id) const {
  Query row = database.query(SELECT_WORKLOADS "WHERE w.id = ?", id);
  return row.step() ? std::optional(workload_of(row)) : std::nullopt;
}

void Cache::put_calibration(const HardwareKey& hardware, const std::string& name, double value) {
  WriteTransaction transaction(impl_->database);
  impl_->database.run(
      "INSERT INTO calibrations (hardware, name, value, digest) VALUES (?1, ?2, ?3, moetune_digest(?4, ?2, ?3))"
      " ON CONFLICT (hardware, name) DO UPDATE SET value = excluded.value, digest = excluded.digest",
      impl_->hardware(hardware), name, value, hardware.text());
  transaction.commit();
}

std::optional<double> Cache::calibration(const HardwareKey& hardware, const std::string& name) const {
  Query found = impl_->database.query(
      "SELECT c.value FROM calibrations c JOIN hardware h ON h.id = c.hardware WHERE h.key = ? AND c.name = ?"
      " AND c.digest = " MOETUNE_CALIBRATION_DIGEST,
      hardware.text(), name);
  return found.step() && is_calibration(found.real(0)) ? std::optional(found.real(0)) : std::nullopt;
}

}  // namespace moetune
