// The whole loop, each part a process of its own: a server misses a shape, sync posts it, the service tunes it on a
// recording, its winner is packed by hand (a service publishes none of a recording), sync installs the pack, and the
// server's next refresh picks the tuned variant. The server runs on the scripted driver.
#include <sys/stat.h>

#include "base/ed25519.h"
#include "base/regular_file.h"
#include "cache/cache.h"
#include "replay/recording.h"
#include "tests/cli/served.h"
#include "tests/cli/tool.h"
#include "tests/paths.h"
#include "tests/sync/scripted_server.h"

using namespace moetune::testing;

#ifdef MOETUNE_HAS_SERVING_LOOP

namespace {

constexpr const char* kBeginsWith = "replay:decode_attention_h200_b128_c2048";
const std::string kTunedOn = paths::source("replay/recordings/decode_attention_h200_b8_c4096.json.zst");
constexpr const char* kMissed = "batch=8,q_heads=32,kv_heads=8,head_dim=128,context=4096,dtype=bf16,page=0";

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

// Without variants that write no partial results.
void record_splitting_variants(const std::filesystem::path& file) {
  const moetune::Recording all = moetune::read_recording(kTunedOn);
  moetune::Recording some = all;
  std::vector<moetune::Position> rows;
  some.trials.clear();
  for (moetune::ConfigId id = 0; id < all.space.size(); ++id) {
    if (!contains(all.space.config(id).text(), "combine=last_cta")) continue;
    const auto point = all.space.point(id);
    rows.insert(rows.end(), point.begin(), point.end());
    some.trials.push_back(all.trials[id]);
  }
  some.space = moetune::LegalSpace(all.space.parameters(), std::move(rows));
  moetune::write_recording(some, file);
}

}  // namespace

// The tuned variants split sequences and combine the parts in memory, so that they need more workspace than the
// server's first variant: a server that promised itself that one's would never pick them.
TEST_CASE("a missed shape is tuned by a service and picked, while the server runs") {
  Tool tool, service_tool, inference_tool;
  inference_tool.set_environment("MOETUNE_LIBCUDA", paths::fake_libcuda());
  inference_tool.set_environment("MOETUNE_FAKE_CUDA",
                                 "name=NVIDIA H200");  // whose misses the recording serves
  const std::string key = tool.path("key").string(), packs = tool.path("packs").string(),
                    tuned = tool.path("tuned").string();
  REQUIRE(tool.run({"cache", "new-key", key}).code == 0);
  std::filesystem::create_directory(packs);
  std::filesystem::create_directory(tuned);
  // What the server begins with: a winner of its family for another shape.
  REQUIRE(tool.run({"search", "decode_attention", "--device", kBeginsWith, "--budget", "1"}).code == 0);
  REQUIRE(tool.run({"cache", "export", packs + "/first.pack", "--recorded"}).code == 0);
  REQUIRE(tool.run({"cache", "sign", packs + "/first.pack", "--key", key}).code == 0);

  inference_tool.set_environment("MOETUNE_TRUSTED_KEYS", key + ".pub");
  const auto inference =
      inference_tool.start_program({paths::serving_loop(), packs, "decode_attention", kMissed, "180", "recorded"});
  REQUIRE(within_a_while([&] { return std::filesystem::exists(packs + "/misses.json"); }));

  const std::filesystem::path recording = tool.path("splitting.json.zst");
  record_splitting_variants(recording);
  const Served service(
      service_tool, "service",
      {"--device", "replay:" + recording.string(), "--packs", tuned, "--sign-key", key, "--max-budget", "5"});
  const std::vector<std::string> sync = {"sync", service.url, packs, "--once", "--trust", key + ".pub"};
  const Ended posted = tool.run(sync);
  CHECK_MESSAGE(posted.code == 0, posted.err);
  CHECK(contains(posted.out, "posted 1 miss"));
  const std::string cache = service_tool.path("service.db").string(), by_hand = tuned + "/by_hand.pack";
  REQUIRE(within_a_while([&] {
    return tool.run({"cache", "export", by_hand, "--recorded", "--cache", cache}).code == 0;
  }));
  REQUIRE(tool.run({"cache", "sign", by_hand, "--key", key}).code == 0);
  const Ended synced = tool.run(sync);
  CHECK_MESSAGE(synced.code == 0, synced.err);
  CHECK(contains(synced.out, "installed by_hand.pack"));
  CHECK_FALSE(std::filesystem::exists(tuned + "/service.pack"));

  const Ended ended = inference->wait();
  CHECK_MESSAGE(ended.code == 0, ended.err);
  const std::vector<Json> choices = lines_of(ended.out);
  REQUIRE(choices.size() == 3);
  CHECK(choices[0]["kind"] == "default");
  CHECK(choices[1]["kind"] == "exact");
  CHECK(contains(choices[1]["config"].get<std::string>(), "combine=last_cta"));
  CHECK(choices[1]["file"] == packs + "/by_hand.pack");
  const Json& both = choices[2];
  CHECK(both["before"]["config"] == choices[0]["config"]);
  CHECK(both["after"]["config"] == choices[1]["config"]);
  CHECK(both["requests"].get<int>() >= 4);  // two of each choice
}

#endif

TEST_CASE("packs are signed and checked by the command line") {
  Tool tool;
  const std::string pack = tool.path("a.pack").string(), key = tool.path("key").string();
  std::filesystem::copy_file(paths::source("packs/h200.pack"), pack);
  const Json made = document(tool.run({"cache", "new-key", key, "--json"}));
  CHECK(made["public_key"] == key + ".pub");
  CHECK(made["public"].get<std::string>().size() == 64);
  CHECK(tool.run({"cache", "new-key", key}).code == 2);
  CHECK(contains(tool.run({"cache", "check", pack, "--trust", key + ".pub"}).err, "is not signed"));
  CHECK(contains(tool.run({"cache", "sign", pack}).err, "which key?"));
  const Ended sign = tool.run({"cache", "sign", pack, "--key", key});
  CHECK(sign.code == 0);
  CHECK(contains(sign.out, made["key_id"].get<std::string>()));
  CHECK(contains(tool.run({"cache", "check", pack, "--trust", key + ".pub"}).out, "is sound"));
  CHECK(contains(tool.run({"cache", "check", pack}).out, "is sound"));
  CHECK(tool.run({"cache", "check", pack, "--cache", pack}).code == 2);
  REQUIRE(tool.run({"cache", "new-key", tool.path("other").string()}).code == 0);
  const Ended other = tool.run({"cache", "check", pack, "--trust", tool.path("other.pub").string()});
  CHECK(other.code == 3);
  CHECK(contains(other.err, "not a trusted key"));
  std::ofstream(pack, std::ios::app) << "x";
  CHECK(tool.run({"cache", "check", pack, "--trust", key + ".pub"}).code == 3);
  tool.write("text.pack", "no pack");
  CHECK(tool.run({"cache", "sign", tool.path("text.pack").string(), "--key", key}).code == 3);
  CHECK_FALSE(std::filesystem::exists(tool.path("text.pack.sig")));
  CHECK(tool.run({"cache", "sign", tool.path("none.pack").string(), "--key", key}).code == 2);
  CHECK(tool.run({"cache", "ls", "--key", key}).code == 2);
  CHECK(tool.run({"cache", "ls", "--trust", key}).code == 2);
}

TEST_CASE("what cannot be signed or checked is named for what it is") {
  Tool tool;
  const std::string key = tool.path("key").string(), cache = tool.path("c.db").string();
  REQUIRE(tool.run({"cache", "new-key", key}).code == 0);
  moetune::Cache::open(cache, moetune::Cache::Mode::create);
  const auto refused = [&](const std::vector<std::string>& words, const std::string& says, int code) {
    const Ended ended = tool.run(words);
    CAPTURE(ended.err);
    CHECK(ended.code == code);
    CHECK(contains(ended.err, says));
  };
  refused({"cache", "sign", cache, "--key", key}, "and no pack; `moetune cache export` makes one", 3);
  refused({"cache", "sign", cache, "--key", key + ".pub"}, "key.pub is no secret key", 2);
  refused({"cache", "check", tool.path("none.db").string()}, "moetune: there is no file", 2);
}

TEST_CASE("sync as a command: options, exit codes, and an end at SIGTERM") {
  Tool tool;
  const std::string folder = tool.path("packs").string();
  CHECK(tool.run({"sync", "http://127.0.0.1:1", folder, "--once"}).code == 2);  // no folder
  std::filesystem::create_directory(folder);
  const Ended away = tool.run({"sync", "http://127.0.0.1:1", folder, "--once"});
  CHECK(away.code == 3);
  CHECK(contains(away.err, "cannot reach it"));
  CHECK(tool.run({"sync", "nonsense", folder, "--once"}).code == 2);
  CHECK(tool.run({"sync", "http://127.0.0.1:1", folder, "--every", "x"}).code == 2);
  CHECK(tool.run({"sync", "http://127.0.0.1:1", folder, "--every", "0.1"}).code == 2);
  CHECK(tool.run({"sync", "http://127.0.0.1:1", folder, "--trust", folder}).code == 2);
  CHECK(tool.run({"sync", "http://127.0.0.1:1", folder, "--token-file", folder}).code == 2);
  const ScriptedServer server([](const auto& request) { return http_answer(200, R"({"packs":[]})"); });
  CHECK(contains(tool.run({"sync", server.url(), folder, "--once"}).out, "nothing new"));
  const Json told = document(tool.run({"sync", server.url(), folder, "--once", "--json"}));
  CHECK(told["installed"].empty());
  const auto sidecar = tool.start({"sync", server.url(), folder, "--every", "60s"});
  CHECK(within_a_while([&] { return server.requests().size() == 3; }));
  sidecar->send(SIGTERM);
  CHECK(sidecar->wait().code == 143);
}
