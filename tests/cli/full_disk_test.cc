// A night on a disk that fills up at each stage: it ends with a reason, breaks nothing, and the next one goes on.
#include "tests/cli/scripted_gpu.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

// No file may grow past `kib`: what then fails to be written fails as on a full disk.
std::vector<std::string> limited(const Tool& tool, int kib, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      "/bin/bash", "-c", "trap '' XFSZ; ulimit -f " + std::to_string(kib) + "; exec \"$@\"", "bash", tool.binary()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

TEST_CASE("a disk that fills up at any stage of a night costs that night alone") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [
      {"kernel": "decode_kernel", "shapes": ["elements=1024", "elements=2048"]}]})");
  int failed = 0, succeeded = 0;
  // From a lock that cannot be written, over the cache's tables, builds, trials and winner, to all of it.
  for (const int kib : {0, 1, 8, 64, 128, 192, 256, 4096}) {
    const std::string cache = tool.path("kib" + std::to_string(kib) + ".db").string();
    const std::vector<std::string> night = {
        "retune", "--workloads", tool.path("w.json").string(), "--budget", "2", "--threads", "1", "--cache", cache};
    const Ended ended = tool.start_program(limited(tool, kib, night))->wait();
    INFO(kib << " KiB: code " << ended.code << " signal " << ended.signal << "\n" << ended.err);
    CHECK(ended.signal == 0);
    if (ended.code == 0) {
      ++succeeded;
    } else {
      ++failed;
      CHECK((ended.code == 1 || ended.code == 3));
    }
    const Ended next = tool.run(night);
    INFO(next.err);
    CHECK(next.code == 0);
    CHECK(tool.run({"cache", "check", "--cache", cache}).code == 0);
  }
  CHECK(failed >= 3);
  CHECK(succeeded >= 1);
}

TEST_CASE("a log that cannot grow is said once, and a cache that cannot be there ends the night") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [
      {"kernel": "decode_kernel", "shapes": ["elements=1024"]}]})");
  tool.write("night.log", std::string(4096 * 1024, 'x'));
  std::vector<std::string> night = {"retune", "--workloads", tool.path("w.json").string(), "--budget", "2"};
  const auto with = [&](const char* option, const std::string& file) {
    std::vector<std::string> all = night;
    all.insert(all.end(), {option, file});
    return all;
  };
  const Ended ended = tool.start_program(limited(tool, 4096, with("--log", tool.path("night.log").string())))->wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  const std::size_t said = ended.err.find("cannot be written any more");
  CHECK(said != std::string::npos);
  CHECK(ended.err.find("cannot be written any more", said + 1) == std::string::npos);
  CHECK(tool.run(with("--cache", "/dev/full/x.db")).code >= 2);
}
