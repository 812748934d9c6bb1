// Choices by other ways than a table's, and those that a family must not take.
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/utf8.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::choices_test {
using namespace testing;

namespace {

constexpr const char* kShort = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";
constexpr const char* kLong = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";

}  // namespace

TEST_CASE("a pinned configuration has workspaces, ranges and refreshes like any other") {
  const Folder folder;
  std::string split = plain_config(32);
  split.replace(split.find("splits=1,combine=none"), 21, "splits=8,combine=last_cta");
  store(folder / "cache.db", {{kShort}, {.problem = kLong, .config = split}});
  ::setenv("MOETUNE_PIN", ("decode_attention:" + split).c_str(), 1);
  const Opened opened({folder / "cache.db"});
  ::unsetenv("MOETUNE_PIN");
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t extents[] = {3, 1, 3000};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick_range(family, extents, 3, 4000, 0, &choice));
  CHECK(choice.kind == MOETUNE_CHOICE_PINNED);
  std::size_t needed = 0, promised = 0, wanted = 0;
  REQUIRE_OK(moetune_choice_workspace(family, &choice, &needed));
  CHECK(needed > MOETUNE_WORKSPACE_COUNTERS);
  const std::int64_t most[] = {3, 1, 4000};
  REQUIRE_OK(moetune_family_workspace(family, most, 3, &promised));
  CHECK(promised == needed);
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  REQUIRE_OK(moetune_wanted_workspace(family, most, 3, &wanted));
  CHECK(wanted == promised);
}

TEST_CASE("the 257th family is refused") {
  const Folder folder;
  std::vector<FakeWinner> winners;
  for (int window = 1; window <= 257; ++window)
    winners.push_back({std::string(kShort) + ",window=" + std::to_string(window)});
  store(folder / "cache.db", winners);
  const Opened opened({folder / "cache.db"});
  const auto family_of = [&](int window) { return std::string(kFamily) + ",window=" + std::to_string(window); };
  moetune_family* const first = opened.family(family_of(1).c_str());
  for (int window = 2; window <= 256; ++window) opened.family(family_of(window).c_str());
  moetune_family* family = nullptr;
  CHECK(moetune_family_open(opened.runtime(), "decode_attention", family_of(257).c_str(), &family) ==
        MOETUNE_UNSUPPORTED);
  CHECK(says("at most 256 families"));
  CHECK(opened.family(family_of(1).c_str()) == first);
}

TEST_CASE("a choice of another family is refused") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}, {"batch=2,q_heads=8,kv_heads=1,head_dim=64,context=512,page=16"}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  moetune_family* const other = opened.family("group=8,head_dim=64,page=16");
  const std::int64_t extents[] = {2, 1, 512};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(other, extents, 3, 1024, &choice));
  char text[1024];
  std::size_t bytes = 0;
  CHECK_OK(moetune_explain(other, &choice, text, sizeof text, nullptr));
  CHECK(moetune_explain(family, &choice, text, sizeof text, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("group=4"));
  CHECK(moetune_choice_workspace(family, &choice, &bytes) == MOETUNE_INVALID_ARGUMENT);
  const moetune_arguments arguments{};
  CHECK(moetune_launch(family, &choice, &arguments, nullptr, 0, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("for this family"));
}

TEST_CASE("a long sentence is cut, and stays UTF-8") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}});
  const Opened opened({folder / "cache.db"});
  for (const std::size_t before : {0, 1}) {
    std::string name(before, 'x');
    for (int i = 0; i < 3000; ++i) name += "\u00e9";
    CHECK(moetune_refresh(opened.runtime(), name.c_str()) == MOETUNE_UNKNOWN_NAME);
    const std::string sentence = moetune_last_error();
    CHECK(sentence.size() >= 1996);
    CHECK(sentence.size() <= 2000);
    CHECK(is_utf8(sentence));
  }
}

}  // namespace moetune::choices_test
