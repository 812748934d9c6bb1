#include "cache/file/file_system.h"

#include <doctest/doctest.h>
#include <linux/magic.h>

#include "cache/file/journal.h"
#include "cache/schema/schema.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::Database;
using moetune::has_room;
using moetune::network_name;
using namespace cache_test;

namespace {

// The byte of the header that says how the file is written: 1 with a rollback journal, 2 with WAL.
int write_version(const fs::path& file) { return read_file(file).at(18); }

std::string reopen(const fs::path& file, const std::string& network) {
  return choose_journal(Database(file, Database::Access::read_write, std::chrono::seconds(1)), network);
}

}  // namespace

TEST_CASE("network file systems are known by their type, local ones are not network") {
  CHECK(network_name(NFS_SUPER_MAGIC) == "NFS");
  CHECK(network_name(SMB_SUPER_MAGIC) == "SMB");
  CHECK(network_name(static_cast<int>(0xFF534D42)) == "SMB");  // CIFS, as a signed word of 32 bits
  CHECK(network_name(0xFE534D42) == "SMB");                    // SMB2
  CHECK(network_name(0x65735546) == "FUSE");
  CHECK(network_name(0x0BD00BD0) == "Lustre");
  CHECK(network_name(V9FS_MAGIC) == "9p");
  for (const long local : {long{EXT4_SUPER_MAGIC}, long{TMPFS_MAGIC}, long{BTRFS_SUPER_MAGIC}, long{0x58465342}}) {
    CHECK(network_name(local).empty());
  }
}

TEST_CASE("a path that does not exist yet is judged by its nearest parent") {
  CHECK(moetune::network_file_system("/proc/no/such/place").empty());
  CHECK(moetune::network_file_system("").empty());
}

TEST_CASE("a network file system gets a rollback journal and a word to the user, a local disk WAL again") {
  const TempDir dir;
  const fs::path file = dir / "cache.db";
  {
    Cache cache = Cache::open(file, Cache::Mode::create);
    cache.trials.put(cache.workloads.id(workload_key()), trial(1));
  }
  CHECK(write_version(file) == 2);
  const std::string warning = reopen(file, "NFS");
  CHECK(warning.find("NFS, a network file system") != std::string::npos);
  CHECK(warning.find(file.string()) == 0);
  CHECK(write_version(file) == 1);
  CHECK_FALSE(fs::exists(file.string() + "-wal"));
  CHECK(reopen(file, "").empty());
  CHECK(write_version(file) == 2);
  const Cache cache = Cache::open(file, Cache::Mode::read_only);
  CHECK(cache.trials.of(cache.workloads.find(workload_key()).value()).size() == 1);
}

TEST_CASE(
    "the journal changes only when no other connection uses the file, and waits for that no longer than "
    "told") {
  const TempDir dir;
  const Cache other = Cache::open(dir / "cache.db", Cache::Mode::create);
  REQUIRE(other.workloads.all().empty());
  const Database database(dir / "cache.db", Database::Access::read_write, std::chrono::milliseconds(50));
  const std::string sentence = broken([&] { choose_journal(database, "NFS"); });
  CHECK(sentence.find("another process has held") == 0);
}

TEST_CASE("room for a file is told without leaving one; where it cannot be told there is room") {
  const TempDir dir;
  CHECK(has_room(dir.path(), 4096));
  CHECK_FALSE(has_room(dir.path(), std::size_t{1} << 60));
  CHECK(dir.content().empty());
  CHECK(has_room(dir / "none", 4096));
}
