// The persistent store of trials, winners, range tables and compiled cubins: one SQLite file. A Cache is an open one;
// its parts, a class each, read and write it.
//
// Several processes may use one file at once: readers never block the writer, every trial is committed as it
// lands, and kill -9 at any moment loses no committed trial. One Cache object belongs to one thread at a
// time; open another for another thread. Errors: BrokenEnvironment names the file, what is wrong with it (not
// a database, another application's, a newer schema, damaged, full disk, read-only, a network file system)
// and what to do; the file is left as it was.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cache/builds.h"
#include "cache/pack_manifest.h"
#include "cache/ranges.h"
#include "cache/rules.h"
#include "cache/trials.h"
#include "cache/winners.h"
#include "cache/workloads.h"

namespace moetune {

struct CacheOptions {
  std::int64_t max_build_bytes = std::int64_t{512} << 20;  // compressed builds kept; least-recently-used go first
  std::chrono::milliseconds busy_timeout{30'000};          // how long to wait for another process's lock
};

class Cache {
 public:
  enum class Mode {
    create,
    read_write,
    read_only,
    inspect,  // read-only, whatever was done to the tables: for check_cache() alone
  };

  // Opens, creating file and folders for Mode::create, and makes the tables in an empty one.
  // Throws BadInput where there is no file to open (but for Mode::create) or the path cannot be one, and
  // BrokenEnvironment for a pack that is to be written to, or whose manifest is damaged or of a newer moetune.
  static Cache open(const std::filesystem::path& path, Mode mode, const CacheOptions& options = {});
  // A file as it lies, without a lock and nothing made beside it: for Winners::of_family, Ranges::of_family and
  // Winners::cubin, each of which holds only if is_unchanged() afterwards. nullopt for a file that was changed within
  // `age`, that has a log beside it, that lies on a network file system, or that does not open: open() reads it or says
  // why not.
  static std::optional<Cache> open_settled(const std::filesystem::path& path,
                                           std::chrono::milliseconds age = std::chrono::seconds(2));
  // Whether the file is as open_settled() found it; always of a Cache that was opened otherwise.
  bool is_unchanged() const;
  // As open() of bytes that were read, for Mode::read_only or inspect; `path` names them in errors.
  static Cache open_content(const std::filesystem::path& path, std::string content, Mode mode);
  // An empty cache that is no file, to make a pack of.
  static Cache in_memory();
  // $XDG_CACHE_HOME/moetune/moetune.db, else ~/.cache/moetune/moetune.db. Where neither variable names a
  // folder the one gives nothing and the other throws BrokenEnvironment.
  static std::optional<std::filesystem::path> find_default_path();
  static std::filesystem::path default_path();

  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;
  ~Cache();

  const std::filesystem::path& path() const;
  // One sentence for the user where the file lies on a network file system, or is read where locks do not work; else
  // empty.
  const std::string& warning() const;
  // Whether the file is without the log of a search that wrote to it: it was copied alone while one went on, or after
  // one was killed. Then results of its last seconds may be missing.
  bool lacks_log() const;

  // From now on what breaks the rules for winners and range tables counts as damaged, whoever reads it: as if it did
  // not match its digest.
  void use_rules(RecordRules rules);

  // Until it goes, all reads see the file as it is now, under one lock. Nothing may be written meanwhile.
  std::shared_ptr<const void> snapshot() const;

  // The manifest of a pack; null for a cache.
  const PackManifest* manifest() const;
  // The bytes of the whole file, without a log. Throws BrokenEnvironment for want of memory.
  std::string content() const;

  Workloads workloads;
  Trials trials;
  Winners winners;
  Ranges ranges;
  Builds builds;

  CacheFile& file() const { return *file_; }  // for cache/ alone

 private:
  explicit Cache(std::unique_ptr<CacheFile> file);
  std::unique_ptr<CacheFile> file_;
};

}  // namespace moetune
