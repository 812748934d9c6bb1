// A server that offers more workspace than it was promised to need.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "include/moetune.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::workspace_test {
using namespace testing;

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";
constexpr std::int64_t kMost[] = {16, 1, 4096}, kFew[] = {2, 1, 512};

std::string split_config(int splits) {
  std::string split = plain_config(32);
  return split.replace(split.find("splits=1,combine=none"), 21,
                       "splits=" + std::to_string(splits) + ",combine=last_cta");
}

// A server that was promised a MiB within kMost and kFew, and a cache that has a winner since which needs more.
struct Promised {
  explicit Promised(int splits = 4) {
    store(folder / "cache.db", {{kProblem}});
    opened.emplace(std::vector<std::filesystem::path>{folder / "cache.db"});
    family = opened->family(kFamily);
    CHECK(asked(moetune_family_workspace, kMost) == MOETUNE_WORKSPACE_COUNTERS);
    before = picked();
    store(folder / "cache.db", {{.problem = kProblem, .config = split_config(splits), .time_us = 5}});
  }

  template <typename Function>
  std::size_t asked(const Function& function, const std::int64_t* extents) const {
    std::size_t bytes = 0;
    REQUIRE_OK(function(family, extents, 3, &bytes));
    return bytes;
  }
  moetune_choice picked(const std::int64_t* extents = kFew) const {
    moetune_choice choice;
    REQUIRE_OK(moetune_pick(family, extents, 3, 0, &choice));
    return choice;
  }
  std::string config() const { return opened->explain(family, picked())["config"]; }
  void refresh() const { REQUIRE_OK(moetune_refresh(opened->runtime(), nullptr)); }
  moetune_status offer(const std::int64_t* extents, std::size_t bytes) const {
    return moetune_offer_workspace(family, extents, 3, bytes);
  }

  Folder folder;
  std::optional<Opened> opened;
  moetune_family* family = nullptr;
  moetune_choice before{};
};

}  // namespace

TEST_CASE("winners that need more workspace serve after an offer and a refresh") {
  const Promised server;
  CHECK(server.asked(moetune_wanted_workspace, kMost) == MOETUNE_WORKSPACE_COUNTERS);  // as the files were read
  server.refresh();
  CHECK(server.config() == plain_config());
  const std::size_t wanted = server.asked(moetune_wanted_workspace, kMost);
  REQUIRE(wanted > MOETUNE_WORKSPACE_COUNTERS);
  CHECK(server.opened->warnings().find("moetune_offer_workspace takes " + std::to_string(wanted)) != std::string::npos);

  REQUIRE_OK(server.offer(kMost, wanted));
  CHECK(server.config() == plain_config());  // until the next refresh
  CHECK(server.asked(moetune_family_workspace, kMost) == wanted);
  server.refresh();
  CHECK(server.config() == split_config(4));
  CHECK(server.opened->warnings().find("workspace") == std::string::npos);
  CHECK(server.asked(moetune_wanted_workspace, kMost) == wanted);
  for (std::int64_t batch = 1; batch <= 16; ++batch) {
    for (std::int64_t context = 1; context <= 4096; context *= 2) {
      const std::int64_t extents[] = {batch, 1, context};
      const moetune_choice choice = server.picked(extents);
      std::size_t bytes = 0;
      REQUIRE_OK(moetune_choice_workspace(server.family, &choice, &bytes));
      CHECK(bytes <= wanted);
    }
  }
}

TEST_CASE("a promise holds for ragged batches of any total, which serve by it") {
  const Folder folder;
  constexpr const char* kRagged = "batch=4,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16,lengths=ragged";
  store(folder / "cache.db", {{kProblem}, {.problem = kRagged, .config = split_config(8)}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  std::size_t promised = 0;
  REQUIRE_OK(moetune_family_workspace(family, kMost, 3, &promised));
  std::size_t most = 0, splits = 0;
  for (std::int64_t batch = 1; batch <= kMost[0]; ++batch) {
    for (std::int64_t context = 1; context <= kMost[2]; context *= 2) {
      for (std::int64_t total = 0; total <= batch * context; total += std::max<std::int64_t>(1, context / 2)) {
        const std::int64_t extents[] = {batch, 1, context};
        moetune_choice choice;
        REQUIRE_OK(moetune_pick(family, extents, 3, total, &choice));
        std::size_t bytes = 0;
        REQUIRE_OK(moetune_choice_workspace(family, &choice, &bytes));
        REQUIRE(bytes <= promised);
        most = std::max(most, bytes);
        splits += opened.explain(family, choice)["config"] == split_config(8) ? 1 : 0;
      }
    }
  }
  CHECK(most == promised);
  CHECK(splits > 1000);
}

TEST_CASE("a promise holds for ragged batches with fewer KV heads") {
  const Folder folder;
  constexpr const char* kRagged = "batch=4,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16,lengths=ragged";
  store(folder / "cache.db", {{.problem = kRagged, .config = split_config(8)}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  for (const std::int64_t most_heads : {3, 5, 8}) {
    for (const std::int64_t most_batch : {4, 7, 16}) {
      const std::int64_t most[] = {most_batch, most_heads, 2048};
      std::size_t promised = 0;
      REQUIRE_OK(moetune_family_workspace(family, most, 3, &promised));
      for (std::int64_t batch = 1; batch <= most_batch; ++batch) {
        for (std::int64_t heads = 1; heads <= most_heads; ++heads) {
          for (std::int64_t total = batch; total <= batch * 2048; total += 640) {
            const std::int64_t extents[] = {batch, heads, 2048};
            moetune_choice choice;
            REQUIRE_OK(moetune_pick(family, extents, 3, total, &choice));
            std::size_t bytes = 0;
            REQUIRE_OK(moetune_choice_workspace(family, &choice, &bytes));
            REQUIRE(bytes <= promised);
          }
        }
      }
    }
  }
}

TEST_CASE("what was handed out before an offer runs on with the workspace that it had") {
  const Promised server;
  server.refresh();
  REQUIRE_OK(server.offer(kMost, std::size_t{1} << 30));
  server.refresh();
  REQUIRE(server.config() == split_config(4));
  DecodeTensors tensors(kProblem);
  tensors.clear_output();
  moetune_arguments arguments;
  std::int64_t extents[MOETUNE_MAX_EXTENTS];
  std::size_t count = 0;
  REQUIRE_OK(moetune_bind(server.family, tensors.tensors().data(), tensors.tensors().size(), nullptr, &arguments,
                          extents, &count));
  std::vector<std::uint8_t> memory(MOETUNE_WORKSPACE_COUNTERS + 256);
  void* const workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 255) / 256 * 256);
  REQUIRE_OK(moetune_launch(server.family, &server.before, &arguments, workspace, MOETUNE_WORKSPACE_COUNTERS, nullptr));
  CHECK(tensors.error() < 0.02);
  const moetune_choice now = server.picked();
  CHECK(moetune_launch(server.family, &now, &arguments, workspace, MOETUNE_WORKSPACE_COUNTERS, nullptr) ==
        MOETUNE_OUT_OF_MEMORY);
}

TEST_CASE("an offer too small to keep what was promised changes nothing") {
  const Promised server;
  CHECK(server.offer(kMost, MOETUNE_WORKSPACE_COUNTERS - 1) == MOETUNE_OUT_OF_MEMORY);
  CHECK(says("less than the 1048576 that were promised"));
  REQUIRE_OK(server.offer(kMost, MOETUNE_WORKSPACE_COUNTERS));  // nothing new
  server.refresh();
  const std::size_t wanted = server.asked(moetune_wanted_workspace, kMost);
  REQUIRE_OK(server.offer(kMost, wanted - 1));
  server.refresh();
  CHECK(server.config() == plain_config());  // a winner that is too large for some extents is picked at none
  CHECK(server.asked(moetune_wanted_workspace, kMost) == wanted);
  REQUIRE_OK(server.offer(kMost, wanted));
  server.refresh();
  CHECK(server.config() == split_config(4));

  const std::int64_t large[] = {64, 1, 8192};  // for which nothing was promised
  const std::size_t needed = server.asked(moetune_wanted_workspace, large);
  REQUIRE(needed > MOETUNE_WORKSPACE_COUNTERS);
  CHECK(server.offer(large, 100) == MOETUNE_OUT_OF_MEMORY);
  CHECK(says(" is less than the " + std::to_string(needed) + " that its choices need"));
  REQUIRE_OK(server.offer(large, needed));
  CHECK(server.asked(moetune_family_workspace, large) == needed);
}

TEST_CASE("the promises of other extents hold after an offer") {
  const Promised server;
  CHECK(server.asked(moetune_family_workspace, kFew) == MOETUNE_WORKSPACE_COUNTERS);
  server.refresh();
  const std::size_t all = server.asked(moetune_wanted_workspace, kMost);
  const std::size_t few = server.asked(moetune_wanted_workspace, kFew);
  CHECK(few > MOETUNE_WORKSPACE_COUNTERS);
  CHECK(few < all);
  REQUIRE_OK(server.offer(kMost, all));
  server.refresh();
  CHECK(server.config() == plain_config());  // still within kFew
  REQUIRE_OK(server.offer(kFew, few));
  server.refresh();
  CHECK(server.config() == split_config(4));
}

TEST_CASE("what no workspace has counters for is not wanted either") {
  const Promised server;
  const std::int64_t many[] = {65535, 8, 512};
  CHECK(server.asked(moetune_family_workspace, many) == MOETUNE_WORKSPACE_COUNTERS);
  server.refresh();
  CHECK(server.config() == plain_config());
  const std::size_t wanted = server.asked(moetune_wanted_workspace, many);
  CHECK(wanted > MOETUNE_WORKSPACE_COUNTERS);
  CHECK(wanted < std::size_t{1} << 24);
}

TEST_CASE("offers are refused for what is no family and no extents") {
  const Promised server;
  std::size_t bytes = 77;
  CHECK(moetune_offer_workspace(nullptr, kMost, 3, 1 << 20) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_offer_workspace(server.family, nullptr, 3, 1 << 20) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_offer_workspace(server.family, kMost, 2, 1 << 20) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_wanted_workspace(nullptr, kMost, 3, &bytes) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_wanted_workspace(server.family, kMost, 3, nullptr) == MOETUNE_INVALID_ARGUMENT);
  const std::int64_t none[] = {0, 1, 64};
  CHECK(moetune_offer_workspace(server.family, none, 3, 1 << 20) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_wanted_workspace(server.family, none, 3, &bytes) == MOETUNE_INVALID_ARGUMENT);
  CHECK(bytes == 77);
  REQUIRE_OK(moetune_offer_workspace(server.family, kMost, 3, ~std::size_t{0}));
}

TEST_CASE("workspace is promised for a bounded number of extents, each of which refreshes look at") {
  const Promised server;  // which asked for one
  for (int i = 1; i < MOETUNE_MAX_PROMISES; ++i) {
    const std::int64_t extents[] = {1, 1, 512 + i};
    REQUIRE_OK(moetune_offer_workspace(server.family, extents, 3, std::size_t{1} << 30));
  }
  const std::int64_t one_more[] = {1, 1, 512};
  std::size_t bytes = 77;
  CHECK(moetune_family_workspace(server.family, one_more, 3, &bytes) == MOETUNE_UNSUPPORTED);
  CHECK(bytes == 77);
  CHECK(says("workspace was promised for 64 other extents, the most there are; ask for the largest"));
  CHECK(moetune_offer_workspace(server.family, one_more, 3, std::size_t{1} << 30) == MOETUNE_UNSUPPORTED);
  CHECK(server.asked(moetune_wanted_workspace, one_more) >= MOETUNE_WORKSPACE_COUNTERS);  // promises nothing
  CHECK(server.asked(moetune_family_workspace, kMost) == MOETUNE_WORKSPACE_COUNTERS);
  REQUIRE_OK(server.offer(kMost, std::size_t{1} << 30));
  server.refresh();
  CHECK(server.config() == split_config(4));
}

}  // namespace moetune::workspace_test
