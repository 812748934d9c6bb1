// What a refresh may meet, and what it must leave alone: files that change under a server, and states by name.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "cache/file/database.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "runtime/runtime.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::refresh_test {
using namespace testing;

namespace {

namespace fs = std::filesystem;

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";
constexpr const char* kOtherProblem = "batch=2,q_heads=8,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kOtherFamily = "group=8,head_dim=64,page=16";

std::string config_at_512(const Opened& opened, moetune_family* family) {
  const std::int64_t extents[] = {2, 1, 512};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, extents, 3, 0, &choice));
  return opened.explain(family, choice)["config"];
}

// Files of a folder that this process has open.
int open_files_below(const fs::path& folder) {
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    count += fs::read_symlink(entry.path(), closed).string().starts_with(folder.string() + "/");
  }
  return count;
}

// Stores a winner whose default's cubin is damaged, of a default that nothing else is.
void store_with_damaged_default(const fs::path& file, const std::string& config) {
  const Kernel& kernel = find_kernel("decode_attention");
  const Problem problem = kernel.parse(kProblem);
  const auto space_default =
      shared_space(kernel.name()).default_config(expression_environment(problem, fake_device().limits));
  store(file, {{.problem = kProblem, .config = config, .default_config = space_default->text(), .time_us = 5}});
  Database(file, Database::Access::read_write, std::chrono::seconds(5))
      .execute("UPDATE cubins SET frame = zeroblob(40) WHERE id = (SELECT max(fallback_cubin) FROM winners)");
}

}  // namespace

TEST_CASE("no file stays open between calls, so that none cut short can kill the server") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  store(folder / "good.db", {{kProblem, plain_config(32)}});
  const Opened opened({folder / "cache.db", folder / "good.db"});
  CHECK(open_files_below(folder / "") == 0);
  moetune_family* const family = opened.family(kFamily);
  CHECK(open_files_below(folder / "") == 0);
  std::ofstream(folder / "cache.db-shm", std::ios::trunc).close();
  CHECK_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(config_at_512(opened, family) == plain_config());
  std::ofstream(folder / "cache.db-shm", std::ios::trunc).close();
  moetune_family* other = nullptr;
  CHECK(moetune_family_open(opened.runtime(), "decode_attention", kOtherFamily, &other) == MOETUNE_NOT_TUNED);
  CHECK(open_files_below(folder / "") == 0);

  fs::resize_file(folder / "cache.db", 5000);
  CHECK_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(config_at_512(opened, family) == plain_config(32));  // the other file's
  CHECK(opened.warnings().find("cache.db") != std::string::npos);
  fs::remove(folder / "cache.db");
  CHECK_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(opened.warnings().find("there is no cache at") != std::string::npos);
  CHECK(config_at_512(opened, family) == plain_config(32));
}

TEST_CASE("a refresh that fails leaves every family as it was") {
  const Folder folder;
  store(folder / "a.db", {{kProblem, plain_config(32)}});
  store(folder / "b.db", {{kOtherProblem}});
  const Opened opened({folder / "a.db", folder / "b.db"});
  moetune_family* const first = opened.family(kOtherFamily);
  moetune_family* const second = opened.family(kFamily);
  const std::string before = opened.generation();
  store(folder / "b.db", {{.problem = kOtherProblem, .config = plain_config(32), .time_us = 5}});
  store_with_damaged_default(folder / "a.db", plain_config(64));
  const bool refused = moetune_refresh(opened.runtime(), nullptr) != MOETUNE_OK;
  CHECK((opened.generation() == before) == refused);
  CHECK(config_at_512(opened, first) == plain_config(refused ? 64 : 32));
  CHECK(config_at_512(opened, second) == plain_config(refused ? 32 : 64));
}

TEST_CASE("a state that needs more workspace than was promised since is refused") {
  const Folder folder;
  std::string split = plain_config(32);
  split.replace(split.find("splits=1,combine=none"), 21, "splits=8,combine=last_cta");
  store(folder / "cache.db", {{.problem = kProblem, .config = split, .time_us = 20}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::string splitting = opened.generation();
  store(folder / "cache.db", {{kProblem}});
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  const std::string plain = opened.generation();
  REQUIRE_OK(moetune_refresh(opened.runtime(), splitting.c_str()));  // nothing is promised yet
  CHECK(config_at_512(opened, family) == split);
  REQUIRE_OK(moetune_refresh(opened.runtime(), plain.c_str()));

  const std::int64_t extents[] = {2, 1, 512};
  std::size_t promised = 0;
  REQUIRE_OK(moetune_family_workspace(family, extents, 3, &promised));
  CHECK(promised == MOETUNE_WORKSPACE_COUNTERS);
  CHECK(moetune_refresh(opened.runtime(), splitting.c_str()) == MOETUNE_OUT_OF_MEMORY);
  CHECK(says("from before a workspace was promised"));
  CHECK(opened.generation() == plain);
  CHECK(config_at_512(opened, family) == plain_config());
}

TEST_CASE("a state's name says what every family serves, in whatever order they were opened") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}, {kOtherProblem}});
  const Opened opened({folder / "cache.db"}), other({folder / "cache.db"});
  opened.family(kFamily);
  const std::string one_family = opened.generation();
  moetune_family* const second = opened.family(kOtherFamily);
  const std::string both = opened.generation();
  other.family(kOtherFamily);
  other.family(kFamily);
  CHECK(other.generation() == both);

  store(folder / "cache.db", {{.problem = kOtherProblem, .config = plain_config(32), .time_us = 5}});
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  const std::string later = opened.generation();
  CHECK(moetune_refresh(opened.runtime(), one_family.c_str()) == MOETUNE_UNKNOWN_NAME);
  CHECK(says("group=8"));
  CHECK(opened.generation() == later);
  CHECK(config_at_512(opened, second) == plain_config(32));
  REQUIRE_OK(moetune_refresh(opened.runtime(), both.c_str()));
  CHECK(config_at_512(opened, second) == plain_config());
}

TEST_CASE("a refresh of unchanged files, or back to a state that was, keeps no new table") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  fake_device();
  Runtime runtime({.paths = {folder / "cache.db"}, .device = 0});
  const Family& family = runtime.family("decode_attention", kFamily);
  const DispatchTable* const first = family.table();
  runtime.refresh("");
  CHECK(family.table() == first);
  store(folder / "cache.db", {{.problem = kProblem, .config = plain_config(32), .time_us = 5}});
  runtime.refresh("");
  CHECK(family.table() != first);
  runtime.refresh(runtime.prepare());
  const DispatchTable* const second = family.table();
  runtime.refresh("");
  CHECK(family.table() == second);
}

TEST_CASE("a choice that was measured anew keeps the state's name, and explains its new time") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::string before = opened.generation();
  store(folder / "cache.db", {{.problem = kProblem, .time_us = 2}});
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(opened.generation() == before);
  const std::int64_t extents[] = {2, 1, 512};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, extents, 3, 1024, &choice));
  CHECK(opened.explain(family, choice)["time_us"] == 2);
}

TEST_CASE("a state is prepared while the present one serves, and taken by its name") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::string before = opened.generation();
  char prepared[33];
  REQUIRE_OK(moetune_prepare(opened.runtime(), prepared));
  CHECK(prepared == before);
  store(folder / "cache.db", {{.problem = kProblem, .config = plain_config(32), .time_us = 5}});
  REQUIRE_OK(moetune_prepare(opened.runtime(), prepared));
  CHECK(prepared != before);
  CHECK(opened.generation() == before);
  CHECK(config_at_512(opened, family) == plain_config());
  fs::remove(folder / "cache.db");  // what was prepared needs no file
  REQUIRE_OK(moetune_refresh(opened.runtime(), prepared));
  CHECK(opened.generation() == prepared);
  CHECK(config_at_512(opened, family) == plain_config(32));

  CHECK(moetune_prepare(opened.runtime(), prepared) == MOETUNE_BAD_FILE);
  CHECK(moetune_prepare(opened.runtime(), nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(config_at_512(opened, family) == plain_config(32));
}

TEST_CASE("the same warning is given once") {
  const Folder folder;
  store(folder / "stale.db", {{.problem = kProblem, .interface = "of another version"}});
  const Opened opened({folder / "stale.db", folder / "missing.db"});
  moetune_family* family = nullptr;
  const auto open = [&] { return moetune_family_open(opened.runtime(), "decode_attention", kFamily, &family); };
  CHECK(open() == MOETUNE_NOT_TUNED);
  const std::string once = opened.warnings();
  CHECK(once.find("stale.db") != std::string::npos);
  CHECK(once.find("missing.db") != std::string::npos);
  for (int i = 0; i < 3; ++i) CHECK(open() == MOETUNE_NOT_TUNED);
  CHECK(opened.warnings() == once);
}

}  // namespace moetune::refresh_test
