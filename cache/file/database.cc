#include "cache/file/database.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/utf8.h"
#include "cache/file/companions.h"
#include "cache/file/digest_functions.h"
#include "cache/file/file_system.h"
#include "cache/file/lock_probe.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// As a URI, in which SQLite takes '?', '#' and '%' for its own.
std::string uri_of(const fs::path& path, const char* options) {
  std::string uri = "file:";
  for (const char c : path.string()) {
    if (c == '?') {
      uri += "%3f";
    } else if (c == '#') {
      uri += "%23";
    } else if (c == '%') {
      uri += "%25";
    } else {
      uri += c;
    }
  }
  return uri + "?" + options;
}

std::string immutable_uri(const fs::path& path) { return uri_of(path, "immutable=1"); }

// 0 where there is none.
std::uintmax_t companion_size(const fs::path& path, const char* suffix) {
  std::error_code absent;
  const std::uintmax_t size = fs::file_size(path.string() + suffix, absent);
  return absent ? 0 : size;
}

bool has_pending_log(const fs::path& path) { return companion_size(path, "-wal") > 0; }

// The first piece of a -shm file. Every connection to a WAL database has it, or makes it.
constexpr std::size_t kSharedMemory = 32768;

bool can_share_memory(const fs::path& path) {
  return companion_size(path, "-shm") >= kSharedMemory || has_room(path.parent_path(), kSharedMemory);
}

// By the header, read through SQLite: a descriptor of our own would drop this process's locks when it closes.
bool is_wal(const fs::path& path) {
  const SQLite::Database probe(immutable_uri(path), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
  sqlite3_file* file = nullptr;
  unsigned char version = 0;
  return sqlite3_file_control(probe.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
         file->pMethods->xRead(file, &version, 1, 19) == SQLITE_OK && version == 2;
}

// SQLite tries in several ways and keeps the reason of the last; what the system says of file and folder is
// plainer.
std::string why_unopenable(const fs::path& path, const char* otherwise) {
  const std::pair<fs::path, int> needs[] = {{path.parent_path(), W_OK | X_OK}, {path, R_OK}};
  for (const auto& [place, access] : needs) {
    if (::access(place.c_str(), access) == 0 || errno == ENOENT) continue;
    return std::string(std::strerror(errno)) + " (" + place.string() + ")";
  }
  return otherwise;
}

// SQLite reads no file of two parts (its header's format numbers are 2) out of memory.
void require_whole(const fs::path& path, const std::string& content) {
  constexpr std::size_t kWriteFormat = 18, kReadFormat = 19;
  if (content.size() <= kReadFormat || (content[kWriteFormat] != 2 && content[kReadFormat] != 2)) return;
  throw BrokenEnvironment(path.string() +
                          " is a cache that grows by a log beside it, and no pack; `moetune cache export` makes one");
}

constexpr int kLooks = 3;

// SQLite does not keep the reason of every write that fails.
bool at_size_limit(const fs::path& path) {
  constexpr std::uintmax_t kLargestWrite = 65536 + 4096;  // a page
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  const auto at_limit = [&](const char* suffix) {
    return companion_size(path, suffix) + kLargestWrite > limit.rlim_cur;
  };
  return at_limit("") || at_limit("-wal") || at_limit("-journal") || at_limit("-shm");
}

BrokenEnvironment cut_off_change(const fs::path& path) {
  return BrokenEnvironment(path.string() + " holds half of a change that was cut off, and " + path.string() +
                           "-journal undoes it. Reading commands do not: if both files are yours, a command "
                           "that writes to this cache does, such as a search");
}

std::string move_away() { return "; move it away, or name another file"; }

// True for the errors by which SQLite reports a lock that it could not get, for any reason.
bool is_of_locks(const SQLite::Exception& error) {
  switch (error.getExtendedErrorCode()) {
    case SQLITE_IOERR_LOCK:
    case SQLITE_IOERR_RDLOCK:
    case SQLITE_IOERR_UNLOCK:
    case SQLITE_IOERR_SHMLOCK:
    case SQLITE_IOERR_CHECKRESERVEDLOCK:
      return true;
    default:
      break;
  }
  const int code = error.getErrorCode() & 0xFF;
  return code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_PERM || code == SQLITE_PROTOCOL;
}

}  // namespace

// Waits for the locks of others, as SQLite's own handler would, but not where no lock can be had.
struct Database::Waiting {
  fs::path path;
  std::chrono::milliseconds longest;
  Clock::time_point since = {};

  static int wait(void* self, int tries) {
    auto& waiting = *static_cast<Waiting*>(self);
    if (tries == 0) {
      if (!why_locks_fail(waiting.path).empty()) return 0;
      waiting.since = Clock::now();
    }
    if (Clock::now() - waiting.since >= waiting.longest) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(1 + 4 * tries, 50)));
    return 1;
  }
};

Query::~Query() { sqlite3_reset(statement_); }

bool Query::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.refuse(code);
  return false;
}

std::int64_t Query::integer(int column) const { return sqlite3_column_int64(statement_, column); }

double Query::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Query::view(int column) const {
  // As a blob first, so that SQLite converts nothing of a text.
  const auto* const text = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string Query::text(int column) const { return std::string(view(column)); }

std::vector<std::uint8_t> Query::bytes(int column) const {
  const std::string_view value = view(column);
  return {value.begin(), value.end()};
}

std::string Query::broken_text() const {
  const int columns = sqlite3_data_count(statement_);
  for (int i = 0; i < columns; ++i) {
    if (sqlite3_column_type(statement_, i) == SQLITE_TEXT && !is_utf8(view(i)))
      return sqlite3_column_name(statement_, i);
  }
  return {};
}

void Query::bind(int index, std::int64_t value) { require_bound(sqlite3_bind_int64(statement_, index, value)); }

void Query::bind(int index, double value) {
  if (std::isnan(value)) throw std::invalid_argument("a NaN cannot be stored in a cache");
  require_bound(sqlite3_bind_double(statement_, index, value));
}

void Query::bind(int index, std::string_view value) {
  const char* const text = value.empty() ? "" : value.data();  // not NULL
  require_bound(sqlite3_bind_text64(statement_, index, text, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Query::bind(int index, const std::vector<std::uint8_t>& value) {
  // A null pointer would be bound as NULL, which is not an empty blob.
  const void* const bytes = value.empty() ? static_cast<const void*>("") : value.data();
  require_bound(sqlite3_bind_blob64(statement_, index, bytes, value.size(), SQLITE_TRANSIENT));
}

void Query::require_bound(int code) const {
  if (code != SQLITE_OK) database_.refuse(code);
}

Database::Database(const fs::path& path, Access access, std::chrono::milliseconds busy_timeout)
    : path_(path), busy_timeout_(busy_timeout) {
  if (access != Access::immutable) require_sound_companions(path);
  try {
    access == Access::read_only ? connect_read_only() : connect(access);
  } catch (const SQLite::Exception& error) {
    const BrokenEnvironment why = explain(error);
    close();
    throw why;
  }
  if (access == Access::create || access == Access::read_write) require_writable();
}

Database::Database(const fs::path& path, std::string content)
    : path_(path),
      access_(Access::immutable),
      busy_timeout_(0),
      content_(std::make_unique<std::string>(std::move(content))) {
  require_whole(path, *content_);
  try {
    connection_ = std::make_unique<SQLite::Database>(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX);
    auto* const bytes = reinterpret_cast<unsigned char*>(content_->data());
    const auto size = static_cast<sqlite3_int64>(content_->size());
    const int code =
        sqlite3_deserialize(connection_->getHandle(), "main", bytes, size, size, SQLITE_DESERIALIZE_READONLY);
    if (code != SQLITE_OK) throw SQLite::Exception(connection_->getHandle(), code);
    prepare_connection();
  } catch (const SQLite::Exception& error) {
    throw explain(error);
  }
}

Database::Database(Database&&) noexcept = default;

Database::~Database() { close(); }

// SQLite leaves an empty log and its -shm behind where the last connection could only read. Another one that
// may write takes them away as it closes, under SQLite's own locks: not while anybody uses the file.
void Database::close() noexcept {
  statements_.clear();  // before their connection
  if (connection_ == nullptr) return;
  connection_.reset();
  std::error_code absent;
  if (access_ != Access::read_only || has_pending_log(path_) || has_journal(path_) ||
      !fs::exists(path_.string() + "-wal", absent))
    return;
  try {
    SQLite::Database(path_.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version");
  } catch (const SQLite::Exception&) {
    // Somebody uses the file, or it is damaged, which has been said.
  }
}

void Database::connect(Access access) {
  statements_.clear();
  access_ = access;
  const int wait_ms = static_cast<int>(busy_timeout_.count());
  if (access == Access::immutable || access == Access::unlocked) {
    const std::string uri = access == Access::immutable ? immutable_uri(path_) : uri_of(path_, "vfs=unix-none");
    connection_ = std::make_unique<SQLite::Database>(
        uri, SQLite::OPEN_READONLY | SQLite::OPEN_URI | SQLite::OPEN_NOMUTEX, wait_ms);
    // Then a log needs no memory that is shared with others.
    if (access == Access::unlocked) connection_->exec("PRAGMA locking_mode = EXCLUSIVE");
  } else {
    const int flags = access == Access::read_only
                          ? SQLite::OPEN_READONLY
                          : SQLite::OPEN_READWRITE | (access == Access::create ? SQLite::OPEN_CREATE : 0);
    connection_ = std::make_unique<SQLite::Database>(path_.string(), flags | SQLite::OPEN_NOMUTEX, wait_ms);
  }
  prepare_connection();
}

void Database::prepare_connection() {
  if (access_ != Access::immutable && access_ != Access::unlocked) {
    waiting_ = std::make_unique<Waiting>(Waiting{path_, busy_timeout_});
    sqlite3_busy_handler(connection_->getHandle(), &Waiting::wait, waiting_.get());
  }
  // A file from elsewhere (a pack) must not run functions of its own through its schema.
  connection_->exec("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON");
  add_digest_functions(*connection_);
}

// A reader of a WAL database needs its -shm file, and makes it where it is missing. Where it can neither be
// found whole nor be made (a full disk, a folder that cannot be written), nobody uses the file: a connection
// would have the -shm. If no log waits to be read either, then the main file is complete and can be read as
// it lies. SQLite is not even asked to try, for it would leave what it could make of the two files. A writer
// that comes once there is space again could change pages under this reader, who then tells of damage that is
// none; every other choice refuses to read.
void Database::connect_read_only() {
  require_no_cut_off_change();
  if (!can_share_memory(path_) && is_wal(path_)) {
    if (!has_pending_log(path_)) return connect(Access::immutable);
    throw BrokenEnvironment(path_.string() + "-wal holds results, and reading them needs " + path_.string() +
                            "-shm, which cannot be made: free some space, or make the folder writable");
  }
  try {
    connect(Access::read_only);
    connection_->exec("SELECT 1 FROM sqlite_schema LIMIT 1");
  } catch (const SQLite::Exception& error) {
    if (read_without_locks(error)) return;
    const bool locks_denied = error.getErrorCode() == SQLITE_CANTOPEN || error.getErrorCode() == SQLITE_READONLY;
    if (!locks_denied || has_pending_log(path_) || companion_size(path_, "-shm") > 0) throw;
    if (has_journal(path_)) throw cut_off_change(path_);
    connect(Access::immutable);
  }
}

// Nobody can tell there whether somebody writes. A journal would have to be played back, which readers do not.
bool Database::read_without_locks(const SQLite::Exception& error) {
  if (!is_of_locks(error)) return false;
  const std::string reason = why_locks_fail(path_);
  if (reason.empty()) return false;
  if (has_journal(path_)) throw cut_off_change(path_);
  connect(Access::unlocked);
  connection_->exec("SELECT 1 FROM sqlite_schema LIMIT 1");
  missing_locks_ = reason;
  return true;
}

// In a file without a log (network file systems) a change that was cut off lies half in the file, and what
// was there before in -journal. SQLite would put that back, and so change the file, for whoever may write. While
// a writer is at work it holds SQLite's reserved lock.
void Database::require_no_cut_off_change() const {
  if (!has_journal(path_)) return;
  const SQLite::Database probe(path_.string(), SQLite::OPEN_READONLY);
  for (int look = 0; has_journal(path_); ++look) {
    sqlite3_file* file = nullptr;
    int reserved = 0;
    const bool known = sqlite3_file_control(probe.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
                       file->pMethods->xCheckReservedLock(file, &reserved) == SQLITE_OK;
    if (known && reserved != 0) return;
    if (look == kLooks) throw cut_off_change(path_);  // not one writer after another
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// SQLite opens a write-protected file for reading without a word; the first write is too late to say so.
void Database::require_writable() const {
  if (sqlite3_db_readonly(connection_->getHandle(), "main") != 1) return;
  throw BrokenEnvironment(path_.string() + " is read-only; make it writable, or name another cache file");
}

void Database::Finalizer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

sqlite3_stmt* Database::prepared(const char* sql) const {
  const std::string_view text = sql;
  if (const auto known = statements_.find(text); known != statements_.end()) return known->second.get();
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(connection_->getHandle(), sql, static_cast<int>(text.size()) + 1, &statement, nullptr);
  if (code != SQLITE_OK) refuse(code);
  statements_.emplace(text, statement);
  return statement;
}

void Database::refuse(int code) const { throw explain(SQLite::Exception(connection_->getHandle(), code)); }

std::string Database::content() const {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> bytes(
      sqlite3_serialize(connection_->getHandle(), "main", &size, 0), &sqlite3_free);
  if (bytes == nullptr) throw BrokenEnvironment("there is too little memory for " + path_.string());
  return {reinterpret_cast<const char*>(bytes.get()), static_cast<std::size_t>(size)};
}

void Database::copy_to(const fs::path& path) const {
  const Database copy(path, Access::create, busy_timeout_);
  sqlite3* const into = copy.connection_->getHandle();
  sqlite3_backup* const pages = sqlite3_backup_init(into, "main", connection_->getHandle(), "main");
  if (pages != nullptr) sqlite3_backup_step(pages, -1);
  if (const int code = sqlite3_backup_finish(pages); code != SQLITE_OK) copy.refuse(code);
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_->getHandle()) == 0; }

void Database::forget_last_row() const { sqlite3_set_last_insert_rowid(connection_->getHandle(), 0); }

std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(connection_->getHandle()); }

int Database::changes() const { return connection_->getChanges(); }

void Database::execute(const std::string& sql) const {
  try {
    connection_->exec(sql);
  } catch (const SQLite::Exception& error) {
    throw explain(error);
  }
}

std::int64_t Database::integer_pragma(const std::string& name) const {
  try {
    return connection_->execAndGet(("PRAGMA " + name).c_str()).getInt64();
  } catch (const SQLite::Exception& error) {
    throw explain(error);
  }
}

bool Database::set_journal(const std::string& mode) const {
  const Clock::time_point deadline = Clock::now() + busy_timeout_;
  for (;;) {
    try {
      if (connection_->execAndGet("PRAGMA journal_mode").getString() == mode) return true;
      return connection_->execAndGet(("PRAGMA journal_mode = " + mode).c_str()).getString() == mode;
    } catch (const SQLite::Exception& error) {
      // Changing the mode takes the whole file, and SQLite does not wait for that by itself.
      const bool may_end = error.getErrorCode() == SQLITE_BUSY && Clock::now() < deadline;
      if (!may_end || !why_locks_fail(path_).empty()) throw explain(error);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

BrokenEnvironment Database::explain(const SQLite::Exception& error) const {
  const std::string file = path_.string();
  const int system_error = connection_ ? sqlite3_system_errno(connection_->getHandle()) : 0;
  const std::string reason = system_error != 0 ? std::strerror(system_error) : error.what();
  const int code = error.getErrorCode() & 0xFF;
  if (is_of_locks(error)) {
    if (const std::string why = why_locks_fail(path_); !why.empty())
      return BrokenEnvironment("locks do not work where " + file + " lies (" + why +
                               "), and nothing is written without them: name a cache on a local disk, or make "
                               "them work. What is stored there can be read");
  }
  if (code == SQLITE_FULL || (code == SQLITE_IOERR && (system_error == ENOSPC || system_error == EDQUOT))) {
    return BrokenEnvironment("no space left for " + file + "; what was committed is kept: free some space and go on");
  }
  if (system_error == EFBIG || (code == SQLITE_IOERR && at_size_limit(path_))) {
    return BrokenEnvironment(file + " cannot grow past the limit of this shell on the size of files; what was " +
                             "committed is kept: raise the limit ('ulimit -f') and go on");
  }
  switch (code) {
    case SQLITE_NOTADB:
      return BrokenEnvironment(file + " is not a moetune cache (no SQLite database)" + move_away());
    case SQLITE_CORRUPT:
      return BrokenEnvironment(file + " is damaged (" + error.what() + ")" + move_away());
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return BrokenEnvironment(file + " cannot be written (" + error.what() +
                               "); make it and its folder writable, or name another file");
    case SQLITE_CANTOPEN:
      return BrokenEnvironment("cannot open " + file + ": " + why_unopenable(path_, error.what()));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return BrokenEnvironment("another process has held " + file + " locked for " +
                               std::to_string(busy_timeout_.count() / 1000.0).substr(0, 4) +
                               " s; wait for it to finish, or end it");
    case SQLITE_IOERR:
      return BrokenEnvironment("reading or writing " + file + " failed: " + reason);
    default:
      return BrokenEnvironment(file + ": " + error.what());
  }
}

ReadTransaction::ReadTransaction(const Database& database) : database_(database), open_(!database.in_transaction()) {
  if (!open_) return;
  database_.run("BEGIN");
  Query first = database_.query("SELECT count(*) FROM sqlite_schema");  // BEGIN alone takes no snapshot
  first.step();
}

ReadTransaction::~ReadTransaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const BrokenEnvironment&) {
    // SQLite has ended it, and the first error is on its way up.
  }
}

WriteTransaction::WriteTransaction(const Database& database) : database_(database), open_(!database.in_transaction()) {
  if (open_) database_.run("BEGIN IMMEDIATE");
}

WriteTransaction::~WriteTransaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const BrokenEnvironment&) {
    // SQLite has rolled back by itself (a full disk, an I/O error), and the first error is on its way up.
  }
}

void WriteTransaction::commit() {
  if (open_) database_.run("COMMIT");
  open_ = false;
}

}  // namespace moetune
