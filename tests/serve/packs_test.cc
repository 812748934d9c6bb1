// The packs of a service: what is published and signed, when, and who gets what.
#include <atomic>
#include <fstream>

#include "base/error.h"
#include "base/regular_file.h"
#include "cache/file/database.h"
#include "serve/api/pack_shelf.h"
#include "tests/paths.h"
#include "tests/serve/running_service.h"
#include "tests/serve/scripted_driver.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

namespace fs = std::filesystem;

const Json kSearch = {{"kernel", "decode_kernel"}, {"problem", "elements=1024"}, {"budget", 1}};

void serve_packs(RunningService& running) {
  fs::create_directory(running.folder / "packs");
  running.options.devices = {"cuda:0"};
  running.options.threads = 1;
  running.options.packs = (running.folder / "packs").string();
}

std::vector<PackSignature> signatures(const fs::path& pack) {
  const auto text = find_regular_file(signature_path(pack), kMostSignatureBytes);
  return text ? parse_signatures(*text, "the signature") : std::vector<PackSignature>{};
}

bool is_signed_by(const fs::path& pack, const fs::path& key) {
  const auto bytes = find_regular_file(pack, kMostPackBytes);
  return bytes && !signatures(pack).empty() &&
         TrustedKeys({key.string() + ".pub"}).why_refused(*bytes, signatures(pack)).empty();
}

// A cache with winners of the scripted GPU, made once.
CacheChoice tuned_cache(RunningService& running) {
  running.options.devices = {"cuda:0"};
  running.options.threads = 1;
  running.start();
  REQUIRE(running.ended(running.submit(kSearch)["id"])["state"] == "done");
  running.service.reset();
  return running.options.cache;
}

}  // namespace

TEST_CASE("service.pack is signed by the key of now, whenever the pack was made, and keeps the keys of before") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  serve_packs(running);
  const fs::path pack = running.folder / "packs/service.pack", one = running.folder / "one",
                 two = running.folder / "two";
  make_key_files(one);
  make_key_files(two);
  running.start();
  REQUIRE(running.ended(running.submit(kSearch)["id"])["state"] == "done");
  REQUIRE(within_a_while([&] { return fs::exists(pack); }));
  CHECK(running.get("/v1/packs")["packs"][0]["signed"] == false);
  running.options.sign_key = one.string();
  running.restart();
  CHECK(within_a_while([&] { return is_signed_by(pack, one); }));
  CHECK(running.get("/v1/packs")["packs"][0]["signed"] == true);
  running.options.sign_key = two.string();
  running.restart();
  CHECK(within_a_while([&] { return is_signed_by(pack, two); }));
  CHECK(is_signed_by(pack, one));
  Json other = kSearch;
  other["problem"] = "elements=2048";
  const std::string before = read_regular_file(pack, kMostPackBytes);
  REQUIRE(running.ended(running.submit(other)["id"])["state"] == "done");
  CHECK(within_a_while([&] { return read_regular_file(pack, kMostPackBytes) != before; }));
  CHECK(within_a_while([&] { return is_signed_by(pack, two) && signatures(pack).size() == 1; }));
}

TEST_CASE("a pack that is too large is an event, and the next one is published") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  serve_packs(running);
  running.options.most_pack_bytes = 1000;
  running.start();
  REQUIRE(running.ended(running.submit(kSearch)["id"])["state"] == "done");
  const std::string events = running.events_until(
      [](const std::string& text) { return text.find("the cache's winners make a pack of") != std::string::npos; });
  CHECK(events.find("\"warning\":\"packs\"") != std::string::npos);
  CHECK(fs::is_empty(running.folder / "packs"));
  running.options.most_pack_bytes = kMostPackBytes;
  running.restart();  // at the start, without a job
  CHECK(within_a_while([&] { return fs::exists(running.folder / "packs/service.pack"); }));
}

TEST_CASE("a job that changed no winner exports nothing") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  const CacheChoice cache = tuned_cache(running);
  const fs::path packs = running.folder / "packs";
  fs::create_directory(packs);
  PackShelf shelf(packs);
  REQUIRE(shelf.publish(cache, {}));
  // An export would find the damage: it leaves the winner out, and none is left.
  Database(cache.file(), Database::Access::read_write, std::chrono::seconds(5))
      .execute("UPDATE cubins SET frame = zeroblob(40)");
  CHECK_FALSE(shelf.publish(cache, {}));
  fs::remove(packs / "service.pack");
  CHECK_FALSE(shelf.publish(cache, {}));  // it looked again, and there is no sound winner
  CHECK(fs::is_empty(packs));
}

TEST_CASE("a cache that has lost its winners leaves service.pack, and the log says so") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  const CacheChoice cache = tuned_cache(running);
  const fs::path packs = running.folder / "packs";
  fs::create_directory(packs);
  PackShelf shelf(packs);
  CHECK(shelf.publish(cache, {}));
  const std::string bytes = read_regular_file(packs / "service.pack", kMostPackBytes);
  {
    const std::unique_ptr<Cache> all = open_or_create_cache(cache);
    for (const Workload& workload : all->workloads.all()) all->workloads.forget(workload.id);
  }
  const std::string said = "there is no winner and no range table to export in " + cache.file().string() +
                           "; service.pack stays as it is, with the winners of before: remove it if nobody is "
                           "to get them";
  CHECK_THROWS_WITH_AS(shelf.publish(cache, {}), said.c_str(), BadInput);
  CHECK(read_regular_file(packs / "service.pack", kMostPackBytes) == bytes);
  running.options.packs = packs.string();
  running.start();
  const auto is_said = [&](const std::string& events) { return events.find(said) != events.npos; };
  CHECK(is_said(running.events_until(is_said)));
  running.service.reset();
  fs::remove(packs / "service.pack");
  CHECK_FALSE(shelf.publish(cache, {}));  // as before the first winner
  CHECK(fs::is_empty(packs));
}

TEST_CASE("a winner of a recording enters no service.pack, of a service of recordings either") {
  RunningService running;
  running.options.devices = {"replay:decode_attention_h200_b8_c4096"};
  running.options.threads = 1;
  running.options.packs = (running.folder / "packs").string();
  fs::create_directory(running.options.packs);
  running.start();
  const Json search = {{"kernel", "decode_attention"}, {"problem", "batch=8,q_heads=32,context=4096"}, {"budget", 1}};
  const Json job = running.ended(running.submit(search)["id"]);
  REQUIRE(job["state"] == "done");
  CHECK(job["result"]["compiled"] == true);  // so that a pack could hold it
  running.service.reset();
  CHECK(fs::is_empty(running.options.packs));
  PackShelf shelf(running.options.packs);
  CHECK_FALSE(shelf.publish(running.options.cache, ""));
  CHECK(fs::is_empty(running.options.packs));
}

TEST_CASE("one service publishes into a folder, and others serve it") {
  RunningService first, second;
  const std::string packs = (first.folder / "packs").string();
  fs::create_directory(packs);
  first.options.packs = second.options.packs = packs;
  first.start();
  CHECK_THROWS_WITH_AS(second.start(),
                       ("another service publishes its winners into " + packs +
                        "; stop it, or give this one a folder of its own or --no-publish")
                           .c_str(),
                       BrokenEnvironment);
  second.options.publish = false;
  second.start();
  second.service.reset();
  first.service.reset();
  second.options.publish = true;
  second.start();
}

TEST_CASE("publishers of one folder do not take each other's unfinished packs") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  const CacheChoice cache = tuned_cache(running);
  const fs::path packs = running.folder / "packs", old = packs / "service.pack.AbCdEf.tmp",
                 young = packs / "service.pack.GhIjKl.tmp";
  fs::create_directory(packs);
  std::ofstream(old) << "of one that was killed";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  std::ofstream(young) << "of one that works";
  std::atomic<int> failed{0};
  std::vector<std::thread> publishers;
  for (int i = 0; i < 3; ++i)
    publishers.emplace_back([&] {
      PackShelf shelf(packs);  // of a process of its own, say: they share no mutex
      for (int times = 0; times < 5; ++times) {
        try {
          shelf.publish(cache, {});
        } catch (const std::exception&) {
          ++failed;
        }
      }
    });
  for (std::thread& publisher : publishers) publisher.join();
  CHECK(failed == 0);
  CHECK(fs::exists(packs / "service.pack"));
  CHECK_FALSE(fs::exists(old));
  CHECK(read_regular_file(young, 100) == "of one that works");
  CHECK(std::distance(fs::directory_iterator(packs), fs::directory_iterator()) == 2);
}

TEST_CASE("packs and winners are not sent again if they are known") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  serve_packs(running);
  fs::copy_file(paths::source("packs/h200.pack"), running.folder / "packs/h200.pack");
  running.start();
  REQUIRE(running.ended(running.submit(kSearch)["id"])["state"] == "done");
  REQUIRE(within_a_while([&] { return running.get("/v1/packs")["packs"].size() == 2; }));

  const auto asked_again = [&](const std::string& path) {
    HttpRequest request = running.request("GET", path);
    request.headers.emplace_back("If-None-Match", running.ask("GET", path).header("etag"));
    const HttpResponse again = http_request(request);
    CHECK(again.body.empty());
    return again.status;
  };
  for (const char* path : {"/v1/winners", "/v1/packs", "/v1/packs/h200.pack", "/page/live.js"})
    CHECK_MESSAGE(asked_again(path) == 304, path);
  const std::string tag = running.ask("GET", "/v1/winners").header("etag");
  Json other = kSearch;
  other["problem"] = "elements=2048";
  REQUIRE(running.ended(running.submit(other)["id"])["state"] == "done");
  CHECK(running.ask("GET", "/v1/winners").header("etag") != tag);

  // A pack that is replaced is what is sent, with its own digest.
  const HttpResponse before = running.ask("GET", "/v1/packs/h200.pack");
  fs::copy_file(running.folder / "packs/service.pack", running.folder / "packs/.new");
  fs::rename(running.folder / "packs/.new", running.folder / "packs/h200.pack");
  const HttpResponse after = running.ask("GET", "/v1/packs/h200.pack");
  CHECK(after.body == read_regular_file(running.folder / "packs/h200.pack", kMostPackBytes));
  CHECK(after.header("etag") != before.header("etag"));

  // One that is overwritten in place is read anew, too: this one is damaged then.
  std::fstream(running.folder / "packs/h200.pack", std::ios::in | std::ios::out | std::ios::binary) << "damaged";
  CHECK(running.ask("GET", "/v1/packs/h200.pack").status == 404);
}

TEST_CASE("packs that are links, as Kubernetes fills a volume, are listed and served, and their signatures") {
  RunningService running;
  const fs::path volume = running.folder / "volume", old = volume / "..2026_11_27", next = volume / "..2026_11_28";
  fs::create_directories(old);
  fs::create_directories(next);
  make_key_files(running.folder / "key");
  const std::string bytes = read_regular_file(paths::source("packs/h200.pack"), kMostPackBytes);
  const std::string signature = signatures_text({sign_pack(read_secret_key(running.folder / "key"), bytes)});
  std::ofstream(old / "h200.pack", std::ios::binary) << bytes;
  std::ofstream(old / "h200.pack.sig") << signature;
  fs::create_symlink(old.filename(), volume / "..data");
  for (const char* name : {"h200.pack", "h200.pack.sig"}) fs::create_symlink(fs::path("..data") / name, volume / name);
  fs::create_symlink("nowhere", volume / "dangling.pack");
  running.options.packs = volume.string();
  running.options.publish = false;
  running.start();
  const Json packs = running.get("/v1/packs")["packs"];
  REQUIRE(packs.size() == 1);
  CHECK(packs[0]["signed"] == true);
  CHECK(running.ask("GET", "/v1/packs/h200.pack").body == bytes);
  CHECK(running.ask("GET", "/v1/packs/h200.pack/signature").body == signature);
  // The volume changes as a whole: a link is replaced.
  std::ofstream(next / "h200.pack", std::ios::binary) << "no pack";
  fs::create_symlink(next.filename(), volume / "..tmp");
  fs::rename(volume / "..tmp", volume / "..data");
  CHECK(running.get("/v1/packs")["packs"].empty());
  CHECK(running.ask("GET", "/v1/packs/h200.pack").status == 404);
}
