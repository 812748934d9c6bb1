// Files that change while a family is read of them.
#include "runtime/layers.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <thread>

#include "base/digest.h"
#include "kernels/registry.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

using namespace moetune;
using namespace moetune::testing;

namespace fs = std::filesystem;

TEST_CASE("a file that is changed after it was opened is read as it is then") {
  constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
  const Kernel& kernel = find_kernel("decode_attention");
  const std::string family = kernel.specialization(kernel.parse(kProblem)).text();
  const Folder folder;
  const fs::path file = folder / "cache.db";
  store(file, {{kProblem, plain_config(32)}});
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  const TrustedKeys nobody;
  Layers layers({file}, nobody, std::chrono::milliseconds(30));
  REQUIRE_FALSE(fs::exists(folder / "cache.db-shm"));
  const StoredFamily before = layers.family(kernel.name(), family, false);
  REQUIRE(before.winners.size() == 1);
  CHECK(before.winners[0].record.config == plain_config(32));
  const std::string old_cubin = before.winners[0].record.cubin_digest;

  bool replaced = false;
  SUBCASE("by a writer") { store(file, {{.problem = kProblem, .config = plain_config(64), .time_us = 5}}); }
  SUBCASE("by another file in its place, where the same number is another cubin") {
    store(folder / "other.db", {{kProblem, plain_config(64)}});
    fs::rename(folder / "other.db", file);
    replaced = true;
  }
  CHECK(digest(layers.cubin(0, old_cubin)) == old_cubin);  // what the family was read to need
  const StoredFamily after = layers.family(kernel.name(), family, false);
  REQUIRE(after.winners.size() == 1);
  CHECK(after.winners[0].record.config == plain_config(64));
  CHECK(digest(layers.cubin(0, after.winners[0].record.cubin_digest)) == after.winners[0].record.cubin_digest);
  if (replaced) CHECK_THROWS_AS(layers.cubin(0, old_cubin), BrokenEnvironment);
  CHECK(layers.warnings().empty());
}

TEST_CASE("a settled file that is gone is a BrokenEnvironment of its cubins") {
  const Folder folder;
  const fs::path file = folder / "cache.db";
  store(file, {{"batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16", plain_config(32)}});
  const TrustedKeys nobody;
  Layers layers({file}, nobody, std::chrono::milliseconds(0));
  fs::remove(file);
  CHECK_THROWS_AS(layers.cubin(0, "of no file"), BrokenEnvironment);
}
