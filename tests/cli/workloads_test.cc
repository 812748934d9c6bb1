// The commands around workloads.json: made of a model or of misses, shown, tuned, and gone on with.
#include "tests/cli/scripted_gpu.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

const std::string kConfigs = paths::source("tests/workloads/configs/");

}  // namespace

TEST_CASE("a model's config.json becomes a list that show reads") {
  Tool tool;
  const std::string list = tool.path("w.json").string();
  const Ended made = tool.run({"workloads", "from-config", kConfigs + "gpt-oss-120b.json", "--tp", "2", "--batch",
                               "1..64", "--context", "1k..16k", "--out", list});
  CHECK(made.code == 0);
  CHECK(contains(made.out, "8 workloads"));
  const Json shown = document(tool.run({"workloads", "show", list, "--json"}));
  CHECK(shown["shapes"].size() > 30);
  const Ended printed = tool.run({"workloads", "from-config", kConfigs + "deepseek-v3.json"});
  CHECK(printed.code == 0);
  CHECK(Json::parse(printed.out)["workloads"].size() == 5);
  CHECK(contains(printed.err, "MLA"));
}

TEST_CASE("a model's folder is read by what lies in it, and experts are spread over GPUs") {
  Tool tool;
  const std::filesystem::path folder = tool.path("model");
  std::filesystem::create_directory(folder);
  const std::vector<std::string> read = {"workloads", "from-config", folder.string(), "--json"};
  const Ended empty = tool.run(read);
  CHECK(empty.code == 2);
  CHECK(contains(empty.err, "model holds neither config.json nor params.json"));
  std::filesystem::copy_file(kConfigs + "published/mistral_params.json", folder / "params.json");
  CHECK(document(tool.run(read))["workloads"].size() == 5);
  std::filesystem::copy_file(kConfigs + "deepseek-v3.json", folder / "config.json");
  CHECK(contains(tool.run(read).out, "mla_decode"));
  const Ended spread = tool.run({"workloads", "from-config", folder.string(), "--ep", "8"});
  CHECK(contains(spread.out, "outputs=ranks,ranks=8,ids=i64"));
  CHECK(contains(spread.err, "how many rows one of 8 GPUs gets"));
  const Ended indivisible = tool.run({"workloads", "from-config", folder.string(), "--ep", "7"});
  CHECK(indivisible.code == 2);
  CHECK(contains(indivisible.err, "--ep: expert parallel 7 does not divide 256 experts"));
}

TEST_CASE("what is wrong with a list or an option is one line with its place") {
  Tool tool;
  tool.write("w.json", "{\"moetune_workloads\": 1,\n \"workloads\": [{\"kernel\": \"nothing\"}]}");
  const Ended ended = tool.run({"tune", "--workloads", tool.path("w.json").string()});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "w.json:2: workloads[0].kernel is refused: unknown kernel 'nothing'"));
  CHECK(contains(tool.run({"tune"}).err, "--workloads FILE"));
  CHECK(contains(tool.run({"workloads", "make", "x"}).err, "unknown action 'make'"));
  CHECK(contains(tool.run({"workloads", "from-config", kConfigs + "llama-3-70b.json", "--batch", "5..1"}).err,
                 "--batch: '5..1' ends before it begins"));
  CHECK(contains(tool.run({"workloads", "from-config", kConfigs + "llama-3-70b.json", "--tp", "7"}).err,
                 "--tp: tensor parallel 7 does not divide"));
  CHECK(contains(tool.run({"tune", "--workloads", "x", "--time", "1y"}).err, "--time takes a span of time"));
}

TEST_CASE("a range that no reader of the list would take is refused before anything is written") {
  Tool tool;
  const std::string out = tool.path("o.json").string();
  for (const char* option : {"--batch", "--context"}) {
    const Ended ended =
        tool.run({"workloads", "from-config", kConfigs + "gpt-oss-120b.json", option, "1..1m", "--out", out});
    CAPTURE(ended.err);
    if (std::string(option) == "--context") {  // which ends where the model's contexts do
      CHECK(ended.code == 0);
      continue;
    }
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, "moetune: --batch: batch of decode_attention must lie from 1 to "));
    CHECK_FALSE(std::filesystem::exists(out));
  }
  CHECK(tool.run({"workloads", "show", out}).code == 0);
}

TEST_CASE("a file that lists no miss leaves nothing to tune, and its list can be read") {
  Tool tool;
  tool.write("me.json", R"({"moetune_misses":1,"misses":[]})");
  const std::string misses = tool.path("me.json").string(), out = tool.path("o.json").string();
  const Ended made = tool.run({"workloads", "from-misses", misses, "--over", "batch=1..4", "--out", out});
  CHECK(made.code == 0);
  CHECK(contains(made.err, "me.json lists no miss: there is nothing to tune."));
  CHECK(contains(made.out, "0 workloads, 0 shapes"));
  CHECK(tool.run({"workloads", "show", out}).code == 0);
  const Ended wrong = tool.run({"workloads", "from-misses", misses, "--over", "bogus=1..2"});
  CHECK(wrong.code == 2);
  CHECK(contains(wrong.err, "--over: no kernel has a free dimension 'bogus'"));
}

TEST_CASE("tune does a list heaviest first, and the same command finds it done") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [
      {"kernel": "decode_kernel", "shapes": ["elements=1024", {"problem": "elements=4096", "weight": 9}]}]})");
  const std::vector<std::string> command = {
      "tune", "--workloads", tool.path("w.json").string(), "--time", "5m", "--budget", "2", "--json"};
  const Json first = document(tool.run(command));
  REQUIRE(first["points"].size() == 2);
  CHECK(contains(first["points"][0]["problem"], "elements=4096"));
  for (const Json& point : first["points"]) CHECK(point["state"] == "tuned");
  const Json second = document(tool.run(command));
  for (const Json& point : second["points"]) CHECK(point["state"] == "already_tuned");
}
