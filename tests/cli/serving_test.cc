// From a search to a server's files and back: packs of winners, and searches of what a server missed.
#include "tests/cli/scripted_gpu.h"

using namespace moetune::testing;

TEST_CASE("a server's misses are searched, and what was found is exported as a pack that nobody writes to") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.write("misses.json",
             R"({"moetune_misses": 1, "hardware": "x", "misses": [
                  {"kernel": "decode_kernel", "problem": "elements=65536", "count": 9},
                  {"kernel": "decode_kernel", "problem": "elements=32768", "count": 2}]})");
  const Ended found =
      tool.run({"search", "--from-misses", tool.path("misses.json").string(), "--budget", "1", "--json"});
  CAPTURE(found.err);
  REQUIRE(found.code == 0);
  const Json searches = document(found)["searches"];
  REQUIRE(searches.size() == 2);
  CHECK(searches[0]["problem"].dump().find("65536") != std::string::npos);

  const std::string pack = tool.path("tuned.pack").string();
  const Ended made = tool.run({"cache", "export", pack, "--json"});
  CAPTURE(made.err);
  REQUIRE(made.code == 0);
  CHECK(document(made)["winners"] == 2);
  CHECK(contains(tool.run({"cache", "check", "--cache", pack}).out, "is sound"));
  CHECK(document(tool.run({"cache", "ls", "--cache", pack, "--json"}))["winners"] == 2);
  const Ended written = tool.run({"search", "decode_kernel", "--budget", "1", "--cache", pack});
  CHECK(written.code == 3);
  CHECK(contains(written.err, "is a pack, which is only read"));

  CHECK(tool.run({"cache", "export", pack, "--kernel", "router"}).code == 2);
  CHECK(contains(tool.run({"cache", "export", tool.path("misses.json").string()}).err, "exists and is no pack"));
  CHECK(contains(tool.run({"cache", "export"}).err, "which PACK?"));
}

TEST_CASE("a miss that cannot be searched is left out, and the others are searched") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.write("misses.json",
             R"({"moetune_misses": 1, "hardware": "x", "misses": [
                  {"kernel": "decode_kernel", "problem": "elements=x", "count": 9},
                  {"kernel": "no_kernel", "problem": "", "count": 3},
                  {"kernel": "decode_kernel", "problem": "elements=32768", "count": 2}]})");
  const Ended found =
      tool.run({"search", "--from-misses", tool.path("misses.json").string(), "--budget", "1", "--json"});
  CAPTURE(found.err);
  CHECK(found.code == 1);
  const Json told = document(found);
  CHECK(told["searches"].size() == 1);
  REQUIRE(told["left_out"].size() == 2);
  CHECK(told["left_out"][1]["kernel"] == "no_kernel");
  CHECK(contains(found.err, "is left out"));
}

TEST_CASE("sync and search say that a token is sent in the clear, unless the service is this machine") {
  Tool tool;
  tool.write("token", "a-token-of-some-thirty-characters\n");
  std::filesystem::permissions(tool.path("token"), std::filesystem::perms(0600));
  std::filesystem::create_directories(tool.path("packs"));
  for (const auto& [url, is_clear] : {std::pair("http://127.0.0.2:9", true),
                                      {"http://127.0.0.1:9", false},
                                      {"http://[::1]:9", false},
                                      {"http://localhost:9", false},
                                      {"https://127.0.0.2:9", false}}) {
    CAPTURE(url);
    const Ended ended =
        tool.run({"sync", url, tool.path("packs").string(), "--once", "--token-file", tool.path("token").string()});
    CHECK(ended.code == 3);
    CHECK(contains(ended.err, "without TLS, and can be read on the way") == is_clear);
    const Ended search = tool.run({"search", "act_mul", "--server", url, "--token-file", tool.path("token").string()});
    CHECK(search.code == 3);
    CHECK(contains(search.err, "without TLS, and can be read on the way") == is_clear);
  }
}
