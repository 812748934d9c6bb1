// A cache where no lock can be had: said at once, and read all the same.
#include <cerrno>

#include "cache/cache.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

// Without a wait for "another process", which takes 30 s: far from both.
constexpr double kAtOnce = 12;

void without_locks(Tool& tool, int error) {
  tool.set_environment("LD_PRELOAD", paths::no_locks());
  tool.set_environment("NO_LOCKS_ERRNO", std::to_string(error));
  tool.set_environment("ASAN_OPTIONS", "verify_asan_link_order=0");  // a tool with ASan is preloaded too
}

}  // namespace

TEST_CASE("where locks do not work a cache is read, and whoever writes says what it is at once") {
  for (const int error : {ENOLCK, EOPNOTSUPP, EACCES, EINVAL, EPERM}) {
    CAPTURE(error);
    Tool tool;
    const std::string path = tool.path("c.db").string(), recording = tool.write_recording();
    const std::vector<std::string> search = {"search",  "--device", "replay:" + recording, "--budget", "20",
                                             "--cache", path};
    REQUIRE(tool.run(search).code == 0);
    const std::string listed = tool.run({"cache", "ls", "--cache", path}).out;
    without_locks(tool, error);
    for (const char* const action : {"ls", "check"}) {
      const Ended ended = tool.run({"cache", action, "--cache", path});
      CAPTURE(ended.err);
      CHECK(ended.code == 0);
      CHECK(ended.seconds < kAtOnce);
      if (action == std::string("ls")) CHECK(ended.out == listed);
    }
    CHECK(tool.run({"report", "--cache", path}).code == 0);
    const Ended written = tool.run(search);
    CHECK(written.code == 3);
    CHECK(written.seconds < kAtOnce);
    CHECK(contains(written.err, "locks do not work where " + path + " lies"));
    CHECK_FALSE(contains(written.err, "another process"));
  }
}

TEST_CASE("what a killed search left in the log is read where locks do not work") {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  const auto search = tool.start({"search", "--device", "replay:" + tool.write_recording(), "--budget", "2000",
                                  "--strategy", "random", "--cache", path});
  const std::vector<std::string> list = {"cache", "ls", "--json", "--cache", path};
  REQUIRE(moetune::testing::within_a_while([&] {
    const Ended listed = tool.run(list);
    return listed.code == 0 && document(listed)["trials"] > 0;
  }));
  search->send(SIGKILL);
  search->wait();
  REQUIRE(std::filesystem::exists(path + "-wal"));
  const Json before = document(tool.run(list));
  without_locks(tool, ENOLCK);
  CHECK(document(tool.run(list))["trials"] == before["trials"]);
  CHECK(tool.run({"cache", "check", "--cache", path}).code == 0);
}
