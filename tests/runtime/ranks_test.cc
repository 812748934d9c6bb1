// Processes that serve side by side, as the ranks of one model do.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>

#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"
#include "tests/texts.h"

namespace moetune::ranks_test {
using namespace testing;

namespace {

namespace fs = std::filesystem;

constexpr const char* kFamilies[] = {"group=4,head_dim=64,page=16", "group=8,head_dim=64,page=16"};

std::vector<FakeWinner> winners() {
  std::vector<FakeWinner> made;
  for (const int group : {4, 8}) {
    for (const int batch : {1, 4, 32}) {
      for (const int context : {64, 1024, 16384})
        made.push_back({"head_dim=64,page=16,kv_heads=1,q_heads=" + std::to_string(group) +
                            ",batch=" + std::to_string(batch) + ",context=" + std::to_string(context),
                        plain_config((batch + context) % 3 == 0 ? 32 : 64)});
    }
  }
  return made;
}

// The generation and many picks, after the families were opened in an order of this rank's own.
std::string served(const fs::path& file, bool backwards) {
  const Opened opened({file});
  moetune_family* families[2];
  for (const int turn : {0, 1}) {
    const int which = backwards ? 1 - turn : turn;
    families[which] = opened.family(kFamilies[which]);
  }
  std::ostringstream text;
  text << opened.generation() << "\n";
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    moetune_family* const family = families[random() % 2];
    const std::int64_t extents[] = {1 + static_cast<std::int64_t>(random() % 64), 1,
                                    1 + static_cast<std::int64_t>(random() % 20000)};
    moetune_choice choice;
    REQUIRE_OK(moetune_pick(family, extents, 3, 0, &choice));
    const nlohmann::json explained = opened.explain(family, choice);
    text << explained["kind"] << " " << explained["config"] << "\n";
  }
  return text.str();
}

// In a process of its own; doctest's failures there are exit status 1.
std::string served_by_a_process(const fs::path& file, const fs::path& answer, bool backwards) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      std::ofstream(answer) << served(file, backwards);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return testing::read_text(answer);
}

}  // namespace

TEST_CASE("equal files give equal picks in every process") {
  const Folder folder;
  store(folder / "cache.db", winners());
  const std::string one = served_by_a_process(folder / "cache.db", folder / "one", false);
  const std::string other = served_by_a_process(folder / "cache.db", folder / "other", true);
  CHECK(one == other);
  CHECK(one.find(",tile=32,") != std::string::npos);  // several choices are among them
  CHECK(one.find(",tile=64,") != std::string::npos);
}

}  // namespace moetune::ranks_test
