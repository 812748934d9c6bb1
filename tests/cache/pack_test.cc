// Packs: winners alone, a manifest that names them all, and nobody who writes to one.
#include "cache/pack.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "cache/check.h"
#include "cache/file/database.h"
#include "tests/cache/support.h"

namespace pack_test {

using moetune::Cache;
using moetune::PackContents;
using namespace cache_test;

namespace {

moetune::WinnerRecord servable(int number) {
  moetune::WinnerRecord record = winner(number);
  record.interface = "interface";
  record.default_launch = winner(number + 1);
  record.default_launch.interface = "interface";
  record.stored_at = "2026-01-02T03:04:05Z";
  record.timings = R"({"alone": {"winner_us": 7}})";
  return record;
}

void add(Cache& cache, const moetune::WorkloadKey& key, const moetune::WinnerRecord& record,
         const std::string& family = "head_dim=128") {
  cache.winners.put(cache.workloads.id(key, family), record);
}

void fill(const fs::path& file) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  cache.trials.put(cache.workloads.id(workload_key(), "head_dim=128"), trial(0));
  cache.builds.put("d1", {"ok", "{}", "log", random_bytes(2'000, 1)});
  cache.trials.put_calibration(h200(), "read_tb_s", 4.6);
  add(cache, workload_key(), servable(1));
  add(cache, workload_key("batch=1"), servable(1));
  add(cache, workload_key("batch=2"), servable(3), "head_dim=64");
}

moetune::PackFilter only(const std::string& kernel, const std::string& part) {
  return {.takes = [kernel, part](const std::string& name, const moetune::HardwareKey& hardware) {
    return name == kernel && hardware.name.find(part) != std::string::npos;
  }};
}

PackContents make_pack(const fs::path& cache, const fs::path& pack, const moetune::PackFilter& filter = {}) {
  return moetune::export_pack(Cache::open(cache, Cache::Mode::read_only), pack, filter);
}

}  // namespace

TEST_CASE("a pack holds the winners as the cache does, and nothing else") {
  const TempDir dir;
  fill(dir / "cache.db");
  const PackContents made = make_pack(dir / "cache.db", dir / "h200.pack");
  CHECK(made.winners == 3);
  CHECK(made.families == 2);
  CHECK(made.bytes == static_cast<std::int64_t>(fs::file_size(dir / "h200.pack")));
  CHECK(dir.content().size() == 2);  // nothing is left beside them

  const Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_only);
  const Cache pack = Cache::open(dir / "h200.pack", Cache::Mode::read_only);
  REQUIRE(pack.manifest() != nullptr);
  CHECK(cache.manifest() == nullptr);
  CHECK(pack.manifest()->families.size() == 2);
  CHECK(summary_of(pack).trials == 0);
  CHECK(summary_of(pack).builds == 0);
  CHECK(check_cache(pack).empty());
  for (const char* family : {"head_dim=128", "head_dim=64"}) {
    const auto packed = pack.winners.of_family("decode_attention", family).sound;
    const auto stored = cache.winners.of_family("decode_attention", family).sound;
    REQUIRE(packed.size() == stored.size());
    for (const auto& one : packed) {
      const auto again = pack.winners.find(one.workload.id).value();
      const auto original = cache.winners.find(cache.workloads.find(one.workload.key).value()).value();
      CHECK(again.config == original.config);
      CHECK(again.plan == original.plan);
      CHECK(again.cubin == original.cubin);
      CHECK(again.default_launch.cubin == original.default_launch.cubin);
      CHECK(again.time_us == original.time_us);
      CHECK(again.stored_at == "2026-01-02T03:04:05Z");
    }
  }
}

TEST_CASE("what no server may launch is left out and counted") {
  const TempDir dir;
  {
    Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
    add(cache, workload_key("batch=1"), servable(1));
    moetune::WinnerRecord contended = servable(2);
    contended.contended = true;
    add(cache, workload_key("batch=2"), contended);
    moetune::WorkloadKey recorded = workload_key("batch=3");
    recorded.hardware.origin = "recording";
    add(cache, recorded, servable(3));
    moetune::WinnerRecord older = servable(4);
    older.interface = "";
    add(cache, workload_key("batch=4"), older, "");
    add(cache, workload_key("batch=5"), servable(5));
    moetune::WinnerRecord provisional = servable(6);
    provisional.provenance = R"({"moetune":"0.1.0","provisional":true,"seed":1})";
    add(cache, workload_key("batch=6"), provisional);
    add(cache, workload_key("batch=7"), servable(7), "");  // all dimensions are free
  }
  raw_sql(dir / "cache.db", "UPDATE winners SET time_us = 1 WHERE workload = 5");
  const PackContents made = make_pack(dir / "cache.db", dir / "out.pack");
  CHECK(made.winners == 2);
  CHECK(made.contended == 1);
  CHECK(made.provisional == 1);
  CHECK(made.recorded == 1);
  CHECK(made.without_family == 1);
  CHECK(made.damaged == 1);
}

TEST_CASE("a pack's filters") {
  const TempDir dir;
  fill(dir / "cache.db");
  CHECK(make_pack(dir / "cache.db", dir / "a.pack", only("decode_attention", "H200")).winners == 3);
  CHECK_THROWS_WITH_AS(make_pack(dir / "cache.db", dir / "b.pack", only("router", "")),
                       doctest::Contains("there is no winner and no range table to export"), moetune::BadInput);
  CHECK_THROWS_AS(make_pack(dir / "cache.db", dir / "b.pack", only("decode_attention", "B200")), moetune::BadInput);
  CHECK_FALSE(fs::exists(dir / "b.pack"));
}

TEST_CASE("a cache of range tables alone makes a pack") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create)
      .ranges.put({"decode_attention", "f", h200(), "s", "t"}, {"table", "", {winner(1)}, "", "{}"});
  const PackContents made = make_pack(dir / "cache.db", dir / "out.pack");
  CHECK(made.winners == 0);
  CHECK(made.ranges == 1);
  const Cache pack = Cache::open(dir / "out.pack", Cache::Mode::read_only);
  CHECK(pack.ranges.of_family("decode_attention", "f").size() == 1);
  CHECK(check_cache(pack).empty());
}

TEST_CASE("a pack replaces a pack and nothing else") {
  const TempDir dir;
  fill(dir / "cache.db");
  make_pack(dir / "cache.db", dir / "out.pack");
  CHECK(make_pack(dir / "cache.db", dir / "out.pack", only("decode_attention", "")).winners == 3);
  write_file(dir / "notes.txt", "mine");
  fs::create_symlink(dir / "nowhere", dir / "link");
  for (const char* occupied : {"notes.txt", "cache.db", "link"}) {
    const auto before = dir.content();
    CHECK_THROWS_AS(make_pack(dir / "cache.db", dir / occupied), moetune::BadInput);
    CHECK(dir.content() == before);
  }
  CHECK(broken([&] { make_pack(dir / "cache.db", dir / "none" / "out.pack"); }).find("cannot write") !=
        std::string::npos);
}

TEST_CASE("a pack is only read, also on a file system that lets nobody write") {
  const TempDir dir;
  fill(dir / "cache.db");
  make_pack(dir / "cache.db", dir / "out.pack");
  for (const Cache::Mode mode : {Cache::Mode::create, Cache::Mode::read_write}) {
    CHECK(broken([&] { Cache::open(dir / "out.pack", mode); }).find("is a pack, which is only read") !=
          std::string::npos);
  }
  const auto before = dir.content();
  {
    const Cache pack = Cache::open(dir / "out.pack", Cache::Mode::read_only);
    CHECK(pack.winners.of_family("decode_attention", "head_dim=64").sound.size() == 1);
    CHECK(dir.content() == before);
  }
  CHECK(dir.content() == before);
}

TEST_CASE("a pack whose winners are not those of its manifest hands out none of the family") {
  const TempDir dir;
  fill(dir / "cache.db");
  make_pack(dir / "cache.db", dir / "sound.pack");
  for (const std::string& change : std::vector<std::string>{
           "DELETE FROM winners WHERE workload = 1", "UPDATE winners SET time_us = 1 WHERE workload = 1",
           "UPDATE workloads SET family = 'head_dim=128'",
           "UPDATE winners SET digest = (SELECT digest FROM winners WHERE workload = 3) WHERE workload = "
           "2"}) {
    CAPTURE(change);
    fs::copy_file(dir / "sound.pack", dir / "out.pack", fs::copy_options::overwrite_existing);
    raw_sql(dir / "out.pack", change);
    const Cache pack = Cache::open(dir / "out.pack", Cache::Mode::read_only);
    CHECK(broken([&] { pack.winners.of_family("decode_attention", "head_dim=128"); }).find("was altered") !=
          std::string::npos);
    CHECK_FALSE(check_cache(Cache::open(dir / "out.pack", Cache::Mode::inspect)).empty());
  }
}

TEST_CASE("of a family that a pack's manifest does not name nothing is handed out, sound as it is") {
  const TempDir dir;
  fill(dir / "cache.db");
  make_pack(dir / "cache.db", dir / "before.pack");
  {
    Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
    add(cache, workload_key("batch=3"), servable(1), "head_dim=32");
  }
  make_pack(dir / "cache.db", dir / "out.pack");
  raw_sql(dir / "out.pack", "ATTACH '" + (dir / "before.pack").string() +
                                "' AS older; UPDATE pack SET (manifest, digest) = (SELECT manifest, digest FROM"
                                " older.pack)");
  const Cache pack = Cache::open(dir / "out.pack", Cache::Mode::read_only);
  CHECK_FALSE(pack.winners.of_family("decode_attention", "head_dim=128").sound.empty());
  CHECK(says(broken([&] { pack.winners.of_family("decode_attention", "head_dim=32"); }), "was altered"));
}

TEST_CASE("a manifest that was changed, or is of a newer moetune, is refused when the pack is opened") {
  const TempDir dir;
  fill(dir / "cache.db");
  make_pack(dir / "cache.db", dir / "sound.pack");
  const auto refused = [&](const std::string& sql, const std::string& words) {
    fs::copy_file(dir / "sound.pack", dir / "out.pack", fs::copy_options::overwrite_existing);
    {
      const moetune::Database database(dir / "out.pack", moetune::Database::Access::read_write,
                                       std::chrono::seconds(5));
      database.execute(sql);
    }
    const std::string sentence = broken([&] { Cache::open(dir / "out.pack", Cache::Mode::read_only); });
    CHECK_MESSAGE(sentence.find(words) != std::string::npos, sentence);
  };
  refused("UPDATE pack SET manifest = replace(manifest, '\"winners\":2', '\"winners\":3')", "is damaged");
  refused("UPDATE pack SET digest = 'x'", "is damaged");
  const std::string sealed = "; UPDATE pack SET digest = moetune_digest(manifest)";
  refused("UPDATE pack SET manifest = replace(manifest, '\"moetune_pack\":1', '\"moetune_pack\":2')" + sealed,
          "is of version 2; this moetune reads 1");
  refused("UPDATE pack SET manifest = '[]'" + sealed, "is none of moetune's");
  refused("UPDATE pack SET manifest = '" + std::string(100'000, '[') + "'" + sealed, "nested more than");
}

TEST_CASE("an export that is killed leaves no folder, and what it may leave goes with a later one") {
  const TempDir dir;
  {
    Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
    for (int i = 0; i < 20; ++i) {
      moetune::WinnerRecord one = servable(i);
      one.cubin = random_bytes(200'000, static_cast<std::uint64_t>(i));
      cache.winners.put(cache.workloads.id(workload_key("batch=" + std::to_string(i)), "f"), one);
    }
  }
  for (int delay_ms = 1; delay_ms < 200; delay_ms += 10) {
    const pid_t child = start([&] {
      const Cache cache = Cache::open(dir / "a.db", Cache::Mode::read_only);
      for (;;) moetune::export_pack(cache, dir / "a.pack", {});
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  for (const auto& file : fs::directory_iterator(dir.path())) {
    CHECK_FALSE(file.is_directory());
    CHECK(file.path().filename().string().starts_with("a."));
  }
  const std::string young = (dir / "a.pack.AbCdEf.tmp").string(), old = (dir / "a.pack.GhIjKl.tmp").string();
  write_file(young, "of one that works");
  write_file(old, "of one that was killed");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  moetune::export_pack(Cache::open(dir / "a.db", Cache::Mode::read_only), dir / "a.pack", {});
  CHECK(fs::exists(young));
  CHECK_FALSE(fs::exists(old));
  CHECK(check_cache(Cache::open(dir / "a.pack", Cache::Mode::inspect)).empty());
}

}  // namespace pack_test
