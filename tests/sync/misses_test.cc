// Miss files on their way to a service: once, as far as that can be, and never lost.
#include <doctest/doctest.h>

#include "tests/sync/support.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

using Names = std::vector<std::string>;
using Json = nlohmann::json;

// What the service got, by problem.
std::map<std::string, int> received(const ScriptedServer& server) {
  std::map<std::string, int> counts;
  for (const auto& request : server.requests()) {
    if (request.path != "/v1/misses") continue;
    CHECK(request.method == "POST");
    CHECK(request.has("Content-Type: application/json"));
    const Json body = Json::parse(request.body);
    for (const Json& miss : body["misses"]) {
      CHECK(miss["kernel"] == "decode_attention");
      CHECK(miss["hardware"] == "NVIDIA H200");
      counts[miss["problem"]] += miss["count"].get<int>();
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("misses are posted once, and what came since without what was posted") {
  const SyncFolder folder;
  const FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  folder.write_misses("misses.json", {{"batch=1", 5}, {"batch=2", 1}});
  folder.write_misses("rank1.misses.json", {{"batch=1", 2}});
  folder.write("notes.json", "not ours");
  SyncRound round = sync_once(server, folder);
  CHECK(round.miss_files == 2);
  CHECK(round.misses == 3);
  CHECK(received(server) == std::map<std::string, int>{{"batch=1", 7}, {"batch=2", 1}});
  CHECK(folder.visible() == Names{"misses.json.posted", "notes.json", "rank1.misses.json.posted"});
  CHECK(sync_once(server, folder).miss_files == 0);

  folder.write_misses("misses.json", {{"batch=1", 9}, {"batch=2", 1}, {"batch=3", 4}});  // the same runtime, later
  CHECK(sync_once(server, folder).misses == 2);
  CHECK(received(server) == std::map<std::string, int>{{"batch=1", 11}, {"batch=2", 1}, {"batch=3", 4}});
  folder.write_misses("misses.json", {{"batch=1", 1}, {"batch=3", 6}});  // another, which began at nothing
  sync_once(server, folder);
  CHECK(received(server) == std::map<std::string, int>{{"batch=1", 12}, {"batch=2", 1}, {"batch=3", 10}});
}

TEST_CASE("what the service does not take is kept, and posted when it does") {
  const SyncFolder folder;
  FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  folder.write_misses("misses.json", {{"batch=1", 5}});
  for (const int status : {500, 503, 429, 401, 403, 404, 302}) {
    service.answers["/v1/misses"] = http_answer(status, R"({"error":{"code":"x","message":"No."}})");
    const SyncRound round = sync_once(server, folder);
    CHECK(round.failure.find("answers " + std::to_string(status) + ": x: No.") != std::string::npos);
    CHECK(folder.visible() == Names{"misses.json.claimed"});
  }
  service.answers["/v1/misses"] = "";  // breaks off
  CHECK(sync_once(server, folder).failure != "");
  folder.write_misses("misses.json", {{"batch=1", 8}});  // the runtime writes meanwhile
  service.answers.clear();
  const SyncRound round = sync_once(server, folder);
  CHECK(round.failure == "");
  CHECK(round.miss_files == 2);
  CHECK(folder.visible() == Names{"misses.json.posted"});
  const Json last = Json::parse(server.requests()[server.requests().size() - 2].body);
  CHECK(last["misses"][0]["count"] == 3);
}

TEST_CASE("misses that the service leaves out are said, with its reason if it gives one") {
  const SyncFolder folder;
  FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  int files = 0;
  const auto said = [&](const std::string& reply) {
    service.answers["/v1/misses"] = http_answer(202, reply);
    folder.write_misses(std::to_string(++files) + ".misses.json", {{"batch=1", 1}, {"batch=2", 1}});
    return sync_once(server, folder).warnings;
  };
  CHECK(said(R"({"accepted":2})").empty());
  CHECK(said(R"({"accepted":1})") == Names{"the service takes 1 of 2 misses; the others are past its limits"});
  CHECK(said(R"({"accepted":0,"why":["unknown kernel"]})") ==
        Names{"the service takes 0 of 2 misses; of the others it says: unknown kernel"});
}

TEST_CASE("a file that the service refuses, or that is none, is put aside") {
  const SyncFolder folder;
  FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  folder.write("a.misses.json", "no JSON");
  folder.write("b.misses.json", R"({"moetune_misses": 2, "misses": []})");
  folder.write_misses("c.misses.json", {{"batch=1", 1}});
  service.answers["/v1/misses"] = http_answer(400, R"({"error":{"code":"bad","message":"Not\u001b[31m so."}})");
  const SyncRound round = sync_once(server, folder);
  CHECK(round.failure == "");
  CHECK(round.warnings.size() == 3);
  CHECK(round.warnings.back().find("(400) bad: Not [31m so.; it is kept as") != std::string::npos);
  CHECK(folder.visible() == Names{"a.misses.json.refused", "b.misses.json.refused", "c.misses.json.refused"});
}

TEST_CASE("a file that cannot be renamed keeps neither the others nor the packs from their way") {
  const SyncFolder folder;
  FakeService service;
  service.packs["a.pack"] = real_pack();
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  folder.write_misses("a.misses.json", {{"batch=1", 1}});
  std::filesystem::create_directory(folder / "a.misses.json.posted");
  folder.write_misses("b.misses.json", {{"batch=2", 2}});
  const SyncRound round = sync_once(server, folder);
  CHECK(round.failure.find("cannot rename " + (folder / "a.misses.json.claimed").string()) == 0);
  CHECK(round.misses == 2);
  CHECK(round.installed == Names{"a.pack"});
  CHECK(folder.visible() == Names{"a.misses.json.claimed", "a.misses.json.posted", "a.pack", "b.misses.json.posted"});
}

TEST_CASE("a miss file whose hardware is longer than any name is put aside, not sent with each miss") {
  const SyncFolder folder;
  const FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  const Json file = {{"moetune_misses", 1},
                     {"hardware", std::string(1 << 20, 'x')},
                     {"misses", {{{"kernel", "decode_attention"}, {"problem", "batch=1"}, {"count", 1}}}}};
  folder.write("misses.json", file.dump());
  const SyncRound round = sync_once(server, folder);
  REQUIRE(round.warnings.size() == 1);
  CHECK(round.warnings[0].find("the name of its hardware has 1048576 bytes; at most 128 are taken") !=
        std::string::npos);
  CHECK(folder.visible() == Names{"misses.json.refused"});
  CHECK(received(server).empty());
}

TEST_CASE("many misses go in several requests") {
  const SyncFolder folder;
  const FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  std::map<std::string, int> counts;
  for (int i = 1; i <= 2450; ++i) counts["batch=" + std::to_string(i)] = i;
  folder.write_misses("misses.json", counts);
  CHECK(sync_once(server, folder).misses == 2450);
  CHECK(received(server) == counts);
  CHECK(server.requests().size() == 4);
}

TEST_CASE("what was posted of a file does not go again when the service refuses the rest") {
  const SyncFolder folder;
  const FakeService service;
  int taken = 0;
  const ScriptedServer server([&](const auto& request) {
    if (request.path != "/v1/misses" || ++taken != 2) return service.answer(request);
    return http_answer(429, R"({"error":{"code":"too_many_requests","message":"No."}})");
  });
  std::map<std::string, int> counts;
  for (int i = 1; i <= 1500; ++i) counts["batch=" + std::to_string(i)] = i;
  folder.write_misses("misses.json", counts);
  const SyncRound first = sync_once(server, folder);
  CHECK(first.failure != "");
  CHECK(first.misses == 1000);
  CHECK(folder.visible() == Names{"misses.json.claimed", "misses.json.posted"});
  CHECK(sync_once(server, folder).misses == 500);
  std::size_t refused = 0;
  for (const auto& [problem, count] : received(server)) refused += count > counts[problem] ? 1 : 0;
  CHECK(refused == 500);  // of the request that was refused, which the scripted service saw
  CHECK(folder.visible() == Names{"misses.json.posted"});
  counts["batch=1"] += 7;
  folder.write_misses("misses.json", counts);
  CHECK(sync_once(server, folder).misses == 1);
}
