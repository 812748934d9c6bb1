#include <regex>

#include "cache/cache.h"
#include "tests/cli/scripted_gpu.h"

using namespace moetune::testing;

TEST_CASE("doctor says what is here, and that a machine without a GPU is sound") {
  Tool tool;
  const Ended ended = tool.run({"doctor", "--json"});
  CHECK(ended.code == 0);
  CHECK(ended.err.empty());
  const Json found = document(ended);
  CHECK(found["moetune"]["version"] == document(tool.run({"--version", "--json"}))["version"]);
  CHECK((found["moetune"]["commit"].is_null() ||
         std::regex_match(found["moetune"]["commit"].get<std::string>(), std::regex("[0-9a-f]{7,40}\\+?"))));
  CHECK(std::filesystem::exists(found["NVRTC"]["path"].get<std::string>()));
  CHECK(contains(found["driver"]["why_none"], "no-libcuda"));
  CHECK(found["cache"]["exists"] == false);
  CHECK(found["troubles"].empty());
  CHECK(found["packs"].size() >= 2);  // those of the project that this was built in
  for (const Json& pack : found["packs"]) CHECK(pack["sound"] == true);
  CHECK(found["variables"]["MOETUNE_LIBCUDA"] == tool.path("no-libcuda").string());
  CHECK_FALSE(found["variables"].contains("MOETUNE_PIN"));
  const std::string text = tool.run({"doctor"}).out;
  for (const char* part : {"moetune", "NVRTC", "driver", "NVML", "settings", "cache", "pack", "variables"})
    CHECK(contains(text, std::string("\n") + part + " ") != (std::string(part) == "moetune"));
}

TEST_CASE("doctor names a damaged cache, and what does not work ends with 3") {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  REQUIRE(
      tool.run({"search", "--device", "replay:" + tool.write_recording(), "--budget", "20", "--cache", path}).code ==
      0);
  CHECK(document(tool.run({"doctor", "--cache", path, "--json"}))["cache"]["sound"] == true);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(path);
    file.seekp(4096);
    file << std::string(size - 4096, '\x5a');
  }
  const Ended ended = tool.run({"doctor", "--cache", path, "--json"});
  CHECK(ended.code == 3);
  CHECK(document(ended)["troubles"].size() == 1);
  CHECK(contains(tool.run({"doctor", "--cache", path}).out, "does not work: "));
  const Ended missing = tool.run({"doctor", "--cache", tool.path("typo.db").string(), "--json"});
  CHECK(missing.code == 3);
  CHECK_FALSE(std::filesystem::exists(tool.path("typo.db")));
}

TEST_CASE("doctor without a compiler says where it looked") {
  Tool tool(std::map<std::string, std::string>{{"MOETUNE_NVRTC", "/nowhere"}});
  const Json found = document(tool.run({"doctor", "--json"}));
  CHECK(contains(found["NVRTC"]["why_none"], "/nowhere"));
}

TEST_CASE("doctor on a GPU names driver and NVML") {
  ScriptedGpu gpu;
  const Json found = document(gpu.tool.run({"doctor", "--json"}));
  CHECK(found["driver"]["gpus"].size() == 1);
  CHECK(found["NVML"]["answers"].is_boolean());
}
