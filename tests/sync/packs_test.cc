// Packs from a service: whole and right, or not at all.
#include <doctest/doctest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>

#include "base/error.h"
#include "cache/pack_signature.h"
#include "sync/pack_folder.h"
#include "tests/sync/support.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

bool warns(const SyncRound& round, const std::string& words) {
  for (const std::string& warning : round.warnings) {
    if (warning.find(words) != std::string::npos) return true;
  }
  return false;
}

std::string signature_by(const fs::path& key, const std::string& bytes) {
  return signatures_text({sign_pack(read_secret_key(key), bytes)});
}

// The names under which files are put in place in a folder, in their order.
class RenamesWatch {
 public:
  explicit RenamesWatch(const fs::path& folder) : watch_(::inotify_init1(IN_NONBLOCK)) {
    ::inotify_add_watch(watch_, folder.c_str(), IN_MOVED_TO);
  }
  ~RenamesWatch() { ::close(watch_); }

  Names seen() const {
    Names names;
    alignas(inotify_event) std::array<char, 4096> bytes;
    const ssize_t size = ::read(watch_, bytes.data(), bytes.size());
    for (ssize_t at = 0; at < size;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
      names.emplace_back(event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    return names;
  }

 private:
  const int watch_;
};

// What one entry of the list, altered, leads to.
SyncRound with_entry(const nlohmann::json& changes, const SyncFolder& folder) {
  FakeService service;
  service.packs["a.pack"] = real_pack();
  nlohmann::json list = service.list();
  list["packs"][0].update(changes);
  service.answers["/v1/packs"] = http_answer(200, list.dump());
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  return sync_once(server, folder);
}

}  // namespace

TEST_CASE("a pack is installed once, replaced when it changes, and nothing else is left in the folder") {
  const SyncFolder folder;
  FakeService service;
  service.packs["h200.pack"] = real_pack();
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  SyncRound round = sync_once(server, folder);
  CHECK(round.failure == "");
  CHECK(round.installed == Names{"h200.pack"});
  CHECK(folder.visible() == Names{"h200.pack"});
  CHECK(folder.read("h200.pack") == real_pack());

  round = sync_once(server, folder);
  CHECK(round.installed.empty());
  CHECK(server.requests().back().has("If-None-Match: \"1\""));
  CHECK(server.requests().size() == 3);  // list, pack, list

  service.packs["h200.pack"] = other_pack();
  service.etag = "\"2\"";
  CHECK(sync_once(server, folder).installed == Names{"h200.pack"});
  CHECK(folder.read("h200.pack") == other_pack());
  fs::remove(folder / "h200.pack");  // by hand: it comes again, though the list is unchanged
  CHECK(sync_once(server, folder).installed == Names{"h200.pack"});
  service.packs.clear();
  service.etag = "\"3\"";
  sync_once(server, folder);
  CHECK(folder.visible() == Names{"h200.pack"});  // what is no longer listed stays
}

TEST_CASE("a signature that the service says it has, and has not, is no reason to install a pack again") {
  const SyncFolder folder;
  FakeService service;
  service.packs["a.pack"] = real_pack();
  nlohmann::json list = service.list();
  list["packs"][0]["signed"] = true;
  service.answers["/v1/packs"] = http_answer(200, list.dump());
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  CHECK(sync_once(server, folder).installed == Names{"a.pack"});
  const SyncRound again = sync_once(server, folder);
  CHECK(again.failure == "");
  CHECK(again.installed.empty());
  CHECK(folder.read("a.pack") == real_pack());
}

TEST_CASE("a state with a list that is none is forgotten, so that the next round asks for it anew") {
  const SyncFolder folder;
  FakeService service;
  service.packs["a.pack"] = real_pack();
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  folder.write(".moetune-sync.json", R"({"moetune_sync": 1, "installed": {}, "etag": "\"1\"", "list": "[]"})");
  CHECK(sync_once(server, folder).failure.find("the service's list") != std::string::npos);
  const SyncRound next = sync_once(server, folder);
  CHECK(next.failure == "");
  CHECK(next.installed == Names{"a.pack"});
}

TEST_CASE("with a trusted key only what it signed is installed, with its signature") {
  const SyncFolder keys, folder;
  make_key_files(keys / "key");
  make_key_files(keys / "other");
  const Names trusted = {(keys / "key.pub").string()};
  FakeService service;
  service.packs = {{"a.pack", real_pack()}, {"b.pack", real_pack()}, {"c.pack", real_pack()}, {"d.pack", other_pack()}};
  service.signatures = {{"a.pack", signature_by(keys / "key", real_pack())},
                        {"b.pack", signature_by(keys / "other", real_pack())},
                        {"d.pack", signature_by(keys / "key", real_pack())}};
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  SyncRound round = sync_once(server, folder, trusted);
  CHECK(round.installed == Names{"a.pack"});
  CHECK(folder.visible() == Names{"a.pack", "a.pack.sig"});
  CHECK(TrustedKeys(trusted).read(folder / "a.pack") == real_pack());
  CHECK(warns(round, "b.pack is not installed: it is signed by"));
  CHECK(warns(round, "c.pack is not installed: it is not signed"));
  CHECK(warns(round, "d.pack is not installed: it does not match its signature"));

  service.packs["a.pack"] = other_pack();
  service.signatures["a.pack"] = signature_by(keys / "key", other_pack());
  service.etag = "\"2\"";
  const RenamesWatch watch(folder.path());
  CHECK(sync_once(server, folder, trusted).installed == Names{"a.pack"});
  CHECK(TrustedKeys(trusted).read(folder / "a.pack") == other_pack());
  // A reader that verifies finds a pair at every moment.
  Names renamed = watch.seen();
  std::erase(renamed, ".moetune-sync.json");
  CHECK(renamed == Names{"a.pack.sig", "a.pack", "a.pack.sig"});
  CHECK(folder.read("a.pack.sig") == service.signatures["a.pack"]);
  fs::remove(folder / "a.pack.sig");
  sync_once(server, folder, trusted);
  CHECK(folder.read("a.pack.sig") == service.signatures["a.pack"]);
  service.signatures["a.pack"] = "moetune signature 1\n";
  fs::remove(folder / "a.pack.sig");
  CHECK(warns(sync_once(server, folder, trusted), "its signature is no signature"));
}

TEST_CASE("what is not as listed is not installed") {
  const SyncFolder folder;
  CHECK(warns(with_entry({{"sha256", std::string(64, '0')}}, folder), "another SHA-256"));
  CHECK(warns(with_entry({{"bytes", real_pack().size() + 1}}, folder), "is not what was listed"));
  CHECK(with_entry({{"bytes", real_pack().size() - 1}}, folder).failure.find("sends more than") != std::string::npos);
  CHECK(warns(with_entry({{"bytes", 0}}, folder), "0 bytes"));
  CHECK(warns(with_entry({{"bytes", std::uint64_t{1} << 40}}, folder), "a.pack has"));
  CHECK(warns(with_entry({{"sha256", "abc"}}, folder), "is none"));
  CHECK(warns(with_entry({{"sha256", std::string(64, 'A')}}, folder), "is none"));
  for (const char* name : {"../a.pack", "/tmp/a.pack", "a/b.pack", "a.db", ".pack", ".a.pack", "-a.pack", "a.pack\n",
                           "a b.pack", "", "a.pack.sig", "a\\b.pack", ".moetune-sync.json"})
    CHECK(warns(with_entry({{"name", name}}, folder), "is none"));
  CHECK(warns(with_entry({{"name", std::string(200, 'a') + ".pack"}}, folder), "is none"));
  CHECK(with_entry({{"bytes", -1}}, folder).failure.find("no whole number") != std::string::npos);
  CHECK(with_entry({{"bytes", 1.5}}, folder).failure.find("no whole number") != std::string::npos);
  CHECK(with_entry({{"name", 7}}, folder).failure.find("is no list of packs") != std::string::npos);
  CHECK(folder.visible().empty());
  CHECK_FALSE(fs::exists(folder.path().parent_path() / "a.pack"));
}

TEST_CASE("a list that is none, is huge or lists a pack twice") {
  const SyncFolder folder;
  FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  const auto failure = [&](const std::string& answer) {
    service.answers["/v1/packs"] = answer;
    return sync_once(server, folder).failure;
  };
  CHECK(failure(http_answer(200, "[]")).find("is no list of packs") != std::string::npos);
  CHECK(failure(http_answer(200, "{}")).find("is no list of packs") != std::string::npos);
  CHECK(failure(http_answer(200, R"({"packs":{}})")).find("holds no list") != std::string::npos);
  CHECK(failure(http_answer(200, std::string(200, '['))) != "");
  CHECK(failure(http_answer(200, "{\"packs\"")) != "");
  CHECK(failure(endless()).find("sends more than") != std::string::npos);
  CHECK(failure(http_answer(302, "", "Location: http://127.0.0.1:1/\r\n")).find("answers 302") != std::string::npos);
  CHECK(failure(http_answer(304, "")).find("answers 304") != std::string::npos);  // to no condition
  CHECK(failure(http_answer(404, "")).find("no list of packs") != std::string::npos);
  CHECK(failure("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") != "");
  CHECK(failure("no HTTP at all") != "");
  CHECK(failure("") != "");
  nlohmann::json many = {{"packs", nlohmann::json::array()}};
  for (int i = 0; i < 1001; ++i) many["packs"].push_back(1);
  CHECK(failure(http_answer(200, many.dump())).find("at most 1000") != std::string::npos);
  nlohmann::json large = {{"packs", nlohmann::json::array()}};
  for (int i = 0; i < 17; ++i)
    large["packs"].push_back(
        {{"name", std::to_string(i) + ".pack"}, {"sha256", std::string(64, '0')}, {"bytes", std::uint64_t{1} << 30}});
  CHECK(failure(http_answer(200, large.dump())).find("more than 16 GiB in all") != std::string::npos);
  service.packs["a.pack"] = real_pack();
  nlohmann::json twice = service.list();
  twice["packs"].push_back(twice["packs"][0]);
  service.answers["/v1/packs"] = http_answer(200, twice.dump());
  CHECK(warns(sync_once(server, folder), "lists a.pack twice"));
}

TEST_CASE("a pack that is no pack, or an unsound one, is not installed") {
  const SyncFolder folder;
  FakeService service;
  std::string damaged = real_pack();
  damaged[damaged.size() / 2] ^= 0x55;
  service.packs = {{"text.pack", "no database"},
                   {"damaged.pack", damaged},
                   {"cut.pack", real_pack().substr(0, real_pack().size() / 2)},
                   {"page.pack", real_pack().substr(0, 4096)}};
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  const SyncRound round = sync_once(server, folder);
  for (const auto& [name, bytes] : service.packs) CHECK(warns(round, name + " is not installed: it is not sound"));
  CHECK(round.installed.empty());
  CHECK(folder.visible().empty());
}

TEST_CASE("a file that sync did not install is left alone") {
  const SyncFolder folder;
  folder.write("a.pack", "mine");
  FakeService service;
  service.packs = {{"a.pack", real_pack()}, {"b.pack", real_pack()}};
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  const SyncRound round = sync_once(server, folder);
  CHECK(warns(round, "was not installed by sync"));
  CHECK(round.installed == Names{"b.pack"});
  CHECK(folder.read("a.pack") == "mine");
  folder.write(".moetune-sync.json", "{ damaged");  // then b is not known to be ours, and is as listed
  service.etag = "\"2\"";
  CHECK(sync_once(server, folder).installed.empty());
  service.packs["b.pack"] = other_pack();
  service.etag = "\"3\"";
  CHECK(sync_once(server, folder).failure == "");
}

TEST_CASE("a file that took a pack's place is another one, though it is as large") {
  const SyncFolder folder;
  FakeService service;
  service.packs = {{"a.pack", real_pack()}};
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  const ServiceClient client({.url = server.url()}, {});
  PackFolder packs(folder.path(), TrustedKeys());
  CHECK(packs.update(client).names == Names{"a.pack"});
  CHECK(packs.update(client).names.empty());
  folder.write("new", std::string(real_pack().size(), 'x'));
  fs::rename(folder / "new", folder / "a.pack");
  const InstalledPacks after = packs.update(client);
  CHECK(after.names.empty());
  REQUIRE(after.warnings.size() == 1);
  CHECK(after.warnings[0].find("was not installed by sync") != std::string::npos);
}

TEST_CASE("what a killed process left is taken away after an hour, and nothing else") {
  const SyncFolder folder;
  const std::vector<const char*> old = {"a.pack.AbCd12.tmp",
                                        "a.pack.sig.AbCd12.tmp",
                                        ".moetune-sync.json.AbCd12.tmp",
                                        "r0.misses.json.posted.AbCd12.tmp",
                                        "notes.AbCd12.tmp",
                                        "a.pack.1234567.tmp",
                                        "a.pack.backup",
                                        "a.pack.251125"};
  folder.write("b.pack.AbCd12.tmp", "x");
  for (const char* name : old) folder.write(name, "x");
  for (const char* name : old)
    fs::last_write_time(folder / name, fs::file_time_type::clock::now() - std::chrono::hours(2));
  FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  CHECK(sync_once(server, folder).failure == "");
  CHECK(folder.visible() ==
        Names{"a.pack.1234567.tmp", "a.pack.251125", "a.pack.backup", "b.pack.AbCd12.tmp", "notes.AbCd12.tmp"});
  CHECK_FALSE(fs::exists(folder / ".moetune-sync.json.AbCd12.tmp"));
}
