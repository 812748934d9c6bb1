// One connection to one SQLite file: prepared statements, transactions, and SQLite's errors as
// BrokenEnvironment sentences that name the file.
//
// Belongs to one thread at a time. A Query borrows its statement from the Database: finish with it (let it go
// out of scope) before the same statement is asked for again.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

struct sqlite3_stmt;

namespace SQLite {
class Database;
class Exception;
}  // namespace SQLite

namespace moetune {

class Database;

// A statement with its values bound. Reset when it goes out of scope, which ends its read transaction.
class Query {
 public:
  Query(Query&&) = delete;
  ~Query();

  bool step();  // to the next row; false at the end

  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string_view view(int column) const;  // a text or bytes, until the next step
  std::vector<std::uint8_t> bytes(int column) const;
  // The name of the row's first column whose text is not UTF-8; empty where there is none.
  std::string broken_text() const;

 private:
  friend class Database;
  template <typename... Values>
  Query(const Database& database, sqlite3_stmt* statement, const Values&... values)
      : database_(database), statement_(statement) {
    [[maybe_unused]] int index = 0;
    (bind(++index, values), ...);
  }

  void bind(int index, std::int64_t value);
  void bind(int index, int value) { bind(index, static_cast<std::int64_t>(value)); }
  void bind(int index,
            double value);  // throws std::invalid_argument for NaN, which SQLite would store as NULL
  void bind(int index, std::string_view value);
  void bind(int index, const std::string& value) { bind(index, std::string_view(value)); }
  void bind(int index, const std::vector<std::uint8_t>& value);
  void require_bound(int code) const;

  const Database& database_;
  sqlite3_stmt* statement_;
};

class Database {
 public:
  enum class Access {
    create,      // read and write; the file may be new
    read_write,  // read and write; the file exists
    // Plays no rollback journal back and leaves no -wal and -shm that it made; immutable if they cannot be made
    // and none waits.
    read_only,
    immutable,  // reads the main file alone: no lock, no recovery of a journal, nothing beside it
    unlocked,   // reads file and log where locks do not work: what a writer does meanwhile may show as damage
  };

  Database(const std::filesystem::path& path, Access access, std::chrono::milliseconds busy_timeout);
  // Reads `content`, the bytes of a whole database, and no file: what was verified is what is used. `path` names
  // it in errors.
  Database(const std::filesystem::path& path, std::string content);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();

  const std::filesystem::path& path() const { return path_; }
  // The system's reason why this connection reads without locks; "" if it has them, or needs none.
  const std::string& missing_locks() const { return missing_locks_; }
  // The whole database as a file holds it. Throws BrokenEnvironment for want of memory.
  std::string content() const;
  // Writes the database, as this connection reads it now, over the one at `path`.
  void copy_to(const std::filesystem::path& path) const;

  // A statement by its SQL, which must outlive the Database (a literal); prepared once.
  template <typename... Values>
  Query query(const char* sql, const Values&... values) const {
    return Query(*this, prepared(sql), values...);
  }

  // Runs one statement to its end.
  template <typename... Values>
  void run(const char* sql, const Values&... values) const {
    Query statement(*this, prepared(sql), values...);
    while (statement.step()) {
    }
  }

  // The same of an insertion that may update a row instead; whether it has inserted one.
  template <typename... Values>
  bool insert(const char* sql, const Values&... values) const {
    forget_last_row();
    run(sql, values...);
    return last_row() != 0;
  }

  bool in_transaction() const;
  int changes() const;                         // rows that the last statement inserted, updated or deleted
  void execute(const std::string& sql) const;  // any number of statements, unprepared
  std::int64_t integer_pragma(const std::string& name) const;

  // Switches to "wal" or "delete", waiting for other connections. Returns whether the file is in that mode
  // now.
  bool set_journal(const std::string& mode) const;

  // The sentence for an error of SQLite's.
  BrokenEnvironment explain(const SQLite::Exception& error) const;

 private:
  void close() noexcept;
  void connect(Access access);
  void connect_read_only();
  void prepare_connection();
  bool read_without_locks(const SQLite::Exception& error);
  void require_no_cut_off_change() const;
  void require_writable() const;
  sqlite3_stmt* prepared(const char* sql) const;
  friend class Query;
  [[noreturn]] void refuse(int code) const;
  void forget_last_row() const;
  std::int64_t last_row() const;

  std::filesystem::path path_;
  Access access_ = Access::read_only;
  std::chrono::milliseconds busy_timeout_;
  struct Waiting;
  std::unique_ptr<Waiting> waiting_;  // for the locks of others
  std::string missing_locks_;
  std::unique_ptr<std::string> content_;  // that the connection reads, if it reads no file
  std::unique_ptr<SQLite::Database> connection_;

  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  // Statements begin alike; their lengths tell most of them apart.
  struct ShorterFirst {
    bool operator()(std::string_view a, std::string_view b) const {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
  };
  mutable std::map<std::string_view, std::unique_ptr<sqlite3_stmt, Finalizer>, ShorterFirst> statements_;
};

// Reads inside see the database as it was at the beginning, whoever writes meanwhile. Within another transaction it is
// a part of that.
class ReadTransaction {
 public:
  explicit ReadTransaction(const Database& database);
  ReadTransaction(const ReadTransaction&) = delete;
  ~ReadTransaction();

 private:
  const Database& database_;
  bool open_;
};

// Several statements as one: takes the write lock at once, rolls back unless committed. Within another it is a part of
// that: only the outer one begins and ends.
class WriteTransaction {
 public:
  explicit WriteTransaction(const Database& database);
  WriteTransaction(const WriteTransaction&) = delete;
  ~WriteTransaction();

  void commit();

 private:
  const Database& database_;
  bool open_;
};

}  // namespace moetune
