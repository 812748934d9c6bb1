// What the cache's tests share: a folder that goes away, sample records, child processes and small disks.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "tests/temporary_folder.h"

namespace cache_test {

namespace fs = std::filesystem;

inline bool says(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

struct TempDir : moetune::TemporaryFolder {
  // In memory where the machine has such a folder, for what makes files by the thousand.
  enum class Place { disk, memory };
  explicit TempDir(Place place = Place::disk);
  // Every file below, with its bytes.
  std::map<std::string, std::string> content() const;
};

moetune::HardwareKey h200();
moetune::WorkloadKey workload_key(const std::string& problem = "batch=64");
moetune::TrialRecord trial(int number);
moetune::WinnerRecord winner(int number);
moetune::Blob random_bytes(std::size_t size, std::uint64_t seed);

std::string read_file(const fs::path& path);
void write_file(const fs::path& path, const std::string& bytes);

// Runs SQL on a file with no regard for whose it is.
void raw_sql(const fs::path& path, const std::string& sql);
std::string raw_text(const fs::path& path, const std::string& sql);

// The sentence of the BrokenEnvironment that `action` throws; "" where it throws none.
std::string broken(const std::function<void()>& action);

// A forked process that runs `body` and exits with 0, or with 1 and the exception on stderr. Fork before any
// cache is open: SQLite's connections do not survive it.
pid_t start(const std::function<void()>& body);
int finish(pid_t child);  // its exit status; -1 where a signal ended it

// Runs `body` in a child process that sees a fresh tmpfs of `bytes` at `mount_point`. The body returns what
// went wrong, "" for nothing; nullopt where this machine does not let us mount.
std::optional<std::string> on_small_disk(const fs::path& mount_point, std::size_t bytes,
                                         const std::function<std::string()>& body);
// For such a body: makes the tmpfs read-only. Whether that worked.
bool make_read_only(const fs::path& mount_point);

}  // namespace cache_test
